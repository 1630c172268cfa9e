//! An application for loops does not go on workers: its context promises what there is not.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, Observer, Workers, observe, pipeline};

struct Log;

impl Observer for Log {
    type Read = BytesMut;
    type Write = Bytes;
}

struct Slow;

impl Application for Slow {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

fn main() {
    let workers = Workers::new(1).unwrap();
    let _ = pipeline().add(observe(Log)).app_on(&workers, Slow);
}

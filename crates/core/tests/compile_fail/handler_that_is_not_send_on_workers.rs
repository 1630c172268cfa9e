//! A handler that holds an `Rc` cannot run on workers.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, OnWorker, Workers, pipeline};
use std::rc::Rc;

struct Counts(Rc<u32>);

impl Application<OnWorker> for Counts {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, _: &mut AppContext<'_, Self, OnWorker>, _: BytesMut) {}
}

fn main() {
    let workers = Workers::new(1).unwrap();
    let _ = pipeline().app_on(&workers, Counts(Rc::new(0)));
}

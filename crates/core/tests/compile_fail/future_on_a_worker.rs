//! A stage on workers has no futures: those belong to a loop.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, OnWorker};

struct Greeter;

impl Application<OnWorker> for Greeter {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, name: BytesMut) {
        cx.spawn(async move { name.freeze() }, |_, cx, name| cx.write_and_flush(name));
    }
}

fn main() {}

//! A handler for loops does not go on workers: its context promises what there is not.

use bytes::{Bytes, BytesMut};
use netwright_core::{Context, Handler, Workers, WritePromise, pipeline};

struct Through;

impl Handler for Through {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

fn main() {
    let workers = Workers::new(1).unwrap();
    let _ = pipeline().add_on(&workers, Through);
}

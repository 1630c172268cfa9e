use bytes::{Bytes, BytesMut};
use netwright_core::{Context, Handler, WritePromise, pipeline};

/// Bytes to lines and back.
struct Lines;

impl Handler for Lines {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;
    fn read(&mut self, _: &mut Context<'_, Self>, _: BytesMut) {}
    fn write(&mut self, _: &mut Context<'_, Self>, _: String, _: WritePromise) {}
}

/// Writes bytes where lines are wanted.
struct Shout;

impl Handler for Shout {
    type Read = String;
    type ReadOut = String;
    type Write = Bytes;
    type WriteOut = Bytes;
    fn read(&mut self, _: &mut Context<'_, Self>, _: String) {}
    fn write(&mut self, _: &mut Context<'_, Self>, _: Bytes, _: WritePromise) {}
}

fn main() {
    let _ = pipeline().add(Lines).add(Shout);
}

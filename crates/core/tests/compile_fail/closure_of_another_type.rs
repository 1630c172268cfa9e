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

fn main() {
    // It is called with text.
    let _ = pipeline().add(Lines).handle(|_, number: u64| println!("{number}"));
}

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, Context, Handler, WritePromise, pipeline};

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

/// Sends every line back.
struct Echo;

impl Application for Echo {
    type Read = String;
    type Write = String;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        cx.write_and_flush(line);
    }
}

fn main() {
    let _ = pipeline().add(Lines).app(Echo).app(Echo);
}

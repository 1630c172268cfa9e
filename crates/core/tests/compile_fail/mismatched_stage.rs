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

/// Reads numbers, and so does not fit behind lines.
struct Double;

impl Application for Double {
    type Read = u64;
    type Write = String;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, number: u64) {
        cx.write_and_flush((2 * number).to_string());
    }
}

fn main() {
    let _ = pipeline().add(Lines).app(Double);
}

//! A stage that has to see every byte cannot be asked to send a file.
use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, Context, Handler, Outgoing, WritePromise, pipeline};

struct Scrambles;

impl Handler for Scrambles {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;
    fn read(&mut self, _: &mut Context<'_, Self>, _: BytesMut) {}
    fn write(&mut self, _: &mut Context<'_, Self>, _: Bytes, _: WritePromise) {}
}

struct Files;

impl Application for Files {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

fn main() {
    let _ = pipeline().add(Scrambles).app(Files);
}

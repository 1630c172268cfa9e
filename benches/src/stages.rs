//! Stages that several benches measure.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, Context, Handler, WritePromise};

/// Type-preserving, and does nothing.
#[derive(Debug)]
pub struct Pass;

impl Handler for Pass {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    #[inline]
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    #[inline]
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

/// What comes goes back.
#[derive(Debug)]
pub struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Bytes;

    #[inline]
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    #[inline]
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // once for all that came in this turn
    }
    fn start_over(&mut self) -> bool {
        true
    }
}

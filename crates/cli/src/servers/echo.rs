//! Every byte goes back to where it came from (RFC 862).

use super::front::Front;
use crate::record::Tape;
use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Promised, Server, pipeline,
    pipeline::{HalfClosure, IntoPipeline},
    server::{BindError, ServerBuilder},
};

pub(crate) fn bind(server: ServerBuilder, address: &str, front: Front) -> Promised<Server, BindError> {
    front.bind(server, address, |_, tape| stages(tape))
}

pub(crate) fn stages(tape: &Tape) -> impl IntoPipeline<Bytes> + use<> {
    pipeline().add(tape.stage()).app(Echo)
}

struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush(); // once for all that came in this turn
    }

    /// Who does not read the answers is not read either: what we hold for a peer is bounded by the water marks.
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable { cx.resume() } else { cx.pause() }
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    /// `echo hello | nc …` announces its end together with the question; the answer is sent first.
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
        cx.close_when_flushed();
    }
}

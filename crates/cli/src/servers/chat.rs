//! A room for those who connect with lines of text.

use super::{
    front::Front,
    room::{News, Room, harmless},
};
use crate::record::Tape;
use bytes::Bytes;
use netwright::{
    AppContext, Application, CloseCause, Fault, Promised, Server,
    codec::LineFrames,
    pipeline,
    pipeline::{HalfClosure, IntoPipeline},
    server::{BindError, ServerBuilder},
};

/// A screen or two of text.
const LINE_MAX: usize = 4096;

/// In a room that others may enter in other ways.
pub(crate) fn bind(
    room: Room,
    server: ServerBuilder,
    address: &str,
    front: Front,
) -> Promised<Server, BindError> {
    front.bind(server, address, move |_, tape| stages(&room, tape))
}

pub(crate) fn stages(room: &Room, tape: &Tape) -> impl IntoPipeline<Bytes> + use<> {
    let lines = LineFrames::max(LINE_MAX).fail_fast(true);
    pipeline().add(tape.stage()).add(lines).app(Chat { room: room.clone(), name: String::new() })
}

struct Chat {
    room: Room,
    name: String,
}

impl Application for Chat {
    type Read = Bytes;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.name = cx.view().peer_addr().map_or_else(|| cx.view().id().to_string(), |peer| peer.to_string());
        self.room.enter_by_lines(cx.channel());
        cx.write_and_flush(News::You { who: &self.name, others: self.room.others() }.line());
        self.room.tell_others(cx.view().id(), News::Came { who: &self.name });
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: Bytes) {
        self.room.tell_others(cx.view().id(), News::Say { who: &self.name, text: &harmless(&line) });
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.close_when_flushed();
    }

    fn error(&mut self, cx: &mut AppContext<'_, Self>, fault: Fault) {
        tracing::info!(peer = self.name, error = %fault, "closing");
        cx.write_and_flush(format!("* goodbye: lines have at most {LINE_MAX} bytes here"));
        cx.close_when_flushed();
    }

    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        tracing::info!(peer = self.name, %cause, "left");
        self.room.tell_others(cx.view().id(), News::Left { who: &self.name });
    }
}

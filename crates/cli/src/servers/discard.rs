//! Reads everything and answers nothing (RFC 863).

use crate::record::Tape;
use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Promised, Server, pipeline,
    server::{BindError, ServerBuilder},
};

pub(crate) fn bind(server: ServerBuilder, address: &str, tape: Tape) -> Promised<Server, BindError> {
    server.pipeline(move |_| pipeline().add(tape.stage()).app(Discard)).bind(address)
}

struct Discard;

impl Application for Discard {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

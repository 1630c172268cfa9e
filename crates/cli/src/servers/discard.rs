//! Reads everything and answers nothing (RFC 863).

use super::front::Front;
use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Promised, Server, pipeline,
    server::{BindError, ServerBuilder},
};

pub(crate) fn bind(server: ServerBuilder, address: &str, front: Front) -> Promised<Server, BindError> {
    front.bind(server, address, |_, tape| pipeline().add(tape.stage()).app(Discard))
}

struct Discard;

impl Application for Discard {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

//! Reads everything and answers nothing (RFC 863).

use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Promised, Server, pipeline,
    server::{BindError, ServerBuilder},
};

pub(crate) fn bind(server: ServerBuilder, address: &str) -> Promised<Server, BindError> {
    server.pipeline(|_| pipeline().app(Discard)).bind(address)
}

struct Discard;

impl Application for Discard {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

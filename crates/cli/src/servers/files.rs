//! The files of a directory over HTTP.

use super::front::Front;
use crate::record::Tape;
use netwright::{
    Promised, Server,
    http::{
        HttpServer, ReplyPart,
        web::{AccessLog, Files},
    },
    pipeline,
    pipeline::IntoPipeline,
    server::{BindError, ServerBuilder},
};

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    front: Front,
    files: Files,
) -> Promised<Server, BindError> {
    let log = AccessLog::tracing(); // seen with -v
    front.bind(server, address, move |_, tape| stages(&files, &log, tape))
}

pub(crate) fn stages(files: &Files, log: &AccessLog, tape: &Tape) -> impl IntoPipeline<ReplyPart> + use<> {
    pipeline().add(tape.stage()).add(HttpServer::new()).add(log.stage()).app(files.server())
}

//! The files of a directory over HTTP.

use super::secure;
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
    tls::Acceptor,
};

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    tls: Option<Acceptor>,
    files: Files,
    tape: Tape,
) -> Promised<Server, BindError> {
    let log = AccessLog::tracing(); // seen with -v
    secure::bind(server, address, tls, move || stages(&files, &log, &tape))
}

pub(crate) fn stages(files: &Files, log: &AccessLog, tape: &Tape) -> impl IntoPipeline<ReplyPart> + use<> {
    pipeline().add(tape.stage()).add(HttpServer::new()).add(log.stage()).app(files.server())
}

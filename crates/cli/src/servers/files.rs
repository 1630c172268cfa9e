//! The files of a directory over HTTP.

use super::secure;
use netwright::{
    Promised, Server,
    http::{
        HttpServer,
        web::{AccessLog, Files},
    },
    pipeline,
    server::{BindError, ServerBuilder},
    tls::Acceptor,
};

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    tls: Option<Acceptor>,
    files: Files,
) -> Promised<Server, BindError> {
    let log = AccessLog::tracing(); // seen with -v
    let make = move || pipeline().add(HttpServer::new()).add(log.stage()).app(files.server());
    secure::bind(server, address, tls, make)
}

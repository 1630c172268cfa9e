//! The files of a directory over HTTP.

use super::{front::Front, versions::Versions};
use crate::record::Tape;
use netwright::{
    Promised, Server,
    http::{
        HttpVersions,
        web::{AccessLog, Files},
    },
    pipeline,
    pipeline::IntoPipeline,
    server::{BindError, ServerBuilder},
};
use std::convert::Infallible;

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    front: Front,
    files: Files,
    versions: Versions,
) -> Promised<Server, BindError> {
    let log = AccessLog::tracing(); // seen with -v
    front.bind(server, address, move |_, tape| stages(&files, &log, versions, tape))
}

pub(crate) fn stages(
    files: &Files,
    log: &AccessLog,
    versions: Versions,
    tape: &Tape,
) -> impl IntoPipeline<Infallible> + use<> {
    let (files, log) = (files.clone(), log.clone());
    let web = HttpVersions::new(move || pipeline().add(log.stage()).app(files.server()));
    pipeline().add(tape.stage()).then(versions.of(web).pipeline())
}

//! Every WebSocket message goes back to where it came from.

use super::{front::Front, versions::Versions};
use crate::record::Tape;
use http::{Response, StatusCode, header};
use netwright::{
    AppContext, Application, Promised, Server,
    http::{HttpVersions, respond},
    pipeline,
    pipeline::IntoPipeline,
    server::{BindError, ServerBuilder},
    websocket::{Accept, Config, Deflate, Message, Upgrade},
};
use std::{convert::Infallible, sync::Arc};

/// What test suites send, and browsers like to.
const MESSAGE_MAX: usize = 16 << 20;

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    front: Front,
    versions: Versions,
) -> Promised<Server, BindError> {
    let accept = accept();
    front.bind(server, address, move |_, tape| stages(&accept, versions, tape))
}

/// What all connections share.
pub(crate) fn accept() -> Arc<Accept> {
    let config = Config::default().max_message(MESSAGE_MAX).deflate(Deflate::default().takeover(true).min(0));
    Arc::new(Accept::new(config).protocols(["echo"]))
}

pub(crate) fn stages(
    accept: &Arc<Accept>,
    versions: Versions,
    tape: &Tape,
) -> impl IntoPipeline<Infallible> + use<> {
    let accept = accept.clone();
    let web = HttpVersions::new(move || {
        let accept = accept.clone();
        pipeline().joint_between(|switch| {
            let upgrade = Upgrade::tunnel(switch, accept, |socket, _, _| pipeline().add(socket).app(Echo));
            pipeline().add(upgrade).app(respond(|_| others())).sealed()
        })
    });
    pipeline().add(tape.stage()).then(versions.of(web).pipeline())
}

/// What everybody hears who does not ask for a WebSocket.
fn others() -> Response<&'static str> {
    let reply = Response::builder().status(StatusCode::UPGRADE_REQUIRED).header(header::UPGRADE, "websocket");
    reply.body("this is a WebSocket server: every message comes back\n").expect("these are headers")
}

struct Echo;

impl Application for Echo {
    type Read = Message;
    type Write = Message;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
        cx.write(message);
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }

    /// Who does not read the answers is not read either.
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        if writable { cx.resume() } else { cx.pause() }
    }
}

//! Netwright, by readiness or by io_uring: `--driver readiness|uring`.
//!
//! Written as a user would who wants it fast: replies made in maps that were used before, a flush for all that one read brought.

use bytes::{Bytes, BytesMut};
use http::{
    HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, SERVER},
};
use kit::{Mode, Task};
use netwright::{
    AppContext, Application, Backend, Server,
    http::{
        HttpPart, HttpServer, Received, ReplyPart, RequestPart, header_map, http2::http2_server, respond,
    },
    pipeline,
    tls::{Acceptor, Tls},
    websocket::{Accept, Config, Message, Upgrade},
};
use std::{error::Error, sync::Arc};

fn main() -> Result<(), Box<dyn Error>> {
    let task = Task::from_args();
    let backend = match &*task.driver {
        "readiness" => Backend::Readiness,
        "uring" => Backend::Uring,
        _ => task.refuse(),
    };
    let builder = Server::builder().group(backend.event_loops(task.threads)?).shared_port(task.threads > 1);
    let bound = match task.mode {
        Mode::Echo => builder.pipeline(|_| pipeline().app(Echo)),
        Mode::Http => builder.pipeline(|_| pipeline().add(HttpServer::new()).app(respond(page))),
        Mode::Https => {
            let acceptor = Acceptor::from_config(Arc::new(kit::tls::config()));
            builder.pipeline(move |_| {
                pipeline().add(Tls::server(&acceptor)).add(HttpServer::new()).app(respond(page))
            })
        }
        Mode::Http2 => {
            builder.pipeline(|_| pipeline().last(http2_server(|| pipeline().app(Streams::default()))))
        }

        Mode::WebSocket => {
            let accept = Arc::new(Accept::new(Config::default()));
            builder.pipeline(move |_| {
                let accept = accept.clone();
                pipeline().joint(|switch| {
                    let upgrade =
                        Upgrade::new(switch, accept, |socket, _, _| pipeline().add(socket).app(EchoMessages));
                    pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
                })
            })
        }
    };
    let server = bound.bind("127.0.0.1:0").wait()?;
    kit::announce(server.address());
    Ok(server.group().termination().wait()?)
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
}

struct EchoMessages;

impl Application for EchoMessages {
    type Read = Message;
    type Write = Message;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
        cx.write(message);
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// Answers when all of a request has come; a body is taken as it comes.
#[derive(Default)]
struct Streams {
    reply: Option<Response<Bytes>>,
}

impl Application for Streams {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        match part {
            HttpPart::Whole(head, _) => {
                cx.write(at(head.uri.path()).into());
                head.recycle();
            }
            HttpPart::Head(head) => self.reply = Some(at(head.uri.path())),
            HttpPart::End(_) => {
                if let Some(reply) = self.reply.take() {
                    cx.write(reply.into());
                }
            }
            _ => {}
        }
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }

    fn start_over(&mut self) -> bool {
        self.reply = None;
        true
    }
}

fn page(request: &Received) -> Response<Bytes> {
    at(request.uri().path())
}

fn at(path: &str) -> Response<Bytes> {
    match path {
        "/" => reply("text/plain", Bytes::from_static(kit::http::HELLO.as_bytes())),
        "/64k" => reply("text/plain", Bytes::from_static(&kit::http::LONG)),
        "/json" => reply("application/json", kit::http::json().into()),
        _ => {
            let mut reply = Response::new(Bytes::new());
            *reply.status_mut() = StatusCode::NOT_FOUND;
            reply
        }
    }
}

fn reply(kind: &'static str, body: Bytes) -> Response<Bytes> {
    let mut reply = Response::new(body);
    *reply.headers_mut() = header_map();
    reply.headers_mut().insert(SERVER, HeaderValue::from_static(kit::http::SERVER));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

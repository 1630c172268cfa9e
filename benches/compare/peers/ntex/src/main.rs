//! ntex on its own reactors, epoll or io_uring; which of them is decided when it is built. HTTP is `ntex::web`.
//!
//! Buffers are as large as everybody's here. TCP_NODELAY is what it sets by itself.

use kit::{Mode, Task};
use ntex::{
    SharedCfg,
    codec::BytesCodec,
    http::{
        HttpServiceConfig, KeepAlive, StatusCode,
        body::Body,
        header::{CONTENT_TYPE, HeaderValue, SERVER},
    },
    io::{Io, IoConfig},
    service::fn_service,
    time::Seconds,
    util::Bytes,
    web::{self, App, HttpResponse},
};
use std::io;

#[ntex::main]
async fn main() -> io::Result<()> {
    let task = Task::from_args();
    let buffers = IoConfig::new().set_read_buf(kit::BUFFER, 2048, 128).set_write_buf(kit::BUFFER, 2048, 128);
    match task.mode {
        Mode::Echo => {
            ntex::server::build()
                .workers(task.threads)
                .listen("echo", kit::one_listener(), async |_| fn_service(echo))?
                .config("echo", SharedCfg::new("echo").add(buffers))
                .run()
                .await
        }
        Mode::Http => {
            let http =
                HttpServiceConfig::new().set_keepalive(KeepAlive::Os).set_client_timeout(Seconds::ZERO);
            web::server(async || {
                App::new().service(web::resource("/").to(hello)).service(web::resource("/json").to(json))
            })
            .workers(task.threads)
            .listen(kit::one_listener())?
            .config(SharedCfg::new("web").add(buffers).add(http))
            .run()
            .await
        }
        _ => task.refuse(),
    }
}

async fn echo(io: Io) -> Result<(), ()> {
    while let Ok(Some(bytes)) = io.recv(&BytesCodec).await {
        if io.send(bytes, &BytesCodec).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn hello() -> HttpResponse {
    reply("text/plain", Bytes::from_static(kit::http::HELLO.as_bytes()))
}

async fn json() -> HttpResponse {
    reply("application/json", kit::http::json().into())
}

fn reply(kind: &'static str, body: Bytes) -> HttpResponse {
    let mut reply = HttpResponse::with_body(StatusCode::OK, Body::Bytes(body));
    reply.headers_mut().append(SERVER, HeaderValue::from_static(kit::http::SERVER));
    reply.headers_mut().append(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

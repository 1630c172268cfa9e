//! actix-web: HTTP, and HTTPS by rustls. `Date` and `Content-Length` it writes by itself, TCP_NODELAY it does not set unless told.

use actix_web::{
    App, HttpResponse, HttpServer,
    http::{
        KeepAlive, StatusCode,
        header::{CONTENT_TYPE, HeaderValue, SERVER},
    },
    web,
};
use kit::{Mode, Task};
use std::{io, time::Duration};

#[actix_web::main]
async fn main() -> io::Result<()> {
    let task = Task::from_args();
    let server = HttpServer::new(|| {
        App::new().service(web::resource("/").to(hello)).service(web::resource("/json").to(json))
    })
    .workers(task.threads)
    .keep_alive(KeepAlive::Os)
    .client_request_timeout(Duration::ZERO)
    .tcp_nodelay(true);
    let server = match task.mode {
        Mode::Http => server.listen(kit::one_listener())?,
        Mode::Https => server.listen_rustls_0_23(kit::one_listener(), kit::tls::config())?,
        _ => task.refuse(),
    };
    server.run().await
}

async fn hello() -> HttpResponse {
    reply("text/plain", web::Bytes::from_static(kit::http::HELLO.as_bytes()))
}

async fn json() -> HttpResponse {
    reply("application/json", kit::http::json().into())
}

fn reply(kind: &'static str, body: web::Bytes) -> HttpResponse {
    let mut reply = HttpResponse::with_body(StatusCode::OK, body);
    reply.headers_mut().append(SERVER, HeaderValue::from_static(kit::http::SERVER));
    reply.headers_mut().append(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply.map_into_boxed_body()
}

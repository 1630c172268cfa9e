//! Files as replies of services.

use super::{
    FileReply, Files,
    reply::{Body as Parts, part_len},
};
use crate::{Body, HttpPart, ReplyPart, web::Reply};
use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode, header, request};
use netwright_core::Workers;
use std::io;

/// Several ranges of one reply that are put together in memory. With more than that, the whole file is sent.
const TOGETHER_MAX: u64 = 1 << 20;

impl Files {
    /// The reply to a request, for services: files are opened by workers, so that the loop does not wait.
    ///
    /// ```no_run
    /// use http::Request;
    /// use netwright_core::pipeline;
    /// use netwright_http::{Body, HttpServer, serve, web::Files};
    ///
    /// # fn main() -> std::io::Result<()> {
    /// let files = Files::below("public")?;
    /// let one_connection = pipeline().add(HttpServer::new()).app(serve(move |request: Request<Body>| {
    ///     let files = files.clone();
    ///     async move { files.respond(request.into_parts().0).await }
    /// }));
    /// # drop(one_connection);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn respond(&self, request: request::Parts) -> Response<Body> {
        let files = self.clone();
        let Ok(workers) = Workers::common() else { return plain(StatusCode::INTERNAL_SERVER_ERROR) };
        let Ok(reply) = workers.submit(move || files.response(request)) else {
            return plain(StatusCode::SERVICE_UNAVAILABLE); // they have too much to do
        };
        reply.await.unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
    }

    /// The same, by whoever may wait.
    fn response(&self, mut request: request::Parts) -> Response<Body> {
        let FileReply { head, body } = self.answer(&request);
        let body = match body {
            Parts::Whole(bytes) => bytes.into(),
            Parts::Parts(mut parts) => match parts.len() {
                0 => Body::empty(),
                1 => match parts.pop() {
                    Some(HttpPart::File(region)) => region.into(),
                    Some(HttpPart::Data(data)) => data.into(),
                    _ => Body::empty(),
                },
                _ if parts.iter().map(part_len).sum::<u64>() > TOGETHER_MAX => {
                    request.headers.remove(header::RANGE);
                    return self.response(request);
                }
                _ => match together(parts) {
                    Ok(bytes) => bytes.into(),
                    Err(_) => return plain(StatusCode::INTERNAL_SERVER_ERROR),
                },
            },
        };
        Response::from_parts(head.into_parts(), body)
    }
}

fn plain(status: StatusCode) -> Response<Body> {
    Reply::status(status).map(Body::from)
}

fn together(parts: Vec<ReplyPart>) -> io::Result<Bytes> {
    let mut all = BytesMut::new();
    for part in parts {
        match part {
            HttpPart::Data(data) => all.extend_from_slice(&data),
            HttpPart::File(mut region) => {
                while region.remaining() > 0 {
                    let chunk = region.read_chunk(64 * 1024)?;
                    region.advance(chunk.len() as u64);
                    all.extend_from_slice(&chunk);
                }
            }
            _ => {}
        }
    }
    Ok(all.freeze())
}

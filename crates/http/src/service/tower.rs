//! Services of the `tower` kind as the last stage, and bodies of the `http-body` kind on both sides.

use super::{ServeRequests, serve};
use crate::{
    body::{Body, Make, Piece},
    error::HttpError,
};
use bytes::{Buf, Bytes};
use http::{Request, Response, StatusCode};
use http_body::{Frame, SizeHint};
use std::{
    fmt::Display,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tower_service::Service;

/// Answers requests with a `tower` service. An error of the service is answered with 500.
///
/// ```
/// use http::{Request, Response};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{Body, HttpServer, tower};
/// use std::{convert::Infallible, future::{Ready, ready}, task::{Context, Poll}};
///
/// #[derive(Clone)]
/// struct Hello;
///
/// impl tower_service::Service<Request<Body>> for Hello {
///     type Response = Response<String>;
///     type Error = Infallible;
///     type Future = Ready<Result<Self::Response, Infallible>>;
///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
///         Poll::Ready(Ok(()))
///     }
///     fn call(&mut self, request: Request<Body>) -> Self::Future {
///         ready(Ok(Response::new(format!("hello, {}", request.uri()))))
///     }
/// }
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(tower(Hello)));
/// channel.write_inbound("GET /tower HTTP/1.1\r\nHost: a\r\n\r\n");
/// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nhello, /tower"));
/// ```
#[allow(clippy::type_complexity)] // a closure that cannot be named
pub fn tower<S, B>(
    service: S,
) -> ServeRequests<impl FnMut(Request<Body>) -> Pin<Box<dyn Future<Output = Response<Body>>>> + 'static>
where
    S: Service<Request<Body>, Response = Response<B>, Error: Display, Future: 'static> + Clone + 'static,
    B: http_body::Body<Data: Send, Error: Display> + Send + 'static,
{
    serve(move |request| -> Pin<Box<dyn Future<Output = Response<Body>>>> {
        let mut service = service.clone();
        Box::pin(async move {
            let reply = async {
                poll_fn(|cx| service.poll_ready(cx)).await?;
                service.call(request).await
            };
            match reply.await {
                Ok(reply) => reply.map(Body::wrap),
                Err(error) => {
                    tracing::error!(%error, "a service failed");
                    let mut reply = Response::new(Body::from("the service failed\n"));
                    *reply.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                    reply
                }
            }
        })
    })
}

impl Body {
    /// A body of another kind.
    pub fn wrap<B>(body: B) -> Self
    where
        B: http_body::Body<Data: Send, Error: Display> + Send + 'static,
    {
        let len = body.size_hint().exact();
        if len == Some(0) && body.is_end_stream() {
            return Self::empty();
        }
        Self::made(Wrapped(Box::pin(body)), len)
    }
}

struct Wrapped<B>(Pin<Box<B>>);

impl<B> Make for Wrapped<B>
where
    B: http_body::Body<Data: Send, Error: Display> + Send,
{
    fn poll_piece(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<Piece, HttpError>> {
        Poll::Ready(match ready!(self.0.as_mut().poll_frame(cx)) {
            None => Ok(Piece::End(None)),
            Some(Err(error)) => Err(HttpError::Aborted(error.to_string())),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(mut data) => Ok(Piece::Data(data.copy_to_bytes(data.remaining()))),
                Err(frame) => Ok(Piece::End(frame.into_trailers().ok().map(Box::new))),
            },
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        Poll::Ready(match ready!(self.poll_piece(cx)) {
            Ok(Piece::Data(bytes)) => Some(Ok(Frame::data(bytes))),
            Ok(Piece::End(trailers)) => trailers.map(|trailers| Ok(Frame::trailers(*trailers))),
            Err(error) => Some(Err(error)),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.len().map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

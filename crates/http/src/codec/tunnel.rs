//! Bytes through the parts of messages.
//!
//! ```text
//!   HttpPart::Data ──▶ [ HttpTunnel ] ──▶ bytes       behind the head of a 101, or of a 2xx to CONNECT
//!   HttpPart::Data ◀── [            ] ◀── bytes
//!   HttpPart::End  ◀── [            ] ◀── a close in order; any other resets the stream
//! ```

use crate::error::{HttpError, Misuse};
use crate::message::{HttpPart, ReplyPart, RequestPart};
use bytes::BytesMut;
use netwright_core::{
    CloseCause, Context, Fault, Handler, Outgoing, Special, Weight, WriteError, WritePromise,
};

/// Between a server's parts of messages and a protocol of bytes: what lies behind it reads and writes the bytes of a tunnel, as if they
/// were those of a socket.
///
/// A tunnel begins with the head of a reply, [`HttpPart::Head`]: 101 (Switching Protocols) to a request that asked for an upgrade, or 2xx to
/// `CONNECT`. On a connection of HTTP/1.1 it is the rest of the connection, on one of HTTP/2 the rest of the stream. A request by HTTP/2
/// that asks for a protocol has the method `CONNECT` and a [`Protocol`](crate::Protocol) among its extensions.
///
/// ```
/// use http::StatusCode;
/// use netwright_core::{AppContext, Application, EmbeddedChannel, Switch, pipeline};
/// use netwright_http::{HttpPart, HttpTunnel, HttpVersions, ReplyHead, ReplyPart, RequestPart};
/// use std::convert::Infallible;
///
/// /// Answers `CONNECT`; from then on everything comes back.
/// struct Echoes(Switch<Infallible, RequestPart, ReplyPart>);
///
/// impl Application for Echoes {
///     type Read = RequestPart;
///     type Write = ReplyPart;
///
///     fn read(&mut self, cx: &mut AppContext<'_, Self>, _: RequestPart) {
///         cx.write_and_flush(HttpPart::Head(ReplyHead::from(StatusCode::OK)));
///         let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes));
///         self.0.to(pipeline().add(HttpTunnel).then(echo).sealed());
///     }
/// }
///
/// let server = HttpVersions::new(|| pipeline().joint_between(|switch| pipeline().app(Echoes(switch)).sealed()));
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(server.date(false).pipeline());
/// channel.write_inbound("CONNECT a:80 HTTP/1.1\r\nhost: a:80\r\n\r\nhello");
/// assert_eq!(channel.outbound_bytes(), b"HTTP/1.1 200 OK\r\n\r\nhello");
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct HttpTunnel;

impl Handler for HttpTunnel {
    type Read = RequestPart;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = ReplyPart;
    const WEIGHT: Weight<Outgoing> = Weight::of(|bytes| match bytes {
        Outgoing::Bytes(bytes) => bytes.len(),
        Outgoing::Special(_) => 0, // the system has it
    });

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        // Its end is told as that of a channel's input.
        if let HttpPart::Data(bytes) = part {
            cx.fire_read(bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..])));
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        let part = match bytes {
            Outgoing::Bytes(bytes) => HttpPart::Data(bytes),
            Outgoing::Special(Special::File(region)) => HttpPart::File(*region),
            // What it has beside its bytes cannot be said here.
            Outgoing::Special(Special::Envelope(_)) => {
                return done.fail(WriteError::Fault(Fault::new(HttpError::from(Misuse::Direction))));
            }
        };
        cx.write_with(part, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        cx.write_with(HttpPart::End(None), done);
        cx.flush();
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        if matches!(cause, CloseCause::Requested | CloseCause::PeerClosed | CloseCause::ShutDown) {
            cx.write(HttpPart::End(None));
            cx.flush();
        }
        cx.close_with(cause, done);
    }

    fn name(&self) -> &'static str {
        "HttpTunnel"
    }
}

//! The stage of a server that turns HTTP into WebSocket.
//!
//! ```text
//!   ( joint ) ──▶ [ HttpServer ] ──▶ [ Upgrade ] ──▶ [ HTTP application ]        other requests pass
//!       │                                │ 101, then switch.to
//!       └───────▶ [ WebSocket ] ──▶ [ application ]                              leftover bytes of HttpServer first
//! ```
//!
//! Or at the level of parts, for both versions of HTTP:
//! ```text
//!   [ HttpServer, or a stream of Http2Server ] ─▶ ( joint ) ─▶ [ Upgrade ] ─▶ [ HTTP application ]
//!                                                     └──────▶ [ HttpTunnel ] ─▶ [ WebSocket ] ─▶ [ application ]
//! ```
//! Always true:
//! 1. The 101 is written when all requests before it are answered, so replies keep their order.
//! 2. The exchange happens in the same call: no byte of the client is read by HTTP behind its request.

use super::{Accept, Opened, Refusal, accept::is_extended_connect};
use crate::WebSocket;
use netwright_core::{Context, Event, Handler, IntoPipeline, Switch, WritePromise, pipeline};
use netwright_http::{HttpPart, HttpTunnel, ReplyPart, RequestHead, RequestPart};
use std::{convert::Infallible, fmt, sync::Arc};

/// What lies behind the joint of a server that speaks HTTP and WebSocket.
type UpgradeSwitch = Switch<Infallible>;
/// The same where it speaks either version of HTTP.
type TunnelSwitch = Switch<Infallible, RequestPart, ReplyPart>;

/// Turns requests for a WebSocket into WebSocket connections, and lets everything else pass to the HTTP application.
///
/// ```
/// use netwright_core::{EmbeddedChannel, Peer, pipeline};
/// use netwright_http::HttpServer;
/// use netwright_websocket::{Accept, Config, Message, Upgrade};
///
/// async fn echo(mut peer: Peer<Message, Message>) -> Result<(), netwright_core::CloseCause> {
///     while let Some(message) = peer.read().await? {
///         peer.write(message).await?;
///     }
///     Ok(())
/// }
///
/// let server = pipeline().joint(|switch| {
///     let upgrade = Upgrade::new(switch, Accept::new(Config::default()), |socket, _request, _opened| {
///         pipeline().add(socket).serve(echo)
///     });
///     pipeline().add(HttpServer::new()).add(upgrade).handle(|_, _| { /* other requests */ }).sealed()
/// });
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(server);
/// channel.write_inbound(b"GET / HTTP/1.1\r\nHost: example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
///     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x82\0\0\0\0hi");
/// let reply = channel.outbound_bytes();
/// assert!(reply.starts_with(b"HTTP/1.1 101 Switching Protocols\r\n"));
/// assert!(reply.ends_with(b"\r\n\r\n\x81\x02hi")); // the frame that came along was echoed
/// ```
pub struct Upgrade {
    accept: Arc<Accept>,
    #[allow(clippy::type_complexity)]
    switch: Box<dyn FnMut(WebSocket, &RequestHead, &Opened)>,
    /// Requests that the application has not answered.
    unanswered: usize,
    /// A request that waits for these answers.
    waiting: Option<Box<Waiting>>,
    /// The body of a request that was refused comes.
    skipping: bool,
    /// The codec stays, and bytes pass it as parts.
    tunnel: bool,
}

struct Waiting {
    request: RequestHead,
    has_body: bool,
}

/// A connection has become a WebSocket. An event for the HTTP stages behind an [`Upgrade`], before they leave.
///
/// ```
/// use netwright_core::Event;
/// use netwright_websocket::Upgraded;
///
/// fn report(event: &Event) {
///     if let Some(Upgraded(opened)) = event.get() {
///         println!("a WebSocket with {:?}", opened.protocol);
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upgraded(pub Opened);

impl Upgrade {
    /// Takes the requests that `accept` says, and has `make` build what comes in the place of HTTP: the WebSocket stage, and
    /// behind it the application.
    pub fn new<P, T>(
        switch: UpgradeSwitch,
        accept: impl Into<Arc<Accept>>,
        mut make: impl FnMut(WebSocket, &RequestHead, &Opened) -> P + 'static,
    ) -> Self
    where
        P: IntoPipeline<T> + 'static,
        T: 'static,
    {
        Self {
            accept: accept.into(),
            switch: Box::new(move |socket, request, opened| {
                switch.to(make(socket, request, opened).sealed());
            }),
            unanswered: 0,
            waiting: None,
            skipping: false,
            tunnel: false,
        }
    }

    /// The same for the stages of [`HttpVersions`](netwright_http::HttpVersions), where the codec stays and a
    /// [tunnel](HttpTunnel) through it begins: the rest of a connection of HTTP/1.1, or of a stream of HTTP/2 (RFC 8441).
    ///
    /// ```
    /// use http::Response;
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_http::{HttpVersions, respond};
    /// use netwright_websocket::{Accept, Config, Upgrade};
    /// use std::sync::Arc;
    ///
    /// let accept = Arc::new(Accept::new(Config::default()).path("/echo"));
    /// let server = HttpVersions::new(move || {
    ///     pipeline().joint_between(|switch| {
    ///         let echo = Upgrade::tunnel(switch, accept.clone(), |socket, _request, _opened| {
    ///             pipeline().add(socket).handle(|cx, message| cx.write_and_flush(message))
    ///         });
    ///         pipeline().add(echo).app(respond(|_| Response::new("a page"))).sealed()
    ///     })
    /// });
    /// let mut channel = EmbeddedChannel::<(), _>::with_joint(server.pipeline());
    /// channel.write_inbound(b"GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    ///     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x82\0\0\0\0hi");
    /// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\n\x81\x02hi"));
    /// ```
    pub fn tunnel<P, T>(
        switch: TunnelSwitch,
        accept: impl Into<Arc<Accept>>,
        mut make: impl FnMut(WebSocket, &RequestHead, &Opened) -> P + 'static,
    ) -> Self
    where
        P: IntoPipeline<T> + 'static,
        T: 'static,
    {
        Self {
            accept: accept.into(),
            switch: Box::new(move |socket, request, opened| {
                switch.to(pipeline().add(HttpTunnel).then(make(socket, request, opened)).sealed());
            }),
            unanswered: 0,
            waiting: None,
            skipping: false,
            tunnel: true,
        }
    }

    /// Answers a request for a WebSocket; nothing before it is left to answer.
    fn answer(&mut self, cx: &mut Context<'_, Self>, request: &RequestHead, has_body: bool) {
        let verdict = match (is_extended_connect(request), has_body) {
            (false, true) => Err(Refusal::Body),
            (true, false) => Err(Refusal::Over),
            _ => self.accept.judge(request),
        };
        match verdict {
            Ok((opened, reply)) => {
                match reply {
                    HttpPart::Whole(head, _) if self.tunnel => cx.write_and_flush(HttpPart::Head(head)),
                    reply @ HttpPart::Head(_) => cx.write_and_flush(reply),
                    reply => cx.write(reply), // the codec flushes what ends HTTP, and a second flush would not be free
                }
                let socket = WebSocket::server(self.accept.config().clone()).agreed(opened.deflate);
                (self.switch)(socket, request, &opened);
                cx.fire_event(Event::new(Upgraded(opened)));
            }
            Err(refusal) => {
                tracing::debug!(channel = %cx.view().id(), %refusal, "a request for a WebSocket was refused");
                cx.write_and_flush(refusal.reply());
            }
        }
    }
}

impl Handler for Upgrade {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        let (request, has_body) = match part {
            HttpPart::Whole(head, body) if self.accept.concerns(&head) => (head, !body.is_empty()),
            HttpPart::Head(head) if self.accept.concerns(&head) => {
                self.skipping = true;
                (head, true)
            }
            HttpPart::Data(_) if self.skipping => return,
            HttpPart::End(_) if self.skipping => {
                self.skipping = false;
                return;
            }
            part => {
                self.unanswered += usize::from(matches!(part, HttpPart::Head(_) | HttpPart::Whole(..)));
                return cx.fire_read(part);
            }
        };
        if self.unanswered == 0 {
            self.answer(cx, &request, has_body);
        } else {
            // The codec looks at nothing behind such a request, so there is one at most.
            self.waiting = Some(Box::new(Waiting { request, has_body }));
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        let ends = matches!(part, HttpPart::Whole(..) | HttpPart::End(_));
        cx.write_with(part, done);
        if ends {
            self.unanswered = self.unanswered.saturating_sub(1);
            if self.unanswered == 0
                && let Some(waiting) = self.waiting.take()
            {
                self.answer(cx, &waiting.request, waiting.has_body);
            }
        }
    }

    fn name(&self) -> &'static str {
        "Upgrade"
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upgrade").field("accept", &self.accept).finish_non_exhaustive()
    }
}

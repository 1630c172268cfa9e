//! The stage of a client that turns HTTP into WebSocket.
//!
//! ```text
//!   ( joint ) ──▶ [ HttpClient ] ──▶ [ Opening ]          asks when it is connected, looks at the reply
//!       │                                │ switch.to
//!       └───────▶ [ WebSocket ] ──▶ [ application ]       leftover bytes of HttpClient first
//! ```
//! Always true: a request for `wss` is written when TLS has said that the connection is encrypted, and never otherwise.

use super::{HandshakeError, Opened, REJECTION_MAX, Rejection, Request, new_key};
use crate::WebSocket;
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Event, IntoPipeline, PipelineBuilder, StageTimer, Switch, pipeline,
};
use netwright_http::{HttpClient, HttpPart, ReplyHead, ReplyPart, RequestPart};
use std::convert::Infallible;

impl Request {
    /// A pipeline that opens this WebSocket as soon as it is connected, and has `make` build what follows: the WebSocket
    /// stage, and behind it the application. If the server does not agree, the channel ends with a [`HandshakeError`]; with
    /// [`NotSecure`](HandshakeError::NotSecure) if this is a request for `wss`, because nothing here encrypts: see
    /// [`open`](Self::open).
    ///
    /// ```
    /// use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
    /// use netwright_websocket::{Message, Request};
    ///
    /// async fn greet(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
    ///     peer.write(Message::from("hello")).await?;
    ///     while let Some(message) = peer.read().await? {
    ///         println!("{message:?}");
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let request = Request::new("ws://example.org/chat").unwrap();
    /// let client = request.pipeline(|socket, _reply, _opened| pipeline().add(socket).serve(greet));
    /// let mut channel = EmbeddedChannel::<(), _>::with_joint(client); // or a `Client` of the transport
    /// assert!(channel.outbound_bytes().starts_with(b"GET /chat HTTP/1.1\r\n"));
    /// ```
    pub fn pipeline<P, T>(
        &self,
        make: impl FnOnce(WebSocket, &ReplyHead, &Opened) -> P + 'static,
    ) -> PipelineBuilder<(), netwright_core::Joint<Infallible>>
    where
        P: IntoPipeline<T> + 'static,
        T: 'static,
    {
        let request = self.clone();
        let secrecy = if self.is_secure() { Secrecy::Impossible } else { Secrecy::Settled };
        pipeline().joint(|switch| request.begin(switch, make, secrecy, None))
    }

    /// The same behind other stages, such as TLS: `pipeline().add(tls).joint(|switch| request.open(switch, …))`.
    ///
    /// A request for `wss` is sent when the TLS stage of Netwright has told that its handshake is done, for which the feature `tls`
    /// of this crate is needed (`wss` of `netwright`); where nobody tells, nothing is sent.
    pub fn open<P, T>(
        self,
        switch: Switch<Infallible>,
        make: impl FnOnce(WebSocket, &ReplyHead, &Opened) -> P + 'static,
    ) -> impl IntoPipeline<Infallible>
    where
        P: IntoPipeline<T> + 'static,
        T: 'static,
    {
        self.open_or(switch, make, None)
    }

    /// The same, and tells why if there is no WebSocket in the end.
    pub(super) fn open_or<P, T>(
        self,
        switch: Switch<Infallible>,
        make: impl FnOnce(WebSocket, &ReplyHead, &Opened) -> P + 'static,
        unopened: Option<Unopened>,
    ) -> impl IntoPipeline<Infallible>
    where
        P: IntoPipeline<T> + 'static,
        T: 'static,
    {
        let secrecy = match self.is_secure() {
            false => Secrecy::Settled,
            true if cfg!(feature = "tls") => Secrecy::Awaited,
            true => Secrecy::Impossible,
        };
        self.begin(switch, make, secrecy, unopened)
    }

    fn begin<P, T>(
        self,
        switch: Switch<Infallible>,
        make: impl FnOnce(WebSocket, &ReplyHead, &Opened) -> P + 'static,
        secrecy: Secrecy,
        unopened: Option<Unopened>,
    ) -> impl IntoPipeline<Infallible>
    where
        P: IntoPipeline<T> + 'static,
        T: 'static,
    {
        let exchange: Exchange = Box::new(move |socket, reply, opened| {
            switch.to(make(socket, reply, opened).sealed());
        });
        let opening = Opening {
            request: self,
            key: new_key(),
            exchange: Some(exchange),
            timer: None,
            secrecy,
            rejected: None,
            unopened,
        };
        pipeline().add(HttpClient::new()).app(opening).sealed()
    }
}

type Exchange = Box<dyn FnOnce(WebSocket, &ReplyHead, &Opened)>;
/// Who hears why there is no WebSocket.
pub(super) type Unopened = Box<dyn FnOnce(CloseCause)>;

/// Whether the request may be sent on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    /// It need not be encrypted, or it is.
    Settled,
    /// As soon as TLS says so.
    Awaited,
    /// It has to be encrypted, and nobody does that.
    Impossible,
}

struct Opening {
    request: Request,
    key: String,
    /// Until there is a reply.
    exchange: Option<Exchange>,
    timer: Option<StageTimer>,
    secrecy: Secrecy,
    /// A reply that is no WebSocket, and what has come of its body.
    rejected: Option<Box<(Rejection, BytesMut)>>,
    unopened: Option<Unopened>,
}

impl Opening {
    fn ask(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(HttpPart::Whole(self.request.head(&self.key), Bytes::new()));
    }

    fn replied(&mut self, cx: &mut AppContext<'_, Self>, reply: &ReplyHead) {
        let Some(exchange) = self.exchange.take() else { return };
        match self.request.check(&self.key, reply) {
            Ok(opened) => {
                if let Some(timer) = self.timer.take() {
                    cx.disarm(timer);
                }
                let socket = WebSocket::client(self.request.shared_config().clone()).agreed(opened.deflate);
                exchange(socket, reply, &opened);
            }
            // Its body says more, and has what is left of the deadline to come.
            Err(HandshakeError::Rejected(rejection)) => {
                let rejection = std::sync::Arc::unwrap_or_clone(rejection);
                self.rejected = Some(Box::new((rejection, BytesMut::new())));
            }
            Err(error) => self.fail(cx, error),
        }
    }

    /// Takes a piece of a rejection's body.
    fn explained(&mut self, cx: &mut AppContext<'_, Self>, piece: &[u8]) {
        let Some(rejected) = &mut self.rejected else { return };
        let body = &mut rejected.1;
        let room = REJECTION_MAX - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.len() > room {
            self.reject(cx, false);
        }
    }

    fn reject(&mut self, cx: &mut AppContext<'_, Self>, complete: bool) {
        if let Some(error) = self.rejection(complete) {
            self.fail(cx, error);
        }
    }

    fn rejection(&mut self, complete: bool) -> Option<HandshakeError> {
        let (rejection, body) = *self.rejected.take()?;
        Some(Rejection { body: body.freeze(), complete, ..rejection }.into())
    }

    fn fail(&mut self, cx: &mut AppContext<'_, Self>, error: HandshakeError) {
        (self.exchange, self.rejected) = (None, None);
        let cause = CloseCause::Fault(error.into());
        self.tell(cause.clone());
        cx.close_because(cause);
    }

    fn tell(&mut self, cause: CloseCause) {
        if let Some(unopened) = self.unopened.take() {
            unopened(cause);
        }
    }
}

impl Application for Opening {
    type Read = ReplyPart;
    type Write = RequestPart;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.timer = Some(cx.arm(self.request.time()));
        match self.secrecy {
            Secrecy::Settled => self.ask(cx),
            Secrecy::Awaited => {}
            Secrecy::Impossible => self.fail(cx, HandshakeError::NotSecure),
        }
    }

    #[cfg_attr(not(feature = "tls"), allow(unused_variables))]
    fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
        #[cfg(feature = "tls")]
        if self.secrecy == Secrecy::Awaited && event.get::<netwright_tls::Handshake>().is_some() {
            self.secrecy = Secrecy::Settled;
            self.ask(cx);
        }
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: ReplyPart) {
        match part {
            HttpPart::Head(reply) => self.replied(cx, &reply),
            HttpPart::Whole(reply, body) => {
                self.replied(cx, &reply);
                self.explained(cx, &body);
                self.reject(cx, true);
            }
            HttpPart::Data(piece) => self.explained(cx, &piece),
            HttpPart::End(_) => self.reject(cx, true),
            HttpPart::File(_) | HttpPart::Interim(_) => {}
        }
    }

    fn timer(&mut self, cx: &mut AppContext<'_, Self>, timer: StageTimer) {
        if self.timer == Some(timer) {
            let time = self.request.time();
            let error = self.rejection(false).unwrap_or(HandshakeError::TimedOut(time));
            self.fail(cx, error);
        }
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        let cause = self.rejection(false).map_or(cause, |error| CloseCause::Fault(error.into()));
        self.tell(cause);
    }
}

//! The stage of a client that turns HTTP into WebSocket.
//!
//! ```text
//!   ( joint ) ──▶ [ HttpClient ] ──▶ [ Opening ]          asks when it is connected, looks at the reply
//!       │                                │ switch.to
//!       └───────▶ [ WebSocket ] ──▶ [ application ]       leftover bytes of HttpClient first
//! ```

use super::{HandshakeError, Opened, Request};
use crate::WebSocket;
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Link, Outgoing, PipelineBuilder, Segment, StageTimer, Switch, Whole,
    pipeline,
};
use netwright_http::{HttpClient, Part, ReplyHead, ReplyPart, RequestPart};
use std::convert::Infallible;

impl Request {
    /// A pipeline that opens this WebSocket as soon as it is connected, and has `make` build what follows: the WebSocket
    /// stage, and behind it the application. If the server does not agree, the channel ends with a [`HandshakeError`].
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
    pub fn pipeline<S, E, P>(
        &self,
        make: impl FnOnce(WebSocket, &ReplyHead, &Opened) -> PipelineBuilder<S, E> + 'static,
    ) -> PipelineBuilder<(), netwright_core::Joint<BytesMut, Outgoing, Infallible>>
    where
        E: Whole,
        S: Link<E::Segment, Linked = P>,
        P: Segment<BytesMut, Outgoing> + 'static,
        P::Tail: 'static,
    {
        let request = self.clone();
        pipeline().joint(|switch| request.open(switch, make))
    }

    /// The same behind other stages, such as TLS: `pipeline().add(tls).joint(|switch| request.open(switch, …))`.
    pub fn open<S, E, P>(
        self,
        switch: Switch<BytesMut, Outgoing, Infallible>,
        make: impl FnOnce(WebSocket, &ReplyHead, &Opened) -> PipelineBuilder<S, E> + 'static,
    ) -> PipelineBuilder<(), impl Whole<Segment = impl Segment<BytesMut, Outgoing, Tail = Infallible>>>
    where
        E: Whole,
        S: Link<E::Segment, Linked = P>,
        P: Segment<BytesMut, Outgoing> + 'static,
        P::Tail: 'static,
    {
        let exchange: Exchange = Box::new(move |socket, reply, opened| {
            switch.to(make(socket, reply, opened).sealed::<BytesMut, Outgoing, P>());
        });
        let opening = Opening {
            request: self,
            key: STANDARD.encode(rand::random::<[u8; 16]>()),
            exchange: Some(exchange),
            timer: None,
        };
        pipeline().add(HttpClient::new()).app(opening).sealed()
    }
}

type Exchange = Box<dyn FnOnce(WebSocket, &ReplyHead, &Opened)>;

struct Opening {
    request: Request,
    key: String,
    exchange: Option<Exchange>,
    timer: Option<StageTimer>,
}

impl Opening {
    fn fail(&mut self, cx: &mut AppContext<'_, Self>, error: HandshakeError) {
        self.exchange = None;
        cx.close_because(CloseCause::Fault(error.into()));
    }
}

impl Application for Opening {
    type Read = ReplyPart;
    type Write = RequestPart;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.timer = Some(cx.arm(self.request.time()));
        cx.write_and_flush(Part::Whole(self.request.head(&self.key), Bytes::new()));
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: ReplyPart) {
        let (Part::Head(reply) | Part::Whole(reply, _)) = part else { return };
        let Some(exchange) = self.exchange.take() else { return };
        if let Some(timer) = self.timer.take() {
            cx.disarm(timer);
        }
        match self.request.check(&self.key, &reply) {
            Ok(opened) => {
                let socket = WebSocket::client(self.request.shared_config().clone()).agreed(opened.deflate);
                exchange(socket, &reply, &opened);
            }
            Err(error) => self.fail(cx, error),
        }
    }

    fn timer(&mut self, cx: &mut AppContext<'_, Self>, timer: StageTimer) {
        if self.timer == Some(timer) {
            let time = self.request.time();
            self.fail(cx, HandshakeError::TimedOut(time));
        }
    }
}

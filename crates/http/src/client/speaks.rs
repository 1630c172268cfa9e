//! What a connection speaks, once that is known.
//!
//! ```text
//!   [ Tls ] ─▶ ( joint ) ─▶ [ ByAlpn ]  the handshake says what was agreed on
//!                   ├─────▶ [ HttpClient ] ─▶ [ Exchange ]        http/1.1, or nothing
//!                   └─────▶ [ Http2Client ] ═▶ [ Exchange ]       h2: one for each stream
//! ```

use super::{WebClientError, ask::Ask, exchange::Exchange, room::Room};
use crate::{codec::http2::http2_client, limits::HttpLimits};
use bytes::BytesMut;
use netwright_core::{Handler, Outgoing, pipeline, promise};
use netwright_transport::Pooled;
use std::{convert::Infallible, sync::Arc};

/// What a connection speaks.
#[derive(Debug, Clone)]
pub(super) enum Speaks {
    Http1,
    Http2(Arc<Room>),
}

impl Speaks {
    /// What this one speaks: known at once, or when its handshake is over.
    pub(super) async fn of(pooled: &Pooled<Ask>) -> Result<Self, WebClientError> {
        if let Some(known) = pooled.attribute::<Self>() {
            return Ok((*known).clone());
        }
        let (ready, promised) = promise();
        pooled.write_and_flush(Ask::ready(ready));
        promised.await
    }
}

/// The last stage of a connection that speaks HTTP/2.
pub(super) fn http2(
    limits: Arc<HttpLimits>,
    tls: bool,
    room: Arc<Room>,
) -> impl Handler<Read = BytesMut, ReadOut = Infallible, Write = Ask, WriteOut = Outgoing> {
    let told = room.clone();
    http2_client(move || pipeline().last(Exchange::on_stream(room.clone())))
        .over_tls(tls)
        .limits(limits)
        .watched(move |capacity| told.tell(capacity))
}

#[cfg(feature = "tls")]
pub(super) use by_alpn::ByAlpn;

#[cfg(feature = "tls")]
mod by_alpn {
    use super::{
        super::{builder::Versions, shared::SharedConnections},
        *,
    };
    use crate::codec::HttpClient;
    use netwright_core::{CloseCause, Context, Event, Fault, Promise, Switch, WritePromise};
    use netwright_tls::{Handshake, TlsError};
    use std::sync::Weak;

    /// Waits for the end of the handshake, and gives way to what was agreed on.
    pub(in super::super) struct ByAlpn {
        switch: Switch<Ask>,
        limits: Arc<HttpLimits>,
        versions: Versions,
        owner: Weak<SharedConnections>,
        /// Who wants to know what it will be.
        waiting: Vec<Promise<Speaks, WebClientError>>,
    }

    impl ByAlpn {
        pub(in super::super) fn new(
            switch: Switch<Ask>,
            limits: Arc<HttpLimits>,
            versions: Versions,
            owner: Weak<SharedConnections>,
        ) -> Self {
            Self { switch, limits, versions, owner, waiting: Vec::new() }
        }

        fn agreed(&self, protocol: Option<&[u8]>) -> Option<Speaks> {
            let limits = self.limits.clone();
            match protocol {
                Some(b"h2") if self.versions.http2 => {
                    let room = Arc::new(Room::new(self.owner.clone()));
                    self.switch.to(pipeline().last(http2(limits, true, room.clone())));
                    Some(Speaks::Http2(room))
                }
                None | Some(b"http/1.1") if self.versions.http1 => {
                    self.switch.to(pipeline().add(HttpClient::with(limits)).last(Exchange::default()));
                    Some(Speaks::Http1)
                }
                _ => None,
            }
        }

        /// Nobody will know.
        fn fail(&mut self, cause: &CloseCause) {
            for waiting in self.waiting.drain(..) {
                waiting.fail(WebClientError::Closed(cause.clone()));
            }
        }
    }

    impl Handler for ByAlpn {
        type Read = BytesMut;
        type ReadOut = Infallible;
        type Write = Ask;
        type WriteOut = Outgoing;

        fn read(&mut self, _: &mut Context<'_, Self>, _: BytesMut) {
            // Data comes after the handshake, and by then this stage has given way, or is closing.
        }

        fn write(&mut self, cx: &mut Context<'_, Self>, mut ask: Ask, done: WritePromise) {
            let cause = cx.view().close_cause().cloned();
            match (ask.ready.take(), cause) {
                (Some(ready), None) => self.waiting.push(ready),
                (Some(ready), Some(cause)) => ready.fail(WebClientError::Closed(cause)),
                (None, cause) => {
                    ask.give_back(WebClientError::Closed(cause.unwrap_or(CloseCause::Requested)))
                }
            }
            done.succeed();
        }

        fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
            let Some(handshake) = event.get::<Handshake>() else { return };
            let Some(speaks) = self.agreed(handshake.alpn.as_deref()) else {
                let fault = Fault::new(TlsError::NoProtocol { agreed: handshake.alpn.clone() });
                return self.error(cx, fault);
            };
            cx.set_attribute(speaks.clone());
            for waiting in self.waiting.drain(..) {
                waiting.succeed(speaks.clone());
            }
        }

        fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
            let cause = CloseCause::Fault(fault);
            self.fail(&cause);
            cx.close_because(cause);
        }

        fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
            self.fail(&cause);
            cx.fire_inactive(cause);
        }

        fn name(&self) -> &'static str {
            "ByAlpn"
        }
    }
}

//! The rest of a pipeline by the protocol that was agreed on.

use crate::{Handshake, TlsError};
use bytes::BytesMut;
use netwright_core::{AppContext, Application, CloseCause, Event, Fault, IntoPipeline, Outgoing, Switch};
use std::fmt;

/// Behind a TLS stage and a joint: gives way to the pipeline for the protocol that the handshake agreed on (ALPN).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_tls::{Acceptor, Alpn, Certificate, Tls};
///
/// let acceptor =
///     Acceptor::builder().certificate(Certificate::self_signed(["localhost"])?).alpn(["shout", "echo"]).build()?;
/// let channel: EmbeddedChannel<(), _> = EmbeddedChannel::with_joint(pipeline().add(Tls::server(&acceptor)).joint(|switch| {
///     pipeline().app(
///         Alpn::new(switch)
///             .protocol("shout", |_| {
///                 pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.to_ascii_uppercase()))
///             })
///             .otherwise(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes))),
///     )
/// }));
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[must_use = "it has to be added behind a joint"]
pub struct Alpn<T> {
    switch: Switch<T>,
    protocols: Vec<(Vec<u8>, Choice<T>)>,
    otherwise: Option<Choice<T>>,
}

type Choice<T> = Box<dyn FnOnce(&Switch<T>, &Handshake)>;

impl<T: 'static> Alpn<T> {
    /// Gives way through this switch.
    pub fn new(switch: Switch<T>) -> Self {
        Self { switch, protocols: Vec::new(), otherwise: None }
    }

    /// The pipeline for this protocol. Made when it is known that it is needed, by somebody who is told what was agreed on.
    pub fn protocol<P: IntoPipeline<T>>(
        mut self,
        name: impl AsRef<[u8]>,
        make: impl FnOnce(&Handshake) -> P + 'static,
    ) -> Self {
        self.protocols.push((name.as_ref().to_vec(), choice(make)));
        self
    }

    /// The pipeline for peers that agreed on none of the protocols, or on nothing. Without one they are refused.
    pub fn otherwise<P: IntoPipeline<T>>(mut self, make: impl FnOnce(&Handshake) -> P + 'static) -> Self {
        self.otherwise = Some(choice(make));
        self
    }
}

fn choice<T: 'static, P: IntoPipeline<T>>(make: impl FnOnce(&Handshake) -> P + 'static) -> Choice<T> {
    Box::new(move |switch, handshake| switch.to(make(handshake)))
}

impl<T: 'static> Application for Alpn<T> {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {
        // Data comes after the handshake, and by then this stage has given way, or is closing.
    }

    fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
        let Some(handshake) = event.get::<Handshake>() else { return cx.fire_event(event) };
        let known = handshake.alpn.as_ref().and_then(|agreed| {
            let index = self.protocols.iter().position(|(name, _)| name == agreed)?;
            Some(self.protocols.swap_remove(index).1)
        });
        match known.or_else(|| self.otherwise.take()) {
            Some(choice) => choice(&self.switch, handshake),
            None => {
                let fault = Fault::new(TlsError::NoProtocol { agreed: handshake.alpn.clone() });
                cx.fire_error(fault.clone());
                cx.close_because(CloseCause::Fault(fault));
            }
        }
    }
}

impl<T> fmt::Debug for Alpn<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.protocols.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        f.debug_struct("Alpn").field("protocols", &names).finish_non_exhaustive()
    }
}

//! Writes the header, before anybody behind it can write.

use super::{ProxyHeader, ProxyProtocolError};
use bytes::{Bytes, BytesMut};
use netwright_core::{Carries, CloseCause, Fault, Filter, FilterContext};
use std::fmt;

/// Sends a [`ProxyHeader`] first on a connection: first stage of a client, in front of TLS, that speaks for others to a server with
/// [`ProxyProtocol`](super::ProxyProtocol), haproxy (`accept-proxy`), nginx (`proxy_protocol`).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{ProxyHeader, SendProxyHeader};
///
/// let header = ProxyHeader::new("192.0.2.7:4711".parse()?, "198.51.100.1:80".parse()?);
/// let stages = pipeline().filter(SendProxyHeader::v1(&header)?).handle(|_, _: bytes::BytesMut| {});
/// let mut channel = EmbeddedChannel::new(stages);
/// channel.channel().write_and_flush("hello");
/// assert_eq!(channel.outbound_bytes(), b"PROXY TCP4 192.0.2.7 198.51.100.1 4711 80\r\nhello");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "HAProxyMessageEncoder")]
pub struct SendProxyHeader {
    says: Says,
}

enum Says {
    This(Bytes),
    /// Whoever connects, in words of this kind.
    Itself {
        v2: bool,
    },
    Nothing,
}

impl SendProxyHeader {
    /// In text, version 1.
    ///
    /// # Errors
    /// See [`ProxyHeader::encode_v1`].
    pub fn v1(header: &ProxyHeader) -> Result<Self, ProxyProtocolError> {
        Ok(Self { says: Says::This(header.encode_v1()?) })
    }

    /// In bytes, version 2.
    ///
    /// # Errors
    /// See [`ProxyHeader::encode_v2`].
    pub fn v2(header: &ProxyHeader) -> Result<Self, ProxyProtocolError> {
        Ok(Self { says: Says::This(header.encode_v2()?) })
    }

    /// With the addresses of the connection itself, in text: for a client that speaks for nobody else to a server that requires a header.
    pub fn itself_v1() -> Self {
        Self { says: Says::Itself { v2: false } }
    }

    /// The same in bytes.
    pub fn itself_v2() -> Self {
        Self { says: Says::Itself { v2: true } }
    }
}

impl<W: Carries<Bytes> + 'static> Filter<BytesMut, W> for SendProxyHeader {
    fn active(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>) {
        let view = cx.view();
        let says = match std::mem::replace(&mut self.says, Says::Nothing) {
            Says::This(header) => Ok(header),
            Says::Itself { v2 } => {
                // The peer of this channel is where it has connected to.
                let header = match (view.local(), view.peer()) {
                    (Some(source), Some(destination)) => ProxyHeader::new(source, destination),
                    _ => ProxyHeader::unknown(),
                };
                if v2 { header.encode_v2() } else { header.encode_v1() }
            }
            Says::Nothing => Ok(Bytes::new()),
        };
        match says {
            Ok(header) => {
                cx.write_and_flush(header);
                cx.fire_active();
            }
            Err(error) => {
                let fault = Fault::from(error);
                cx.fire_error(fault.clone());
                cx.close_because(CloseCause::Fault(fault));
            }
        }
    }
}

impl fmt::Debug for SendProxyHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendProxyHeader").finish_non_exhaustive()
    }
}

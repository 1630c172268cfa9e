//! A server as a client knows it before it connects.

use crate::{Connector, TlsError};
use rustls_pki_types::ServerName;

/// A server that a client wants to talk to by TLS: how, and by which name it has to show itself.
///
/// The name is checked here, before there is a connection. So the stage that [`Tls::to`](crate::Tls::to) makes of it cannot
/// fail, and a pipeline that is built on a loop has no reason to go without.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_tls::{Certificate, Connector, Roots, Tls, TlsError};
///
/// let roots = Roots::of(&Certificate::self_signed(["localhost"])?)?;
/// let connector = Connector::builder().roots(roots).build()?;
/// assert!(matches!(connector.to("127.1"), Err(TlsError::ServerName(_)))); // resolves, but no certificate is for it
///
/// let server = connector.to("localhost")?;
/// let echo = pipeline().add(Tls::to(&server)).handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
/// let mut channel = EmbeddedChannel::new(echo);
/// assert_eq!(channel.outbound_bytes()[0], 22); // a handshake begins
/// # Ok::<(), TlsError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Destination {
    pub(crate) connector: Connector,
    pub(crate) server_name: ServerName<'static>,
    name: String,
}

impl Destination {
    /// The server's name, in lower case.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Connector {
    /// The server of this name, or address, as it is reached by this connector.
    ///
    /// # Errors
    /// This is no name of a server.
    pub fn to(&self, name: &str) -> Result<Destination, TlsError> {
        let server_name =
            ServerName::try_from(name.to_owned()).map_err(|_| TlsError::ServerName(name.to_owned()))?;
        Ok(Destination { connector: self.clone(), server_name, name: name.to_ascii_lowercase() })
    }
}

//! What was agreed on.

use crate::connection::Connection;
use rustls::{CipherSuite, HandshakeKind, ProtocolVersion};
use rustls_pki_types::CertificateDer;

/// The handshake is done: what both sides agreed on. Fired as an event behind the TLS stage, before the first byte of data,
/// and what [`Tls::handshake`](crate::Tls::handshake) resolves to.
///
/// ```
/// use netwright_core::{AppContext, Application, Event};
/// use netwright_tls::Handshake;
/// use bytes::{Bytes, BytesMut};
///
/// struct Curious;
///
/// impl Application for Curious {
///     type Read = BytesMut;
///     type Write = Bytes;
///
///     fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
///         if let Some(Handshake { version, server_name, resumed, .. }) = event.get() {
///             println!("{}: {version:?} for {server_name:?}, resumed: {resumed}", cx.view().id());
///         }
///     }
///     fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handshake {
    /// The application protocol, if one was agreed on.
    pub alpn: Option<Vec<u8>>,
    /// The server that the client wants to talk to.
    pub server_name: Option<String>,
    /// The version of TLS.
    pub version: ProtocolVersion,
    /// The cipher suite.
    pub cipher_suite: CipherSuite,
    /// The peer's certificates, its own first. A server has those of clients only if it asks for them.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    /// Whether a former session was resumed.
    pub resumed: bool,
}

impl Handshake {
    pub(crate) fn of(connection: &Connection, server_name: Option<String>) -> Self {
        Self {
            alpn: connection.alpn_protocol().map(<[u8]>::to_vec),
            server_name,
            version: connection.protocol_version().unwrap_or(ProtocolVersion::TLSv1_2),
            cipher_suite: connection
                .negotiated_cipher_suite()
                .map_or(CipherSuite::TLS_NULL_WITH_NULL_NULL, |suite| suite.suite()),
            peer_certificates: connection.peer_certificates().unwrap_or_default().to_vec(),
            resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        }
    }
}

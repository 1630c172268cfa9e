//! A header as a value: whom a proxy speaks for, and what else it tells.

use super::{
    error::{ProxyProtocolError, malformed},
    tlv::{ProxySsl, Tlv, kind},
    v1, v2,
};
use bytes::Bytes;
use netwright_core::{Address, ChannelView};

/// What a proxy says first on a connection: whom it speaks for. Read by [`ProxyProtocol`](super::ProxyProtocol), written by
/// [`SendProxyHeader`](super::SendProxyHeader).
///
/// ```
/// use netwright_handler::ProxyHeader;
///
/// let header = ProxyHeader::new("192.0.2.7:4711".parse()?, "198.51.100.1:443".parse()?);
/// assert_eq!(header.encode_v1()?, "PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n");
/// let more = header.with_alpn("h2").with_authority("example.org").with_checksum();
/// assert_eq!(more.encode_v2()?.len(), 16 + 12 + 5 + 14 + 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[doc(alias = "HAProxyMessage")]
pub struct ProxyHeader {
    pub(super) command: Command,
    pub(super) ends: Option<(Address, Address)>,
    pub(super) datagrams: bool,
    pub(super) values: Vec<Tlv>,
    pub(super) checksum: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Local,
    Proxy,
}

impl ProxyHeader {
    /// A proxy speaks for the client at `source`, which connected to `destination`.
    pub fn new(source: Address, destination: Address) -> Self {
        Self::of(Command::Proxy, Some((source, destination)))
    }

    /// The proxy speaks for itself, to look whether the server lives, say.
    pub fn local() -> Self {
        Self::of(Command::Local, None)
    }

    /// The proxy speaks for somebody of whom it does not know, or does not tell, the addresses.
    pub fn unknown() -> Self {
        Self::of(Command::Proxy, None)
    }

    /// A proxy speaks for whoever is at the other end of a channel, by what this channel's stages know of it.
    pub fn of_channel<R>(view: &ChannelView<'_, R>) -> Self {
        match (view.peer(), view.local()) {
            (Some(peer), Some(local)) => Self::new(peer, local),
            _ => Self::unknown(),
        }
    }

    pub(super) fn of(command: Command, ends: Option<(Address, Address)>) -> Self {
        Self { command, ends, datagrams: false, values: Vec::new(), checksum: false }
    }

    /// Where the client is, if it was told.
    pub fn source(&self) -> Option<&Address> {
        self.ends.as_ref().map(|(source, _)| source)
    }

    /// Where the client connected to, if it was told.
    pub fn destination(&self) -> Option<&Address> {
        self.ends.as_ref().map(|(_, destination)| destination)
    }

    /// Whether the proxy speaks for itself.
    pub fn is_local(&self) -> bool {
        self.command == Command::Local
    }

    /// Whether what the client sends the proxy are datagrams.
    pub fn is_of_datagrams(&self) -> bool {
        self.datagrams
    }

    /// Whether there was a checksum, which was right.
    pub fn was_checked(&self) -> bool {
        self.checksum
    }

    /// All further values, in the order in which they came.
    pub fn values(&self) -> &[Tlv] {
        &self.values
    }

    /// The first value of this kind.
    pub fn value(&self, kind: u8) -> Option<&Bytes> {
        self.values.iter().find(|value| value.kind == kind).map(|value| &value.value)
    }

    /// The protocol that client and proxy agreed on, as in TLS.
    pub fn alpn(&self) -> Option<&Bytes> {
        self.value(kind::ALPN)
    }

    /// The name of the host that the client wanted, as TLS' SNI has it.
    pub fn authority(&self) -> Option<&str> {
        std::str::from_utf8(self.value(kind::AUTHORITY)?).ok()
    }

    /// What the proxy calls this connection, at most 128 bytes.
    pub fn unique_id(&self) -> Option<&Bytes> {
        self.value(kind::UNIQUE_ID)
    }

    /// The network namespace of the client.
    pub fn network_namespace(&self) -> Option<&str> {
        std::str::from_utf8(self.value(kind::NETWORK_NAMESPACE)?).ok()
    }

    /// What the proxy tells of the client's TLS, if it was told; looked at when the header was read.
    pub fn ssl(&self) -> Option<ProxySsl> {
        ProxySsl::read(self.value(kind::SSL)?).ok()
    }

    // ---- for those who write one ----

    /// Adds a value of any kind.
    pub fn with_value(mut self, kind: u8, value: impl Into<Bytes>) -> Self {
        self.values.push(Tlv { kind, value: value.into() });
        self
    }

    /// Adds the protocol that the client agreed on.
    pub fn with_alpn(self, protocol: impl Into<Bytes>) -> Self {
        self.with_value(kind::ALPN, protocol)
    }

    /// Adds the name of the host that the client wanted.
    pub fn with_authority(self, name: impl Into<String>) -> Self {
        self.with_value(kind::AUTHORITY, name.into())
    }

    /// Adds what this connection is called.
    pub fn with_unique_id(self, id: impl Into<Bytes>) -> Self {
        self.with_value(kind::UNIQUE_ID, id)
    }

    /// Adds what is known of the client's TLS.
    pub fn with_ssl(self, ssl: &ProxySsl) -> Self {
        self.with_value(kind::SSL, ssl.encode())
    }

    /// Has a checksum written.
    pub fn with_checksum(mut self) -> Self {
        self.checksum = true;
        self
    }

    /// As text, version 1, which knows addresses and nothing else: values and the checksum are left out.
    ///
    /// # Errors
    /// Never of addresses on a network or unknown ones; Unix sockets, datagrams and local connections have no text.
    pub fn encode_v1(&self) -> Result<Bytes, ProxyProtocolError> {
        if self.is_local() || self.datagrams {
            return malformed("version 1 has neither local connections nor datagrams");
        }
        v1::encode(self)
    }

    /// As bytes, version 2.
    ///
    /// # Errors
    /// The values are longer than a header can be, one of them is not allowed, or a path is longer than 108 bytes.
    pub fn encode_v2(&self) -> Result<Bytes, ProxyProtocolError> {
        v2::encode(self)
    }
}

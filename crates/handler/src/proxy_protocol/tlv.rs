//! Values of a kind and a length, behind the addresses of version 2.
//!
//! ```text
//!   [kind][length, 2][value …][kind][length, 2][value …]
//!                     └── of one kind, SSL: [flags][verified, 4][kind][length, 2][value …] …     and no deeper
//! ```

use super::error::{ProxyProtocolError, malformed};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Kinds of values.
pub(super) mod kind {
    pub(in super::super) const ALPN: u8 = 0x01;
    pub(in super::super) const AUTHORITY: u8 = 0x02;
    pub(in super::super) const CRC32C: u8 = 0x03;
    pub(in super::super) const NOOP: u8 = 0x04;
    pub(in super::super) const UNIQUE_ID: u8 = 0x05;
    pub(in super::super) const SSL: u8 = 0x20;
    pub(in super::super) const SSL_VERSION: u8 = 0x21;
    pub(in super::super) const SSL_CN: u8 = 0x22;
    pub(in super::super) const SSL_CIPHER: u8 = 0x23;
    pub(in super::super) const SSL_SIG_ALG: u8 = 0x24;
    pub(in super::super) const SSL_KEY_ALG: u8 = 0x25;
    pub(in super::super) const NETWORK_NAMESPACE: u8 = 0x30;
}

/// As many bytes may a unique id have.
const UNIQUE_ID_MAX: usize = 128;

/// A further value in a [`ProxyHeader`](super::ProxyHeader).
///
/// ```
/// use netwright_handler::{ProxyHeader, Tlv};
///
/// let header = ProxyHeader::unknown().with_value(0xea, "mine");
/// assert_eq!(header.values(), [Tlv { kind: 0xea, value: "mine".into() }]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tlv {
    /// Its number. From 0xe0 to 0xef: whoever runs the proxy may say what it means.
    pub kind: u8,
    /// The value itself.
    pub value: Bytes,
}

/// The values in some bytes, with where each begins.
pub(super) fn split(mut bytes: Bytes) -> impl Iterator<Item = Result<(usize, Tlv), ProxyProtocolError>> {
    let all = bytes.len();
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let begins = all - bytes.len();
        if bytes.len() < 3 {
            bytes.clear();
            return Some(malformed("a value without its length"));
        }
        let (kind, length) = (bytes.get_u8(), usize::from(bytes.get_u16()));
        if length > bytes.len() {
            bytes.clear();
            return Some(malformed("a value that is longer than the header"));
        }
        Some(Ok((begins, Tlv { kind, value: bytes.split_to(length) })))
    })
}

impl Tlv {
    /// Looks at a value of a header itself.
    pub(super) fn check(&self) -> Result<(), ProxyProtocolError> {
        match self.kind {
            kind::AUTHORITY | kind::NETWORK_NAMESPACE if std::str::from_utf8(&self.value).is_err() => {
                malformed("a name that is no UTF-8")
            }
            kind::UNIQUE_ID if self.value.len() > UNIQUE_ID_MAX => Err(ProxyProtocolError::TooLong {
                what: "unique id",
                limit: UNIQUE_ID_MAX,
                got: self.value.len(),
            }),
            kind::CRC32C if self.value.len() != 4 => malformed("a checksum that is not 4 bytes long"),
            kind::SSL => ProxySsl::read(&self.value).map(drop),
            _ => Ok(()),
        }
    }

    pub(super) fn write(&self, out: &mut BytesMut) -> Result<(), ProxyProtocolError> {
        let Ok(length) = u16::try_from(self.value.len()) else {
            return Err(ProxyProtocolError::TooLong {
                what: "value",
                limit: usize::from(u16::MAX),
                got: self.value.len(),
            });
        };
        out.put_u8(self.kind);
        out.put_u16(length);
        out.extend_from_slice(&self.value);
        Ok(())
    }
}

/// What a proxy tells of the TLS between it and its client.
///
/// ```
/// use netwright_handler::{ProxyHeader, ProxySsl};
///
/// let ssl = ProxySsl::new().with_version("TLSv1.3").with_verified_certificate("ada");
/// let header = ProxyHeader::unknown().with_ssl(&ssl);
/// let read = header.ssl().unwrap();
/// assert_eq!((read.version(), read.common_name(), read.is_verified()), (Some("TLSv1.3"), Some("ada"), true));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxySsl {
    flags: u8,
    /// Zero: the certificate is right.
    verify: u32,
    values: Vec<Tlv>,
}

/// The client connected with TLS.
const WITH_TLS: u8 = 0x01;
/// It showed a certificate on this connection.
const SHOWED_CERTIFICATE: u8 = 0x02;
/// It showed one in this session.
const SHOWED_CERTIFICATE_ONCE: u8 = 0x04;

impl ProxySsl {
    /// The client connected with TLS, and nothing else is known.
    pub fn new() -> Self {
        Self { flags: WITH_TLS, verify: 1, values: Vec::new() }
    }

    /// The version of TLS.
    pub fn with_version(self, version: impl Into<String>) -> Self {
        self.with_value(kind::SSL_VERSION, version.into())
    }

    /// The client showed a certificate with this common name, and it was verified.
    pub fn with_verified_certificate(mut self, common_name: impl Into<String>) -> Self {
        (self.flags, self.verify) = (self.flags | SHOWED_CERTIFICATE | SHOWED_CERTIFICATE_ONCE, 0);
        self.with_value(kind::SSL_CN, common_name.into())
    }

    /// A further value of any kind.
    pub fn with_value(mut self, kind: u8, value: impl Into<Bytes>) -> Self {
        self.values.push(Tlv { kind, value: value.into() });
        self
    }

    /// Reads the value of a header.
    pub(super) fn read(value: &Bytes) -> Result<Self, ProxyProtocolError> {
        let mut rest = value.clone();
        if rest.len() < 5 {
            return malformed("a value for TLS that is shorter than its flags");
        }
        let (flags, verify) = (rest.get_u8(), rest.get_u32());
        let mut values = Vec::new();
        for value in split(rest) {
            let (_, value) = value?;
            if value.kind == kind::SSL {
                return Err(ProxyProtocolError::Nested);
            }
            values.push(value);
        }
        Ok(Self { flags, verify, values })
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        out.put_u8(self.flags);
        out.put_u32(self.verify);
        for value in &self.values {
            // One that is too long makes the whole too long, which the header's writer refuses.
            if value.write(&mut out).is_err() {
                out.extend_from_slice(&value.value);
            }
        }
        out.freeze()
    }

    /// Whether the client connected with TLS.
    pub fn is_tls(&self) -> bool {
        self.flags & WITH_TLS != 0
    }

    /// Whether the client showed a certificate, on this connection or earlier in its session.
    pub fn has_certificate(&self) -> bool {
        self.flags & (SHOWED_CERTIFICATE | SHOWED_CERTIFICATE_ONCE) != 0
    }

    /// Whether it showed one that was verified.
    pub fn is_verified(&self) -> bool {
        self.has_certificate() && self.verify == 0
    }

    /// The version of TLS.
    pub fn version(&self) -> Option<&str> {
        self.text(kind::SSL_VERSION)
    }

    /// The common name in the client's certificate.
    pub fn common_name(&self) -> Option<&str> {
        self.text(kind::SSL_CN)
    }

    /// The cipher.
    pub fn cipher(&self) -> Option<&str> {
        self.text(kind::SSL_CIPHER)
    }

    /// The algorithm that signed the server's certificate.
    pub fn signature_algorithm(&self) -> Option<&str> {
        self.text(kind::SSL_SIG_ALG)
    }

    /// The algorithm of the key in the server's certificate.
    pub fn key_algorithm(&self) -> Option<&str> {
        self.text(kind::SSL_KEY_ALG)
    }

    /// All values, in the order in which they came.
    pub fn values(&self) -> &[Tlv] {
        &self.values
    }

    fn text(&self, kind: u8) -> Option<&str> {
        let value = self.values.iter().find(|value| value.kind == kind)?;
        std::str::from_utf8(&value.value).ok()
    }
}

impl Default for ProxySsl {
    fn default() -> Self {
        Self::new()
    }
}

//! What a client says about itself first, and what follows from it.

use crate::{Certificate, inbox::HEADER};
use netwright_core::detect::{self, Verdict};
use rustls::{CipherSuite, ServerConfig, SignatureScheme, server::ClientHello};
use rustls_pki_types::DnsName;
use std::sync::Arc;

/// What a client has said in its ClientHello, for whoever chooses a certificate for it.
///
/// ```
/// use netwright_tls::{Acceptor, Certificate, Hello, Resolved};
///
/// let certificate = Certificate::self_signed(["localhost"])?;
/// let acceptor = Acceptor::builder()
///     .certificate(&certificate)
///     .resolve_async(|hello: Hello| async move {
///         println!("{:?} is asked for", hello.server_name); // may look it up anywhere
///         Ok(Resolved::Default)
///     })
///     .build()?;
/// # drop(acceptor);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Hello {
    /// The server that it wants to talk to (SNI), in lower case.
    pub server_name: Option<String>,
    /// The protocols that it speaks, the one that it likes best first.
    pub alpn: Vec<Vec<u8>>,
    /// The signatures that it can check.
    pub signature_schemes: Vec<SignatureScheme>,
    /// The cipher suites that it knows.
    pub cipher_suites: Vec<CipherSuite>,
}

impl Hello {
    pub(crate) fn of(hello: &ClientHello<'_>) -> Self {
        Self {
            server_name: hello.server_name().map(str::to_ascii_lowercase),
            alpn: hello.alpn().into_iter().flatten().map(<[u8]>::to_vec).collect(),
            signature_schemes: hello.signature_schemes().to_vec(),
            cipher_suites: hello.cipher_suites().to_vec(),
        }
    }
}

/// What a client gets that was asked about: see [`resolve_async`](crate::AcceptorBuilder::resolve_async).
///
/// ```
/// use netwright_tls::{Certificate, Resolved};
///
/// let found = Resolved::Certificate(Certificate::self_signed(["example.test"])?);
/// # drop(found);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Resolved {
    /// What the acceptor's other settings say.
    Default,
    /// This certificate, with the acceptor's other settings.
    Certificate(Certificate),
    /// A configuration of its own.
    Config(Arc<ServerConfig>),
}

/// Whether bytes from a client are the beginning of TLS: `None` if they are too few to tell.
///
/// A handshake begins with a record of type 22, a version that begins with 3, a length that such a record may have, and a
/// ClientHello in it. Nothing that people type begins like that. For ports that serve both: by the same rule as
/// [`detect::tls`].
///
/// ```
/// use netwright_tls::looks_like_tls;
///
/// assert_eq!(looks_like_tls(b"GET / HTTP/1.1"), Some(false));
/// assert_eq!(looks_like_tls(&[22, 3, 1, 2, 0, 1]), Some(true));
/// assert_eq!(looks_like_tls(&[22, 3]), None);
/// ```
pub fn looks_like_tls(bytes: &[u8]) -> Option<bool> {
    match detect::tls(bytes) {
        Verdict::Take => Some(true),
        Verdict::No => Some(false),
        Verdict::More => None,
    }
}

/// The same for what a server answers: a handshake, or an alert.
pub(crate) fn looks_like_answer(bytes: &[u8]) -> Option<bool> {
    if ![HANDSHAKE, ALERT].contains(bytes.first()?) || bytes.get(1).is_some_and(|&major| major != 3) {
        return Some(false);
    }
    let [_, _, minor, high, low, ..] = *bytes else { return None };
    let length = usize::from(high) << 8 | usize::from(low);
    Some(minor <= 4 && (1..=PLAIN_MAX).contains(&length))
}

const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const CLIENT_HELLO: u8 = 1;
const TLS_1_2: u16 = 0x0303;
/// What may be in one record before anything is encrypted (RFC 8446, 5.1).
const PLAIN_MAX: usize = 1 << 14;

/// The name in a ClientHello that is whole and in one record, as nearly all are. `None` if it is not, or looks odd: then it is
/// for rustls to say what it is. The name itself is `None` if none is asked for.
pub(crate) fn server_name_in(bytes: &[u8]) -> Option<Option<String>> {
    let mut record = Fields(bytes.strip_prefix(&[HANDSHAKE])?);
    record.take(2)?; // version
    let mut message = Fields(record.of_length(2)?);
    if message.number(1)? != usize::from(CLIENT_HELLO) {
        return None;
    }
    let mut hello = Fields(message.of_length(3)?);
    if hello.number(2)? < usize::from(TLS_1_2) {
        return None;
    }
    hello.take(32)?; // random
    hello.of_length(1)?; // session
    hello.of_length(2)?; // cipher suites
    hello.of_length(1)?; // compression
    let mut extensions = Fields(hello.of_length(2)?);
    while !extensions.0.is_empty() {
        let (kind, content) = (extensions.number(2)?, extensions.of_length(2)?);
        if kind == 0 {
            let mut names = Fields(Fields(content).of_length(2)?);
            if names.number(1)? != 0 {
                return None;
            }
            let name = std::str::from_utf8(names.of_length(2)?).ok()?;
            let name = DnsName::try_from(name).ok()?;
            return Some(Some(name.as_ref().to_ascii_lowercase()));
        }
    }
    Some(None)
}

/// Whether a ClientHello, in any records, is that of a client that knows nothing newer than TLS 1.1. rustls looks first for an
/// extension that such clients do not have, and would refuse them for that.
pub(crate) fn is_before_tls_1_2(mut bytes: impl Iterator<Item = u8>) -> bool {
    /// The message's type, its length, the version.
    const BEGINNING: usize = 1 + 3 + 2;
    let mut beginning = Vec::with_capacity(BEGINNING);
    while beginning.len() < BEGINNING {
        let header: Vec<_> = bytes.by_ref().take(HEADER).collect();
        let [_, _, _, high, low] = *header else { return false };
        let content = usize::from(high) << 8 | usize::from(low);
        let wanted = BEGINNING - beginning.len();
        beginning.extend(bytes.by_ref().take(content).take(wanted));
    }
    beginning[4..] < TLS_1_2.to_be_bytes()[..]
}

/// Bytes that are taken apart from the front; `None` where there are not enough.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(field)
    }

    /// A number of so many bytes.
    fn number(&mut self, bytes: usize) -> Option<usize> {
        Some(self.take(bytes)?.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A field that begins with its length, in so many bytes.
    fn of_length(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let length = self.number(bytes)?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_told_from_other_protocols_as_soon_as_a_byte_says_so() {
        for (bytes, expected) in [
            (&b""[..], None),
            (b"G", Some(false)),
            (b"\x16", None),
            (b"\x16\x02", Some(false)),
            (b"\x16\x03\x01\x00", None),
            (b"\x16\x03\x05\x00\x50", Some(false)),
            (b"\x16\x03\x01\x00\x00", Some(false)),
            (b"\x16\x03\x01\x49\x00", Some(false)),
            (b"\x16\x03\x01\x40\x00", None),
            (b"\x16\x03\x01\x40\x00\x02", Some(false)),
            (b"\x16\x03\x03\x40\x00\x01", Some(true)),
            (b"\x15\x03\x03\x00\x02\x02", Some(false)), // an alert is nothing to begin with
            (b"\x80\x2e\x01\x03\x01", Some(false)),     // SSL 2
        ] {
            assert_eq!(looks_like_tls(bytes), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn one_rule_says_what_tls_looks_like_here_and_to_those_who_detect_it() {
        for length in [0, 1, 512, 1 << 14, (1 << 14) + 1, (1 << 14) + 2048, (1 << 14) + 2049, u16::MAX] {
            let [high, low] = length.to_be_bytes();
            let bytes = [22, 3, 1, high, low, 1];
            for len in 0..=bytes.len() {
                let detected = match detect::tls(&bytes[..len]) {
                    Verdict::Take => Some(true),
                    Verdict::No => Some(false),
                    Verdict::More => None,
                };
                assert_eq!(looks_like_tls(&bytes[..len]), detected, "{len} bytes, a record of {length}");
            }
            let possible = (1..=1 << 14).contains(&length);
            assert_eq!(looks_like_answer(&bytes[..5]), Some(possible), "a record of {length}");
        }
    }

    /// A ClientHello with these extensions, in one record.
    fn hello(extensions: &[u8]) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([1, 9, 0, 2, 0x13, 1, 1, 0]);
        body.extend((extensions.len() as u16).to_be_bytes());
        body.extend(extensions);
        let mut message = vec![1, 0, 0, body.len() as u8];
        message.extend(body);
        let mut record = vec![22, 3, 1, 0, message.len() as u8];
        record.extend(message);
        record
    }

    #[test]
    fn the_name_is_found_in_a_whole_hello_and_nothing_else_is_guessed_at() {
        let name = |name: &[u8]| {
            let len = name.len() as u8;
            let mut extension = vec![0, 43, 0, 1, 2, 0, 0, 0, len + 5, 0, len + 3, 0, 0, len];
            extension.extend(name);
            hello(&extension)
        };
        assert_eq!(server_name_in(&name(b"Www.Example.Org")), Some(Some("www.example.org".into())));
        assert_eq!(server_name_in(&hello(&[0, 43, 0, 1, 2])), Some(None));
        assert_eq!(server_name_in(&hello(&[])), Some(None));
        assert_eq!(server_name_in(&name(b"not a name")), None);
        assert_eq!(server_name_in(&name(b"\xff\xfe")), None);
        let whole = name(b"example.org");
        for len in 0..whole.len() {
            assert_eq!(server_name_in(&whole[..len]), None, "the first {len} bytes");
        }
        assert_eq!(server_name_in(&[whole, b"more".to_vec()].concat()), Some(Some("example.org".into())));
    }

    #[test]
    fn servers_may_answer_with_an_alert() {
        assert_eq!(looks_like_answer(b"\x15\x03\x03\x00\x02\x02\x28"), Some(true));
        assert_eq!(looks_like_answer(b"HTTP/1.1 400"), Some(false));
    }
}

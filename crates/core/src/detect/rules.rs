//! What a rule says, and rules for what is well known.

/// What a rule says about the first bytes of a connection.
///
/// ```
/// use netwright_core::detect::{Verdict, http, tls};
///
/// let rules: [fn(&[u8]) -> Verdict; 2] = [tls, http];
/// let verdicts = rules.map(|rule| rule(b"GET / HT"));
/// assert_eq!(verdicts, [Verdict::No, Verdict::Take]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It may be this protocol: more bytes will tell.
    More,
    /// It is this protocol.
    Take,
    /// It is not, whatever follows.
    No,
}

/// A rule for connections that begin with these bytes.
///
/// ```
/// use netwright_core::detect::{Verdict, prefix};
///
/// let ssh = prefix("SSH-2.0-");
/// assert_eq!(ssh(b"SSH"), Verdict::More);
/// assert_eq!(ssh(b"SSH-2.0-OpenSSH"), Verdict::Take);
/// assert_eq!(ssh(b"SSL"), Verdict::No);
/// ```
pub fn prefix(start: impl AsRef<[u8]>) -> impl Fn(&[u8]) -> Verdict {
    move |bytes| starts_with(bytes, start.as_ref())
}

fn starts_with(bytes: &[u8], start: &[u8]) -> Verdict {
    let known = bytes.len().min(start.len());
    match bytes[..known] == start[..known] {
        false => Verdict::No,
        true if known == start.len() => Verdict::Take,
        true => Verdict::More,
    }
}

/// The handshake record that a ClientHello comes in.
const HANDSHAKE_RECORD: u8 = 22;
/// What may be in one record before it is encrypted (RFC 8446, 5.1).
const RECORD_MAX: u16 = 1 << 14;
const CLIENT_HELLO: u8 = 1;

/// A rule for TLS: a handshake record of any version, with a ClientHello in it (RFC 8446, 4 and 5.1).
///
/// ```
/// use netwright_core::detect::{Verdict, tls};
///
/// assert_eq!(tls(&[22, 3, 1]), Verdict::More);
/// assert_eq!(tls(&[22, 3, 1, 2, 0, 1]), Verdict::Take);
/// assert_eq!(tls(b"SSH-2.0-"), Verdict::No);
/// ```
pub fn tls(bytes: &[u8]) -> Verdict {
    let fits = |index: usize, is: &dyn Fn(u8) -> bool| bytes.get(index).is_none_or(|&byte| is(byte));
    let len = bytes.get(3..5).map(|len| u16::from_be_bytes([len[0], len[1]]));
    let possible = fits(0, &|byte| byte == HANDSHAKE_RECORD)
        && fits(1, &|major| major == 3)
        && fits(2, &|minor| minor <= 4)
        && len.is_none_or(|len| (1..=RECORD_MAX).contains(&len))
        && fits(5, &|kind| kind == CLIENT_HELLO);
    match possible {
        false => Verdict::No,
        true if bytes.len() > 5 => Verdict::Take,
        true => Verdict::More,
    }
}

/// The methods of RFC 9110, 9.3, and PATCH of RFC 5789.
const METHODS: [&str; 9] =
    ["GET ", "HEAD ", "POST ", "PUT ", "DELETE ", "CONNECT ", "OPTIONS ", "TRACE ", "PATCH "];

/// A rule for HTTP/1: a request with one of the standard methods. Others can be asked for with [`prefix`].
///
/// ```
/// use netwright_core::detect::{Verdict, http};
///
/// assert_eq!(http(b"PO"), Verdict::More);
/// assert_eq!(http(b"POST /orders"), Verdict::Take);
/// assert_eq!(http(b"PRI * HTTP/2.0"), Verdict::No);
/// ```
pub fn http(bytes: &[u8]) -> Verdict {
    let mut verdict = Verdict::No;
    for method in METHODS {
        match starts_with(bytes, method.as_bytes()) {
            Verdict::Take => return Verdict::Take,
            Verdict::More => verdict = Verdict::More,
            Verdict::No => {}
        }
    }
    verdict
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// What the rule says about each beginning, from one byte on: `more` times that it needs more, then always the same.
    #[track_caller]
    fn check(rule: impl Fn(&[u8]) -> Verdict, bytes: &[u8], more: usize, then: Verdict) {
        for len in 1..=bytes.len() {
            let expected = if len <= more { Verdict::More } else { then };
            assert_eq!(rule(&bytes[..len]), expected, "{:?}", bytes[..len].escape_ascii().to_string());
        }
    }

    #[test]
    fn a_client_hello_is_known_by_its_sixth_byte_and_not_before() {
        check(tls, &[22, 3, 1, 2, 0, 1, 0, 1], 5, Verdict::Take);
        check(tls, &[22, 3, 3, 0x40, 0, 1], 5, Verdict::Take);
    }

    #[test]
    fn what_cannot_be_a_client_hello_is_known_with_the_byte_that_says_so() {
        check(tls, b"GET ", 0, Verdict::No);
        check(tls, &[22, 2, 1], 1, Verdict::No);
        check(tls, &[22, 3, 9], 2, Verdict::No);
        check(tls, &[22, 3, 1, 0, 0], 4, Verdict::No); // an empty record
        check(tls, &[22, 3, 1, 0x40, 1], 4, Verdict::No); // longer than a record may be
        check(tls, &[22, 3, 1, 2, 0, 2], 5, Verdict::No); // a ServerHello
    }

    #[test]
    fn requests_are_known_by_the_space_behind_their_method() {
        for method in METHODS {
            check(http, method.as_bytes(), method.len() - 1, Verdict::Take);
        }
        check(http, b"GETS", 3, Verdict::No);
        check(http, b"PUSH", 2, Verdict::No);
        check(http, b"get ", 0, Verdict::No);
        check(http, b"\x16\x03\x01", 0, Verdict::No);
    }

    #[test]
    fn nothing_yet_needs_more() {
        assert_eq!(tls(b""), Verdict::More);
        assert_eq!(http(b""), Verdict::More);
        assert_eq!(prefix("x")(b""), Verdict::More);
    }
}

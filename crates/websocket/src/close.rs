//! Why a connection ends, as it goes over the wire: a code and a few words.

use crate::{Text, Violation};
use bytes::{BufMut, Bytes, BytesMut};
use std::fmt;

/// Bytes of a reason: a control frame has 125, the code takes two of them.
const REASON_MAX: usize = 123;

/// A close code that may be sent (RFC 6455 section 7.4, and what IANA has registered since).
///
/// ```
/// use netwright_websocket::CloseCode;
///
/// assert_eq!(CloseCode::new(1000), Some(CloseCode::NORMAL));
/// assert_eq!(CloseCode::new(4242).map(CloseCode::get), Some(4242));
/// assert_eq!(CloseCode::new(1005), None); // says "no code", and is never sent
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CloseCode(u16);

impl CloseCode {
    /// What there was to do is done.
    pub const NORMAL: Self = Self(1000);
    /// A server shuts down, a browser leaves the page.
    pub const GOING_AWAY: Self = Self(1001);
    /// The peer broke the protocol.
    pub const PROTOCOL: Self = Self(1002);
    /// The peer sent a kind of data that is not wanted.
    pub const UNSUPPORTED: Self = Self(1003);
    /// A message is not what it claims to be: text that is not UTF-8, data that cannot be decompressed.
    pub const INVALID: Self = Self(1007);
    /// The peer breaks a rule of ours.
    pub const POLICY: Self = Self(1008);
    /// A message is too big.
    pub const TOO_BIG: Self = Self(1009);
    /// The server did not agree to an extension that the client needs.
    pub const EXTENSION: Self = Self(1010);
    /// Something went wrong on our side.
    pub const INTERNAL: Self = Self(1011);
    /// The service restarts.
    pub const RESTART: Self = Self(1012);
    /// The service is overloaded.
    pub const TRY_AGAIN: Self = Self(1013);
    /// A gateway got no proper answer.
    pub const BAD_GATEWAY: Self = Self(1014);

    /// The code, unless it must not be sent.
    pub const fn new(code: u16) -> Option<Self> {
        match code {
            1000..=1003 | 1007..=1014 | 3000..=4999 => Some(Self(code)),
            _ => None,
        }
    }

    /// The number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Debug for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for CloseCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What a close frame says: maybe a code, and with a code maybe a reason.
///
/// ```
/// use netwright_websocket::{Close, CloseCode};
///
/// let close = Close::new(CloseCode::GOING_AWAY, "back in a minute");
/// assert_eq!(close.to_string(), "1001 back in a minute");
/// assert_eq!(Close::default().to_string(), "no code");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Close {
    /// The code, if one was given.
    pub code: Option<CloseCode>,
    /// A few words for people, at most 123 bytes.
    pub reason: Text,
}

impl Close {
    /// A code and a reason. Of a longer one what fits into 123 bytes is taken.
    pub fn new(code: CloseCode, reason: impl AsRef<str>) -> Self {
        let mut reason = reason.as_ref();
        if reason.len() > REASON_MAX {
            let cut = (0..=REASON_MAX).rev().find(|&at| reason.is_char_boundary(at));
            reason = &reason[..cut.unwrap_or(0)];
        }
        Self { code: Some(code), reason: Text::from(reason.to_owned()) }
    }

    /// Whether the peer has simply finished: no code, or 1000, or 1001.
    pub fn is_ordinary(&self) -> bool {
        matches!(self.code, None | Some(CloseCode::NORMAL | CloseCode::GOING_AWAY))
    }

    /// Reads a close frame's payload.
    pub(crate) fn parse(payload: &Bytes) -> Result<Self, Violation> {
        match payload[..] {
            [] => Ok(Self::default()),
            [_] => Err(Violation::CloseOfOneByte),
            [high, low, ..] => {
                let code = u16::from_be_bytes([high, low]);
                let code = CloseCode::new(code).ok_or(Violation::CloseCode { code })?;
                let reason = Text::try_from(payload.slice(2..)).map_err(|_| Violation::ReasonNotUtf8)?;
                Ok(Self { code: Some(code), reason })
            }
        }
    }

    /// The payload of a close frame.
    pub(crate) fn payload(&self) -> Bytes {
        let Some(code) = self.code else { return Bytes::new() };
        let reason = self.reason.as_bytes();
        let reason = &reason[..reason.len().min(REASON_MAX)];
        let mut payload = BytesMut::with_capacity(2 + reason.len());
        payload.put_u16(code.get());
        payload.put_slice(reason);
        payload.freeze()
    }
}

impl From<CloseCode> for Close {
    fn from(code: CloseCode) -> Self {
        Self { code: Some(code), reason: Text::default() }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            None => f.write_str("no code"),
            Some(code) if self.reason.is_empty() => write!(f, "{code}"),
            Some(code) => write!(f, "{code} {}", &*self.reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_close_payload_says_what_it_said_before() {
        for close in [Close::default(), CloseCode::NORMAL.into(), Close::new(CloseCode::POLICY, "né")] {
            assert_eq!(Close::parse(&close.payload()).unwrap(), close);
        }
    }

    #[test]
    fn a_reason_that_is_too_long_is_cut_between_characters() {
        let close = Close::new(CloseCode::NORMAL, "é".repeat(100));
        assert_eq!(close.reason.len(), 122);
        assert_eq!(Close::parse(&close.payload()).unwrap(), close);
    }

    #[test]
    fn codes_that_must_not_be_sent_are_refused() {
        for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535] {
            let payload = Bytes::copy_from_slice(&u16::to_be_bytes(code));
            assert_eq!(Close::parse(&payload), Err(Violation::CloseCode { code }));
        }
        assert_eq!(Close::parse(&Bytes::from_static(b"\x03")), Err(Violation::CloseOfOneByte));
        assert_eq!(Close::parse(&Bytes::from_static(b"\x03\xe8\xff")), Err(Violation::ReasonNotUtf8));
    }
}

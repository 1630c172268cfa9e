//! A line of a head, as it lies between the compression (`hpack`) and the heads.
//!
//! What cannot be a field (an upper-case name, a line end in a value) is one all the same here: the compression has to go on behind it,
//! or all later heads of the connection would be read wrongly. Whoever makes heads of fields refuses it, and its stream with it.

use http::{HeaderName, HeaderValue};

/// A field that says what a line of HTTP/1.1 says at the top.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Pseudo {
    Method,
    Scheme,
    Authority,
    Path,
    Status,
    /// What an extended `CONNECT` asks for (RFC 8441).
    Protocol,
}

impl Pseudo {
    /// As it is on the wire, with its colon.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Method => ":method",
            Self::Scheme => ":scheme",
            Self::Authority => ":authority",
            Self::Path => ":path",
            Self::Status => ":status",
            Self::Protocol => ":protocol",
        }
    }

    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        Some(match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":status" => Self::Status,
            b":protocol" => Self::Protocol,
            _ => return None,
        })
    }
}

/// What a field is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Name {
    Pseudo(Pseudo),
    Header(HeaderName),
    /// No field is called that.
    Bad,
}

/// A line of a head. Cheap to clone: the dynamic table of the compression keeps one, and each head that mentions it gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) name: Name,
    /// `None`: no field has this value.
    pub(crate) value: Option<HeaderValue>,
    /// Bytes of name and value: what it counts for, without the 32 that each has beside.
    pub(crate) size: usize,
}

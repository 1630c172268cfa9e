//! A line of a head, as it lies between the compression (`hpack`) and the heads.
//!
//! What cannot be a field (an upper-case name, a line end in a value) is one all the same here: the compression has to go on behind it,
//! or all later heads of the connection would be read wrongly. Whoever makes heads of fields refuses it, and its stream with it.

use bytes::Bytes;
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

/// What a field says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// Nobody has looked at the value.
    Pseudo(Pseudo, Bytes),
    Header(HeaderName, HeaderValue),
    /// No field is called that.
    BadName,
    /// The field of this name, which is kept for those that refer to it, has a value that no field has.
    BadValue(HeaderName),
}

/// A line of a head. Cheap to clone: the dynamic table of the compression keeps one, and each head that mentions it gets one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) line: Line,
    /// Bytes of the name, also of one that is none.
    pub(crate) name_len: u32,
    /// Bytes of name and value: what it counts for, without the 32 that each has beside.
    pub(crate) size: u32,
}

/// What a field counts for beside its bytes, in tables and in lists (RFC 7541, section 4.1).
pub(crate) const FIELD_OVERHEAD: usize = 32;

impl Field {
    /// What it counts for, in tables and in lists.
    #[inline]
    pub(crate) fn weight(&self) -> usize {
        self.size as usize + FIELD_OVERHEAD
    }

    pub(crate) fn name(&self) -> Name {
        match &self.line {
            Line::Pseudo(pseudo, _) => Name::Pseudo(*pseudo),
            Line::Header(name, _) | Line::BadValue(name) => Name::Header(name.clone()),
            Line::BadName => Name::Bad,
        }
    }
}

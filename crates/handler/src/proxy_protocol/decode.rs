//! Which header the first bytes are, if they are one: a plain function of the bytes, without a channel.

use super::{ProxyHeader, ProxyProtocolError, v1, v2};

/// What the first bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Look {
    /// They may become a header: more of them tell. Nothing else begins like this once the signature is whole.
    More,
    /// No header: it does not begin so.
    Other,
    /// A header of so many bytes.
    Header { header: ProxyHeader, length: usize },
}

/// Looks at the first bytes of a connection. `max` is the limit of version 2; version 1 has its own.
pub(super) fn look(bytes: &[u8], max: usize) -> Result<Look, ProxyProtocolError> {
    match signature(bytes) {
        Signature::V1 => v1::look(bytes),
        Signature::V2 => v2::look(bytes, max),
        Signature::Part => Ok(Look::More),
        Signature::None => Ok(Look::Other),
    }
}

/// How a header begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signature {
    V1,
    V2,
    /// As far as there is something, it may be one.
    Part,
    None,
}

pub(super) fn signature(bytes: &[u8]) -> Signature {
    for (signature, which) in [(v1::SIGNATURE, Signature::V1), (v2::SIGNATURE, Signature::V2)] {
        let both = bytes.len().min(signature.len());
        if bytes[..both] == signature[..both] {
            return if both == signature.len() { which } else { Signature::Part };
        }
    }
    Signature::None
}

//! What a reset of a stream, or the goodbye of a connection, says (RFC 9113, section 7).

use std::fmt;

/// Why a stream was reset, or a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub u32);

impl ErrorCode {
    /// Nothing is wrong.
    pub const NO_ERROR: Self = Self(0);
    /// The peer broke the protocol, and no other code says how.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// Whoever sends this has failed.
    pub const INTERNAL_ERROR: Self = Self(2);
    /// More bytes than were granted, or more credit than can be counted.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// Settings were not acknowledged in time.
    pub const SETTINGS_TIMEOUT: Self = Self(4);
    /// A frame on a stream whose sender had ended it.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame of a length that it cannot have.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not looked at: its request may be sent again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// Nobody needs the stream any more.
    pub const CANCEL: Self = Self(8);
    /// A block of fields that cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// What a `CONNECT` led to was reset.
    pub const CONNECT_ERROR: Self = Self(10);
    /// The peer asks for more work than is borne.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
    /// TLS is not good enough.
    pub const INADEQUATE_SECURITY: Self = Self(12);
    /// HTTP/1.1 is to be used instead.
    pub const HTTP_1_1_REQUIRED: Self = Self(13);

    /// The name that the standard has for it, if it has one.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 14] = [
            "NO_ERROR",
            "PROTOCOL_ERROR",
            "INTERNAL_ERROR",
            "FLOW_CONTROL_ERROR",
            "SETTINGS_TIMEOUT",
            "STREAM_CLOSED",
            "FRAME_SIZE_ERROR",
            "REFUSED_STREAM",
            "CANCEL",
            "COMPRESSION_ERROR",
            "CONNECT_ERROR",
            "ENHANCE_YOUR_CALM",
            "INADEQUATE_SECURITY",
            "HTTP_1_1_REQUIRED",
        ];
        NAMES.get(usize::try_from(self.0).ok()?).copied()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "code {:#x}", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_unknown_ones_their_number() {
        assert_eq!(ErrorCode::ENHANCE_YOUR_CALM.to_string(), "ENHANCE_YOUR_CALM");
        assert_eq!(ErrorCode(14).to_string(), "code 0xe");
        assert_eq!(ErrorCode::HTTP_1_1_REQUIRED.name(), Some("HTTP_1_1_REQUIRED"));
    }
}

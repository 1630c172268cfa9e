//! What can be wrong with a frame, and with what was asked for.

use std::{error::Error, fmt};

/// Why a frame could not be cut, or not be written.
///
/// ```
/// use netwright_codec::{FrameError, LineFrames};
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
///
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(4)).handle(|_, _| {}));
/// channel.write_inbound("longer than four\n");
/// let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!() };
/// assert!(fault.downcast_ref::<FrameError>().is_some(), "{fault}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame is longer than allowed. One that is read has been or will be skipped, and the next one can be read; one that was to
    /// be written is not sent.
    TooLong {
        /// How long a frame may be.
        limit: usize,
        /// How long this one is, as far as it is known.
        got: usize,
    },
    /// A length below zero. Nobody knows where the next frame begins.
    NegativeLength {
        /// The length.
        length: i64,
    },
    /// The length says that the frame ends before its header does. Nobody knows where the next frame begins.
    EndsInHeader {
        /// The length as the field has it.
        length: i64,
        /// How long the frame would be, with what is always added to its length.
        frame: i64,
        /// How long the header is.
        header: usize,
    },
    /// More is to be stripped than the frame has. It has been skipped; the next one can be read.
    StripsTooMuch {
        /// How many bytes are to be stripped.
        strip: usize,
        /// How many the frame has.
        frame: usize,
    },
    /// A length in a variable number of bytes does not end, or is above 32 bits. Nobody knows where the next frame begins.
    BadVarint {
        /// How many bytes it has so far.
        bytes: usize,
    },
    /// A byte that cannot be where it is. Nobody knows where the next value begins.
    NotJson {
        /// The byte.
        byte: u8,
        /// At which place of the value.
        at: usize,
    },
    /// Objects and arrays nest deeper than allowed. Nobody should look for the next value.
    TooDeep {
        /// How deep they may nest.
        limit: usize,
    },
    /// A length does not fit into the field for it.
    DoesNotFit {
        /// How many bytes the field has.
        width: usize,
        /// The length, with what is added to it.
        length: i128,
    },
    /// A frame of a fixed length has another one.
    WrongLength {
        /// How many bytes every frame has.
        expected: usize,
        /// How many this one has.
        got: usize,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit, got } => write!(f, "a frame of {got} bytes or more, the limit is {limit}"),
            Self::NegativeLength { length } => write!(f, "a frame's length is {length}, the least is 0"),
            Self::EndsInHeader { length, frame, header } => {
                write!(f, "a frame's length of {length} makes {frame} bytes in all, its header has {header}")
            }
            Self::StripsTooMuch { strip, frame } => {
                write!(f, "{strip} bytes are to be stripped off a frame of {frame}")
            }
            Self::BadVarint { bytes } => {
                write!(f, "a frame's length is above 32 bits after {bytes} bytes, the limit is 5 bytes")
            }
            Self::NotJson { byte, at } => {
                write!(f, "\"{}\" cannot be at place {at} of a JSON value", byte.escape_ascii())
            }
            Self::TooDeep { limit } => write!(f, "JSON nests deeper than the limit of {limit}"),
            Self::DoesNotFit { width, length } => {
                write!(f, "a length of {length} does not fit into {width} bytes")
            }
            Self::WrongLength { expected, got } => write!(f, "a frame of {got} bytes, all have {expected}"),
        }
    }
}

impl Error for FrameError {}

/// A codec was asked for that cannot exist.
///
/// ```
/// use netwright_codec::FixedFrames;
///
/// let impossible = FixedFrames::of(0).unwrap_err();
/// println!("{impossible}"); // a frame of nothing would never end
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Impossible {
    /// What was asked for: the name of the parameter.
    pub parameter: &'static str,
    /// Its value.
    pub value: String,
    /// What it has to be.
    pub rule: String,
}

impl Impossible {
    pub(crate) fn new(parameter: &'static str, value: impl ToString, rule: impl Into<String>) -> Self {
        Self { parameter, value: value.to_string(), rule: rule.into() }
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be {}: {}", self.parameter, self.value, self.rule)
    }
}

impl Error for Impossible {}

//! What can be wrong with a compressed stream.

use super::Format;
use std::{error::Error, fmt};

/// Why a stream cannot be decompressed any further. Nothing sensible can follow: a stage raises it and closes the channel.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::Gzip;
///
/// let error = Gzip::decompressor().decompress(b"this is no gzip at all", &mut BytesMut::new(), 1024).unwrap_err();
/// println!("{error}");
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecompressError {
    /// More comes out than [`DecompressLimits::total`](super::DecompressLimits::total) allows.
    Total {
        /// Of what.
        format: Format,
        /// How many bytes may come out.
        limit: u64,
        /// How many did, at least.
        got: u64,
    },
    /// More comes out for what went in than [`DecompressLimits::ratio`](super::DecompressLimits::ratio) allows.
    Ratio {
        /// Of what.
        format: Format,
        /// How many bytes may come out for each that went in.
        limit: u64,
        /// How many came out.
        output: u64,
        /// How many went in.
        input: u64,
    },
    /// The stream wants to refer further back than [`DecompressLimits::window`](super::DecompressLimits::window) allows.
    Window {
        /// Of what.
        format: Format,
        /// How many bytes may have to be kept.
        limit: u64,
        /// How many would have to be.
        got: u64,
    },
    /// The bytes make no sense.
    Corrupt {
        /// Read as what.
        format: Format,
        /// Near which byte of the input.
        at: u64,
        /// What is wrong, in the library's own words.
        what: String,
    },
    /// The stream was made with a dictionary, and we have none.
    Dictionary {
        /// Of what.
        format: Format,
    },
    /// The input ended in the middle of the stream.
    Truncated {
        /// Of what.
        format: Format,
        /// How many bytes went in.
        input: u64,
    },
    /// Bytes follow where the stream has ended.
    Trailing {
        /// Of what.
        format: Format,
        /// The place of the first of them in the input.
        at: u64,
    },
    /// The decompressor was used after it had failed.
    AfterError {
        /// Of what.
        format: Format,
    },
}

impl DecompressError {
    /// The format that was read.
    pub fn format(&self) -> Format {
        match self {
            Self::Total { format, .. }
            | Self::Ratio { format, .. }
            | Self::Window { format, .. }
            | Self::Corrupt { format, .. }
            | Self::Dictionary { format }
            | Self::Truncated { format, .. }
            | Self::Trailing { format, .. }
            | Self::AfterError { format } => *format,
        }
    }
}

impl fmt::Display for DecompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Total { format, limit, got } => {
                write!(f, "{format}: {got} bytes or more come out, the limit is {limit}")
            }
            Self::Ratio { format, limit, output, input } => {
                write!(f, "{format}: {output} bytes came out of {input}, the limit is a ratio of {limit}")
            }
            Self::Window { format, limit, got } => {
                write!(f, "{format}: a window of {got} bytes is asked for, the limit is {limit}")
            }
            Self::Corrupt { format, at, what } => write!(f, "{format}: broken near byte {at}: {what}"),
            Self::Dictionary { format } => write!(f, "{format}: made with a dictionary that is not here"),
            Self::Truncated { format, input } => {
                write!(f, "{format}: ended in the middle, after {input} bytes")
            }
            Self::Trailing { format, at } => {
                write!(f, "{format}: ended before byte {at}, and more bytes follow")
            }
            Self::AfterError { format } => write!(f, "{format}: used after an error"),
        }
    }
}

impl Error for DecompressError {}

/// Why something could not be compressed.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::{CompressError, Flush, Gzip};
///
/// let (mut gzip, mut out) = (Gzip::compressor(), BytesMut::new());
/// gzip.compress(b"all", Flush::Finish, &mut out, 1024).unwrap();
/// let error = gzip.compress(b"and more", Flush::None, &mut out, 1024).unwrap_err();
/// assert!(matches!(error, CompressError::Ended { .. }));
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompressError {
    /// The stream was finished before, or failed.
    Ended {
        /// Of what.
        format: Format,
    },
    /// The library refused; it ran out of memory, or has a defect.
    Library {
        /// Of what.
        format: Format,
        /// In its own words.
        what: String,
    },
}

impl fmt::Display for CompressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { format } => write!(f, "{format}: the stream was finished before"),
            Self::Library { format, what } => write!(f, "{format}: could not compress: {what}"),
        }
    }
}

impl Error for CompressError {}

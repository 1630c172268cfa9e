//! Compression: bytes in, fewer bytes out, and back.
//!
//! ```text
//!   wire side                                                                           application side
//!   BytesMut ──▶ [ decode(Decompressor) ] ──▶ BytesMut, a piece at a time, pulled ──▶ frames, …
//!   Bytes    ◀── [ compress(Compressor) ] ◀── Bytes; flush makes all of it readable for the peer
//!                └ Compression, both ──────┘
//! ```
//!
//! | file | what it is |
//! | --- | --- |
//! | `decompressor` | [`Decompressor`], the state machine without a pipeline; limits and ends are here |
//! | `compressor` | [`Compressor`], the same the other way |
//! | `limits` | [`DecompressLimits`]: how much a peer may make us unpack |
//! | `error` | [`DecompressError`], [`CompressError`] |
//! | `stage` | [`Compress`] and [`Compression`], stages |
//! | `deflate`, … | one file for each library, behind two small traits of this file |
//! | `unit`, `pending` | what those files share: input up to a known length, output that found no room |
//!
//! Always true:
//! 1. A decompressor makes no more at a time than it is asked for, and is asked for a piece at a time: a bomb is never in
//!    memory, and whoever pauses stops it.
//! 2. What a decompressor holds is bounded by [`DecompressLimits::window`] and a small constant, whatever the input says.
//! 3. Every input ends in bytes, or in an error that names limit and value, or the place.
//!
//! Not here: which format a peer speaks (protocols say so; `Format` is a value for them).

#[cfg(feature = "brotli")]
mod brotli;
mod compressor;
mod decompressor;
mod error;
mod limits;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(any(feature = "deflate", feature = "gzip", feature = "lz4", feature = "snappy", feature = "zlib"))]
mod pending;
#[cfg(feature = "snappy")]
mod snappy;
mod stage;
#[cfg(any(feature = "lz4", feature = "snappy"))]
mod unit;
#[cfg(feature = "zstd")]
mod zstd;

#[cfg(any(feature = "gzip", feature = "zlib", feature = "deflate"))]
mod deflate;

pub use compressor::{Compressor, Flush};
pub use decompressor::Decompressor;
pub use error::{CompressError, DecompressError};
pub use limits::DecompressLimits;
pub use stage::{Compress, Compression, compress};

use std::fmt;

/// How far a [`Decompressor`] or a [`Compressor`] came with one call.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::{Flush, Gzip};
///
/// let step = Gzip::compressor().compress(b"hello", Flush::None, &mut BytesMut::new(), 1024).unwrap();
/// assert_eq!(step.taken, 5);
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// So many bytes of the input were used. The rest has to be given again.
    pub taken: usize,
    /// What it waits for.
    pub state: State,
}

/// What a [`Decompressor`] or a [`Compressor`] waits for.
///
/// ```
/// # #[cfg(feature = "gzip")] {
/// use bytes::BytesMut;
/// use netwright_codec::{Flush, Gzip, State};
///
/// let mut gzip = Gzip::compressor();
/// let mut step = |flush| gzip.compress(b"", flush, &mut BytesMut::new(), 1024).unwrap().state;
/// assert_eq!((step(Flush::Sync), step(Flush::Finish)), (State::NeedInput, State::Done));
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// All input is used, and everything that could be made of it was.
    NeedInput,
    /// The room that was offered is used up; there may be more to come without another byte of input.
    OutputFull,
    /// The compressed stream has ended. Input behind that may belong to somebody else.
    Done,
}

/// What an engine did with one call.
struct Moved {
    taken: usize,
    made: usize,
    reach: Reach,
}

/// How far an engine came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// In the middle: of a stream, or of what was asked for.
    Inside,
    /// The stream may be over, or go on; only its end says which.
    #[cfg(feature = "snappy")]
    MayEnd,
    /// At the end of the stream; for those who compress, of what was asked for.
    End,
}

/// Why an engine cannot go on.
enum Broken {
    /// The bytes make no sense, in the library's own words.
    Corrupt(String),
    /// The stream wants to look back further than the limit that holds here.
    #[cfg(any(feature = "brotli", feature = "lz4", feature = "zstd"))]
    Window { got: u64, limit: u64 },
    /// The stream was made with a dictionary that we do not have.
    #[allow(dead_code)] // not with Brotli or Snappy alone
    Dictionary,
}

impl Broken {
    fn corrupt(what: impl fmt::Display) -> Self {
        Self::Corrupt(what.to_string())
    }
}

/// A format's way back from compressed bytes. Takes what it can, makes what there is room for; whoever calls looks out for
/// limits, ends and engines that stand still. Any thread may run it: stages go to workers.
trait Expand: Send {
    fn expand(&mut self, input: &[u8], output: &mut [u8]) -> Result<Moved, Broken>;
    /// A stream has ended, another one begins.
    fn restart(&mut self) -> Result<(), Broken>;
}

/// A format's way to compressed bytes. `End` says that all input is taken and all that `flush` asks for was made. With
/// `Sync` or `Finish` it is called again, without further input, until then.
trait Shrink: Send {
    fn shrink(&mut self, input: &[u8], output: &mut [u8], flush: Flush) -> Result<Moved, String>;
}

/// Formats, and for each of them a type with ready stages and state machines.
macro_rules! formats {
    ($(
        $(#[$doc:meta])*
        $Name:ident = $feature:literal, chained: $chained:literal, levels: $levels:expr, windows: $windows:expr,
        expand: |$limits:ident| $expand:expr, shrink: |$level:ident, $window:ident| $shrink:expr;
    )+) => {
        /// A compressed format; those of the features that are on.
        ///
        /// A value for whoever learns the format at run time, as HTTP does from a header.
        ///
        /// ```
        /// use netwright_codec::{Decompressor, Format};
        ///
        /// let coding = "gzip";
        /// let format = Format::all().iter().find(|format| format.name() == coding);
        /// # #[cfg(feature = "gzip")]
        /// let body = Decompressor::new(*format.unwrap());
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $(#[cfg(feature = $feature)] $(#[$doc])* $Name,)+
        }

        impl Format {
            /// All formats that this program knows.
            pub fn all() -> &'static [Self] {
                &[$(#[cfg(feature = $feature)] Self::$Name,)+]
            }

            /// Its name, which is also the name of its feature.
            pub fn name(self) -> &'static str {
                match self { $(#[cfg(feature = $feature)] Self::$Name => $feature,)+ }
            }

            /// Whether one stream may follow another as if they were one, unless told otherwise.
            fn is_chained(self) -> bool {
                match self { $(#[cfg(feature = $feature)] Self::$Name => $chained,)+ }
            }

            /// The least and the greatest level.
            fn levels(self) -> Option<(i32, i32)> {
                match self { $(#[cfg(feature = $feature)] Self::$Name => $levels,)+ }
            }

            /// Binary logarithms of the smallest and the largest window that can be chosen.
            fn windows(self) -> Option<(u32, u32)> {
                match self { $(#[cfg(feature = $feature)] Self::$Name => $windows,)+ }
            }

            fn expander(self, limits: &DecompressLimits) -> Result<Box<dyn Expand>, Broken> {
                match self {
                    $(#[cfg(feature = $feature)] Self::$Name => { let $limits = limits; Ok(Box::new($expand)) })+
                }
            }

            fn shrinker(self, level: Option<i32>, window: u32) -> Result<Box<dyn Shrink>, String> {
                match self {
                    $(#[cfg(feature = $feature)] Self::$Name => {
                        let ($level, $window) = (level, window);
                        Ok(Box::new($shrink))
                    })+
                }
            }
        }

        $(
            #[cfg(feature = $feature)]
            $(#[$doc])*
            ///
            /// Not a value: its functions make stages, with the default settings, and state machines.
            #[derive(Debug)]
            pub enum $Name {}

            #[cfg(feature = $feature)]
            impl $Name {
                /// A stage that decompresses what is read and compresses what is written.
                pub fn both_ways() -> Compression {
                    Compression::new(Self::decompressor(), Self::compressor())
                }

                /// A stage that decompresses what is read. For settings of one's own:
                /// [`decode`](crate::decode)`(`[`decompressor`](Self::decompressor)`())`.
                pub fn decompress() -> crate::Decode<Decompressor> {
                    crate::decode(Self::decompressor())
                }

                /// A stage that compresses what is written. For settings of one's own:
                /// [`compress`](compress())`(`[`compressor`](Self::compressor)`())`.
                pub fn compress() -> Compress {
                    compress(Self::compressor())
                }

                /// The state machine that decompresses.
                pub fn decompressor() -> Decompressor {
                    Decompressor::new(Format::$Name)
                }

                /// The state machine that compresses.
                pub fn compressor() -> Compressor {
                    Compressor::new(Format::$Name)
                }
            }
        )+
    };
}

formats! {
    /// Deflate with a header and a CRC-32 (RFC 1952): what `gzip` writes, and HTTP's `gzip`. Levels 0 to 9, 6 by default.
    /// Streams in a row are read as one, as `gzip` does; [`Decompressor::chained`] says otherwise.
    Gzip = "gzip", chained: true, levels: Some((0, 9)), windows: None,
    expand: |_limits| deflate::Inflate::new(deflate::Wrap::Gzip),
    shrink: |level, _window| deflate::Deflate::new(deflate::Wrap::Gzip, level);

    /// Deflate with a short header and an Adler-32 (RFC 1950): also what HTTP calls `deflate`. Levels 0 to 9, 6 by default.
    Zlib = "zlib", chained: false, levels: Some((0, 9)), windows: None,
    expand: |_limits| deflate::Inflate::new(deflate::Wrap::Zlib),
    shrink: |level, _window| deflate::Deflate::new(deflate::Wrap::Zlib, level);

    /// Deflate and nothing around it (RFC 1951): no checksum. Levels 0 to 9, 6 by default.
    Deflate = "deflate", chained: false, levels: Some((0, 9)), windows: None,
    expand: |_limits| deflate::Inflate::new(deflate::Wrap::Raw),
    shrink: |level, _window| deflate::Deflate::new(deflate::Wrap::Raw, level);

    /// Zstandard (RFC 8878): faster than gzip and smaller. Levels -7 to 22, 3 by default; windows of 1 KiB to 128 MiB. Streams
    /// in a row are read as one, frames that can be skipped are; [`Decompressor::chained`] says otherwise.
    Zstd = "zstd", chained: true, levels: Some((-7, 22)), windows: Some((10, 27)),
    expand: |limits| zstd::Unzstd::new(limits)?, shrink: |level, window| zstd::Zstd::new(level, window)?;

    /// Brotli (RFC 7932): HTTP's `br`, the smallest for text. Levels 0 to 11, 5 by default; windows of 1 KiB to 16 MiB.
    Brotli = "brotli", chained: false, levels: Some((0, 11)), windows: Some((10, 24)),
    expand: |limits| brotli::Unbrotli::new(limits), shrink: |level, window| brotli::Brotli::new(level, window);

    /// LZ4's frame format: less small than the others, and far faster. Streams in a row are read as one, frames that can be
    /// skipped are; [`Decompressor::chained`] says otherwise.
    Lz4 = "lz4", chained: true, levels: None, windows: None,
    expand: |limits| lz4::Unlz4::new(limits), shrink: |_level, _window| lz4::Lz4::new();

    /// Snappy's framing format: fast, with a checksum for each 64 KiB, and no mark at its end.
    Snappy = "snappy", chained: true, levels: None, windows: None,
    expand: |_limits| snappy::Unsnappy::new(), shrink: |_level, _window| snappy::Snappy::new();
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

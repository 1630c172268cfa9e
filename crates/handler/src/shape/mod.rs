//! Traffic shaping: how much may pass in a second, for a channel, for a key, for a group of channels, for all.
//!
//! [`Shape`] is the stage. It asks [`Bucket`]s, whose [`Rate`] can be changed while channels wait; [`Buckets`] has one for each key.
//!
//! ```
//! use netwright_core::{EmbeddedChannel, pipeline};
//! use netwright_handler::{Shape, shape::{Bucket, Rate}};
//! use std::time::Duration;
//!
//! // Two channels that may send 10 kB a second together: a large message holds no small one up.
//! let together = Bucket::new("10k".parse::<Rate>()?);
//! let (large, small) = (Shape::bytes().write(&together), Shape::bytes().write(&together));
//! let mut large = EmbeddedChannel::new(pipeline().filter(large).handle(|_, _| {}));
//! let mut small = EmbeddedChannel::new(pipeline().filter(small).handle(|_, _| {}));
//! large.channel().write_and_flush(vec![b'x'; 1_000_000]);
//! large.run();
//! small.channel().write_and_flush("hello");
//! small.advance(Duration::from_millis(100));
//! assert_eq!(small.outbound_bytes(), b"hello");
//! # Ok::<(), netwright_handler::shape::RateError>(())
//! ```

mod bucket;
mod keyed;
mod lane;
mod measure;
mod rate;
mod stage;

pub use bucket::Bucket;
pub use keyed::{Buckets, KeyBucket};
pub use measure::Pieces;
pub(crate) use rate::shortened;
pub use rate::{Rate, RateError};
pub use stage::{Limit, Shape};

/// What has passed a [`Bucket`], and what waits for it: bytes or messages, as its [`Shape`]s count.
///
/// ```
/// use netwright_handler::shape::{Bucket, Rate};
///
/// let bucket = Bucket::new(Rate::unlimited());
/// assert_eq!((bucket.figures().passed, bucket.figures().channels_waiting), (0, 0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ShapeFigures {
    /// How much has passed.
    pub passed: u64,
    /// How much waits in the channels that wait for their turn here.
    pub waiting: u64,
    /// How many channels wait for their turn here, each direction counted by itself.
    pub channels_waiting: u64,
    /// How often channels have asked for a turn: what shaping costs.
    pub asked: u64,
}

//! Parts of a message put together, up to a limit.
//!
//! ```text
//!   start ──▶ begin ──┐
//!   middle ─▶ add ────┤ whole, at most `limit` bytes
//!   last ───▶ add ────┘──▶ finish ──▶ message
//! ```
//! Always true:
//! 1. At most one message is being put together, and never more than the limit of it is held.
//! 2. `which` sees every part once, in order, also of a message that is refused: who has to know what came before to say what
//!    a part is never loses its place.
//! 3. Of a message that is refused nothing goes on. `refused` is told, once, and what is left of it is dropped up to its last
//!    part, or to the first one of another message.

use super::{DecodeError, MessageDecoder, Messages, short_name};
use std::{error::Error, fmt};

/// Which part of a message something is.
///
/// ```
/// use netwright_codec::{Aggregate, WhichPart};
///
/// /// Words, until one that ends a sentence.
/// struct Sentences { open: bool }
///
/// impl Aggregate for Sentences {
///     type Part = String;
///     type Whole = String;
///     fn which(&mut self, word: &String) -> WhichPart {
///         let goes_on = !word.ends_with('.');
///         match (std::mem::replace(&mut self.open, goes_on), goes_on) {
///             (false, true) => WhichPart::Start,
///             (false, false) => WhichPart::Only,
///             (true, true) => WhichPart::Middle,
///             (true, false) => WhichPart::Last,
///         }
///     }
///     fn len(&self, word: &String) -> usize {
///         word.len()
///     }
///     fn begin(&mut self, word: String) -> String {
///         word
///     }
///     fn add(&mut self, whole: &mut String, word: String) {
///         whole.push(' ');
///         whole.push_str(&word);
///     }
/// }
///
/// assert_eq!(Sentences { open: false }.which(&"Stop.".to_owned()), WhichPart::Only);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhichPart {
    /// The first of several.
    Start,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// All there is.
    Only,
}

/// Says what parts are and how they make a whole.
///
/// What tells where in a message the stream is belongs into [`which`](Self::which), which sees every part. The other functions
/// do not see the parts of messages that were refused.
///
/// ```
/// use netwright_codec::{Aggregate, AggregateError, WhichPart};
///
/// /// Numbers, up to a zero: their sum, and how many there were.
/// struct Sums { open: bool, count: u64 }
///
/// impl Aggregate for Sums {
///     type Part = u32;
///     type Whole = (u64, u64);
///     fn which(&mut self, number: &u32) -> WhichPart {
///         let goes_on = *number != 0;
///         match (std::mem::replace(&mut self.open, goes_on), goes_on) {
///             (false, true) => WhichPart::Start,
///             (false, false) => WhichPart::Only,
///             (true, true) => WhichPart::Middle,
///             (true, false) => WhichPart::Last,
///         }
///     }
///     fn len(&self, _: &u32) -> usize {
///         4
///     }
///     fn begin(&mut self, number: u32) -> (u64, u64) {
///         self.count = 1;
///         (number.into(), 0)
///     }
///     fn add(&mut self, whole: &mut (u64, u64), number: u32) {
///         self.count += 1;
///         whole.0 += u64::from(number);
///     }
///     fn finish(&mut self, whole: (u64, u64)) -> (u64, u64) {
///         (whole.0, std::mem::take(&mut self.count))
///     }
///     fn refused(&mut self, _: &AggregateError) {
///         self.count = 0; // those of a message that nobody gets
///     }
/// }
/// ```
pub trait Aggregate: 'static {
    /// What arrives.
    type Part: 'static;
    /// What it becomes.
    type Whole: 'static;

    /// Which part this is. Asked once for each part, in their order, also for those of a message that was refused: the
    /// place to keep what has to be known of the parts before.
    fn which(&mut self, part: &Self::Part) -> WhichPart;
    /// How many bytes it counts for.
    fn len(&self, part: &Self::Part) -> usize;
    /// A whole of a first part.
    fn begin(&mut self, part: Self::Part) -> Self::Whole;
    /// A whole and one part more.
    fn add(&mut self, whole: &mut Self::Whole, part: Self::Part);
    /// The whole is complete.
    fn finish(&mut self, whole: Self::Whole) -> Self::Whole {
        whole
    }
    /// A message is lost, for this reason, and what was put together of it is gone: whatever is kept about it can go as well.
    /// Called once for a message, before the first part of the next one is added. By default nothing is kept.
    #[allow(unused_variables)]
    fn refused(&mut self, error: &AggregateError) {}
}

/// Puts parts together, as a [`MessageDecoder`].
///
/// ```
/// use bytes::{Bytes, BytesMut};
/// use netwright_codec::{Aggregate, Aggregator, LineFrames, WhichPart, decode_messages};
/// use netwright_core::{EmbeddedChannel, pipeline};
///
/// /// Lines that end in a backslash go on in the next one.
/// #[derive(Default)]
/// struct Continued {
///     open: bool,
/// }
///
/// impl Aggregate for Continued {
///     type Part = Bytes;
///     type Whole = BytesMut;
///     fn which(&mut self, line: &Bytes) -> WhichPart {
///         let goes_on = line.ends_with(b"\\");
///         match (std::mem::replace(&mut self.open, goes_on), goes_on) {
///             (false, true) => WhichPart::Start,
///             (false, false) => WhichPart::Only,
///             (true, true) => WhichPart::Middle,
///             (true, false) => WhichPart::Last,
///         }
///     }
///     fn len(&self, line: &Bytes) -> usize {
///         line.len()
///     }
///     fn begin(&mut self, line: Bytes) -> BytesMut {
///         let mut whole = BytesMut::new();
///         self.add(&mut whole, line);
///         whole
///     }
///     fn add(&mut self, whole: &mut BytesMut, line: Bytes) {
///         whole.extend_from_slice(line.strip_suffix(b"\\").unwrap_or(&line));
///     }
/// }
///
/// let aggregator = Aggregator::max(1024, Continued::default());
/// let mut channel = EmbeddedChannel::new(pipeline().add(LineFrames::max(100)).add(decode_messages(aggregator)));
/// channel.write_inbound("one \\\ntwo \\\nthree\nfour\n");
/// assert_eq!(channel.read_inbound().unwrap(), "one two three");
/// assert_eq!(channel.read_inbound().unwrap(), "four");
/// ```
#[derive(Debug)]
pub struct Aggregator<A: Aggregate> {
    aggregate: A,
    limit: usize,
    whole: Option<A::Whole>,
    len: usize,
    /// A message was too long, or began in its middle: its parts are dropped, up to its last one.
    dropping: bool,
}

impl<A: Aggregate> Aggregator<A> {
    /// Messages of up to `limit` bytes.
    pub fn max(limit: usize, aggregate: A) -> Self {
        Self { aggregate, limit, whole: None, len: 0, dropping: false }
    }

    #[cold]
    fn refuse(&mut self, error: AggregateError) -> DecodeError {
        self.aggregate.refused(&error);
        DecodeError::recoverable(error)
    }
}

/// Why parts do not make a message.
///
/// ```
/// use netwright_codec::AggregateError;
///
/// let error = AggregateError::TooLong { limit: 1024, got: 2000 };
/// assert!(error.to_string().contains("1024"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AggregateError {
    /// The message is longer than allowed.
    TooLong {
        /// How many bytes it may have.
        limit: usize,
        /// How many it has so far.
        got: usize,
    },
    /// A message began before the last one had ended.
    StartedTwice {
        /// How many bytes the last one had.
        got: usize,
    },
    /// A part came without a beginning.
    NotStarted {
        /// How many bytes it has.
        got: usize,
    },
    /// The channel ended before the message did.
    Unfinished {
        /// How many bytes it had.
        got: usize,
    },
}

impl fmt::Display for AggregateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { limit, got } => {
                write!(f, "a message of {got} bytes or more, the limit is {limit}")
            }
            Self::StartedTwice { got } => {
                write!(f, "a message began when {got} bytes of the last one had come")
            }
            Self::NotStarted { got } => write!(f, "a part of {got} bytes came without a beginning"),
            Self::Unfinished { got } => write!(f, "the channel ended when {got} bytes of a message had come"),
        }
    }
}

impl Error for AggregateError {}

impl<A: Aggregate> MessageDecoder for Aggregator<A> {
    type In = A::Part;
    type Out = A::Whole;

    fn decode(&mut self, part: A::Part, out: &mut Messages<A::Whole>) -> Result<(), DecodeError> {
        let (which, len) = (self.aggregate.which(&part), self.aggregate.len(&part));
        let begins = matches!(which, WhichPart::Start | WhichPart::Only);
        let ends = matches!(which, WhichPart::Last | WhichPart::Only);
        let mut result = Ok(());
        if begins {
            if self.whole.take().is_some() {
                result = Err(self.refuse(AggregateError::StartedTwice { got: self.len }));
            }
            (self.len, self.dropping) = (0, false);
        } else if self.dropping {
            self.dropping = !ends;
            return Ok(());
        } else if self.whole.is_none() {
            self.dropping = !ends;
            return Err(self.refuse(AggregateError::NotStarted { got: len }));
        }
        let got = self.len.saturating_add(len);
        if got > self.limit {
            self.whole = None;
            self.dropping = !ends;
            return Err(self.refuse(AggregateError::TooLong { limit: self.limit, got }));
        }
        self.len = got;
        let whole = match self.whole.take() {
            Some(mut whole) => {
                self.aggregate.add(&mut whole, part);
                whole
            }
            None => self.aggregate.begin(part),
        };
        if ends {
            out.push(self.aggregate.finish(whole));
        } else {
            self.whole = Some(whole);
        }
        result
    }

    fn decode_last(&mut self, _: &mut Messages<A::Whole>) -> Result<(), DecodeError> {
        match self.whole.take() {
            Some(_) => {
                let error = AggregateError::Unfinished { got: self.len };
                self.aggregate.refused(&error);
                Err(error.into())
            }
            None => Ok(()),
        }
    }

    fn name(&self) -> &'static str {
        short_name::<A>()
    }
}

#[cfg(test)]
mod tests;

//! The decoder verifier: what every stage that makes messages of bytes has to keep, however the bytes come.
//!
//! ```text
//!   samples ──▶ glued ──▶ whole │ every split point │ byte by byte │ random pieces │ cut off anywhere │ paused │ hostile
//!                            └─────────────┴─────────── the same messages and errors, in the same order ┘
//! ```
//! Always true of a stage that passes:
//! 1. How a stream is split does not show in what comes of it.
//! 2. A stream that is cut off gives what was whole, and nothing that was not.
//! 3. While delivery is paused nothing comes; each request brings one message.
//! 4. Lengths out of bounds, in any place and of any width, and random damage, end in messages or errors: no panic, and the
//!    same whatever the pieces.
//!
//! Not here: what the stage allocates ([`assert_allocations!`](crate::assert_allocations)).

mod chunks;
mod fuzz;
mod hostile;

pub use chunks::{Numbers, chunks};
pub use fuzz::Fuzz;
pub use hostile::{damaged, hostile_lengths};

use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, ApplicationStage, CloseCause, Complete, EmbeddedChannel, Fault, Link, Outgoing,
    PipelineBuilder, Segment,
    internal::{CarriedBy, Collector, Element},
};
use std::{cell::RefCell, convert::Infallible, fmt::Debug, rc::Rc};

/// Checks a decoder with samples of what it has to make of which bytes.
///
/// Stages come first, then, behind a semicolon, bytes and what they give: `Ok(message)`, or `Err(part of the error's text)`.
/// Everything that a sample gives has to be given at the latest with its last byte.
///
/// ```
/// use netwright_codec::LineFrames;
/// use netwright_testkit::verify_decoder;
///
/// verify_decoder!(LineFrames::max(5);
///     b"one\r\n" => [Ok("one")],
///     b"\ntwo\n" => [Ok(""), Ok("two")],
///     b"too long\n" => [Err("the limit is 5")],
/// );
/// ```
///
/// With `last_may_come;` before the samples, a stream that is cut off may give something more: see
/// [`Verify::last_may_come`], and [`Verify`] for what it does and for more than this.
#[macro_export]
macro_rules! verify_decoder {
    ($($stage:expr),+ ; last_may_come ; $($bytes:expr => $gives:expr),+ $(,)?) => {
        $crate::verify_decoder!(@ $($stage),+ ; $($bytes => $gives),+).last_may_come().run()
    };
    (@ $($stage:expr),+ ; $($bytes:expr => $gives:expr),+) => {
        $crate::verify::Verify::new(|recorder| {
            let pipeline = $crate::verify::pipeline();
            $(let pipeline = pipeline.add($stage);)+
            $crate::verify::recorded(pipeline, recorder)
        })
        $(.sample($bytes, $gives))+
    };
    ($($stage:expr),+ ; $($bytes:expr => $gives:expr),+ $(,)?) => {
        $crate::verify_decoder!(@ $($stage),+ ; $($bytes => $gives),+).run()
    };
}

#[doc(hidden)]
pub use netwright_core::pipeline;

/// What came out of a pipeline.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen<R> {
    /// A message.
    Message(R),
    /// An error, as its text.
    Error(String),
}

/// The last stage of a pipeline under test: notes messages and errors, and goes on.
pub struct Recorder<R, W> {
    seen: Rc<RefCell<Vec<Seen<R>>>>,
    writes: std::marker::PhantomData<fn(W)>,
}

impl<R: 'static, W: 'static> Application for Recorder<R, W> {
    type Read = R;
    type Write = W;

    fn read(&mut self, _: &mut AppContext<'_, Self>, message: R) {
        self.seen.borrow_mut().push(Seen::Message(message));
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
        self.seen.borrow_mut().push(Seen::Error(fault.to_string()));
    }
}

/// A channel of these stages with a recorder behind the last one.
pub fn recorded<S, H, P, X>(
    stages: PipelineBuilder<(S, H)>,
    recorder: Recorder<H::ReadOut, H::Write>,
) -> EmbeddedChannel<Infallible, H::Write>
where
    H: Element,
    (
        ((S, H), ApplicationStage<Recorder<H::ReadOut, H::Write>>),
        ApplicationStage<Collector<Infallible, H::Write>>,
    ): Link<Complete, Linked = P>,
    P: Segment<BytesMut, X, Tail = H::Write>,
    X: CarriedBy<Outgoing>,
{
    EmbeddedChannel::new(stages.app(recorder))
}

/// A check of a decoder, with samples: what [`verify_decoder!`](crate::verify_decoder) makes and runs.
pub struct Verify<'a, R, W, X> {
    #[allow(clippy::type_complexity)]
    make: Box<dyn Fn(Recorder<R, W>) -> EmbeddedChannel<Infallible, W> + 'a>,
    bytes: Vec<u8>,
    /// What is to come, and with which byte it has to be there at the latest.
    gives: Vec<(Result<X, &'static str>, usize)>,
    ends: Vec<usize>,
    last_may_come: bool,
    seeds: u64,
}

impl<'a, R, W, X> Verify<'a, R, W, X>
where
    R: PartialEq + PartialEq<X> + Debug + 'static,
    W: 'static,
    X: Debug,
{
    /// A check of the pipeline that `make` makes. The recorder has to be its last stage.
    pub fn new(make: impl Fn(Recorder<R, W>) -> EmbeddedChannel<Infallible, W> + 'a) -> Self {
        Self {
            make: Box::new(make),
            bytes: Vec::new(),
            gives: Vec::new(),
            ends: vec![0],
            last_may_come: false,
            seeds: 32,
        }
    }

    /// Adds bytes, and what they have to give.
    pub fn sample(
        mut self,
        bytes: impl AsRef<[u8]>,
        gives: impl IntoIterator<Item = Result<X, &'static str>>,
    ) -> Self {
        self.bytes.extend_from_slice(bytes.as_ref());
        let end = self.bytes.len();
        self.gives.extend(gives.into_iter().map(|expected| (expected, end)));
        self.ends.push(end);
        self
    }

    /// A stream that is cut off may give something more at its end, made of its unfinished rest.
    pub fn last_may_come(mut self) -> Self {
        self.last_may_come = true;
        self
    }

    /// With so many seeds for what is random. Default: 32.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.seeds = seeds;
        self
    }

    /// Runs all checks.
    #[track_caller]
    pub fn run(&self) {
        let stream = &self.bytes[..];
        self.expect("whole", [stream]);
        self.expect("one sample in each read", self.ends.windows(2).map(|ends| &stream[ends[0]..ends[1]]));
        self.expect("byte by byte", stream.chunks(1));
        for split in points(stream.len()) {
            let (before, behind) = stream.split_at(split);
            self.expect(&format!("split at {split}"), [before, behind]);
        }
        for seed in 0..self.seeds {
            self.expect(
                &format!("in random pieces, seed {seed}"),
                chunks(seed, 1 + stream.len() / 3, stream),
            );
        }
        self.cut_off_anywhere();
        self.paused_after_each_message();
        self.hostile();
    }

    #[track_caller]
    fn expect<'b>(&self, how: &str, pieces: impl IntoIterator<Item = &'b [u8]>) {
        let seen = self.feed(pieces, false);
        self.compare(how, &seen, self.gives.len());
    }

    /// What comes of these pieces.
    #[track_caller]
    fn feed<'b>(&self, pieces: impl IntoIterator<Item = &'b [u8]>, close: bool) -> Vec<Seen<R>> {
        let (mut channel, seen) = self.channel();
        for piece in pieces {
            channel.write_inbound(piece);
        }
        if close {
            channel.close_by_peer();
        }
        no_panic(&channel);
        drop(channel);
        seen.take()
    }

    #[allow(clippy::type_complexity)]
    fn channel(&self) -> (EmbeddedChannel<Infallible, W>, Rc<RefCell<Vec<Seen<R>>>>) {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let recorder = Recorder { seen: seen.clone(), writes: std::marker::PhantomData };
        ((self.make)(recorder), seen)
    }

    #[track_caller]
    fn compare(&self, how: &str, seen: &[Seen<R>], wanted: usize) {
        for (index, (expected, _)) in self.gives[..wanted].iter().enumerate() {
            let same = match (expected, seen.get(index)) {
                (Ok(message), Some(Seen::Message(seen))) => seen == message,
                (Err(part), Some(Seen::Error(text))) => text.contains(part),
                _ => false,
            };
            let got = seen.get(index);
            assert!(same, "{how}: number {index} should be {}, is {}", short(expected), short(&got));
        }
        let more = seen.get(wanted);
        assert!(more.is_none(), "{how}: {wanted} should come, then came {}", short(&more));
    }

    #[track_caller]
    fn cut_off_anywhere(&self) {
        for cut in points(self.bytes.len()) {
            let seen = self.feed([&self.bytes[..cut]], true);
            let whole = self.gives.iter().filter(|(_, end)| *end <= cut).count();
            let came = if self.last_may_come { seen.len().min(whole) } else { seen.len() };
            assert!(
                came >= whole && came <= self.gives.len(),
                "cut off at {cut}: {whole} were whole, {came} came"
            );
            self.compare(&format!("cut off at {cut}"), &seen[..came], came);
        }
    }

    #[track_caller]
    fn paused_after_each_message(&self) {
        let (mut channel, seen) = self.channel();
        channel.channel().pause();
        channel.run().write_inbound(&self.bytes);
        let messages = || seen.borrow().iter().filter(|seen| matches!(seen, Seen::Message(_))).count();
        let all = self.gives.iter().filter(|(expected, _)| expected.is_ok()).count();
        for requested in 0..all {
            assert_eq!(messages(), requested, "paused: one message for each request");
            channel.channel().request();
            channel.run();
        }
        channel.channel().resume();
        channel.run();
        no_panic(&channel);
        self.compare("paused after each message", &seen.borrow(), self.gives.len());
    }

    #[track_caller]
    fn hostile(&self) {
        let starts = self.ends.windows(2).map(|ends| &self.bytes[ends[0]..ends[1]]);
        let lengths = starts.flat_map(hostile_lengths);
        let damage = (0..self.seeds).map(|seed| damaged(seed, &self.bytes));
        for stream in lengths.chain(damage) {
            let whole = self.feed([&stream[..]], true);
            let bytes = self.feed(stream.chunks(1), true);
            let messages =
                |seen: &[Seen<R>]| seen.iter().filter(|seen| matches!(seen, Seen::Message(_))).count();
            let (count, other) = (messages(&whole), messages(&bytes));
            let only = |seen: Vec<Seen<R>>| seen.into_iter().filter(|seen| matches!(seen, Seen::Message(_)));
            assert!(
                count == other && only(whole).eq(only(bytes)),
                "damaged: {count} messages of the whole, {other} byte by byte, or different ones, of {}",
                short(&stream)
            );
        }
    }
}

/// All places where a stream can be split; of a long one, those near its ends and every so many between.
fn points(len: usize) -> impl Iterator<Item = usize> {
    const ALL: usize = 2048;
    let step = 1 + len / ALL;
    (0..=len).filter(move |&at| at < ALL / 4 || at + ALL / 4 > len || at.is_multiple_of(step))
}

#[track_caller]
fn no_panic<R: 'static, W: 'static>(channel: &EmbeddedChannel<R, W>) {
    if let Some(CloseCause::Panicked(message)) = channel.channel().close_cause() {
        panic!("a stage panicked: {message}");
    }
}

fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

//! Tells of connections in the log.
//!
//! | file | what it is |
//! | --- | --- |
//! | `mod` | [`Log`]: what is told, and the stages |
//! | `dump` | bytes as lines of hexadecimal numbers, or as text on one line |
//! | `emit` | an event of `tracing` with a level that is known when the program runs |
//! | `listener` | what a server's listeners do |
//!
//! Always true:
//! 1. Of what a peer sends no control character reaches the log as it is, and no more than the limit.
//! 2. A panic of whoever covers secrets, of a message's `Debug` or of the log's receiver changes nothing on the channel.

mod dump;
mod emit;
mod listener;

use bytes::{Bytes, BytesMut};
use emit::Emit;
use netwright_core::{
    CloseCause, Fault, Filter, FilterContext, Outgoing, Place, WritePromise, internal::catch,
};
use std::{
    fmt::{self, Debug, Write as _},
    marker::PhantomData,
    sync::Arc,
};
use tracing::Level;

/// Bytes of one message that are shown, unless something else is said.
const BYTES_MAX: usize = 1024;

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the peer to the application.
    Read,
    /// From the application to the peer.
    Write,
}

/// What is told of a connection: [`Log`] of these.
pub mod told {
    /// Begin, end and errors.
    #[derive(Debug, Clone, Copy)]
    pub enum Lifecycle {}

    /// Also bytes, or how many there are.
    #[derive(Debug, Clone, Copy)]
    pub enum Contents {}

    /// Also messages, by their `Debug`.
    #[derive(Debug, Clone, Copy)]
    pub enum Messages {}
}

use told::{Contents, Lifecycle, Messages};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shows {
    Lengths,
    Hex,
    Text,
}

/// Tells what happens on a connection as events of `tracing`.
///
/// | made by | tells begin, end and errors, and | fits |
/// | --- | --- | --- |
/// | [`Log::lifecycle`] | nothing more; costs a message nothing. Also of a server's listeners | anywhere; `Server::builder().observer(…)` |
/// | [`Log::lengths`] | how long each message is | where bytes pass |
/// | [`Log::hex`] | its bytes as numbers and letters, sixteen on a line | where bytes pass |
/// | [`Log::text`] | its bytes as one line of text, with what cannot be printed escaped | where bytes pass |
/// | [`Log::messages`] | its `Debug` | where messages of any type pass that have one |
///
/// It tells at [`DEBUG`](Level::DEBUG) unless another [`level`](Self::level) is said; while nobody receives that level, a message costs a comparison. The target
/// of its events begins with `netwright_handler::log`, for filters by crate or module. The fields of an event are
/// `channel`, and `local`, `peer`, `len`, `bytes`, `text`, `shown`, `cause`, `error` as far as there is such a thing. At most 1 KiB of a message is shown
/// ([`max`](Self::max)). Secrets are covered by [`redact`](Self::redact). Where it stands decides what it sees: in front of TLS it is records, behind it
/// what they say.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Direction, Log};
/// use tracing::Level;
///
/// let log = Log::text().level(Level::INFO).max(80).redact(|direction, bytes| {
///     if direction == Direction::Read && bytes.starts_with(b"password ") {
///         bytes.splice(9.., *b"***");
///     }
/// });
/// let mut channel = EmbeddedChannel::new(pipeline().filter(log).handle(|cx, bytes| cx.write_and_flush(bytes)));
/// channel.write_inbound("password 12345"); // read len=14 text="password ***"
/// assert_eq!(channel.outbound_bytes(), b"password 12345"); // what passes is left as it is
/// ```
#[doc(alias = "LoggingHandler")]
pub struct Log<T = Contents> {
    level: Level,
    shows: Shows,
    max: usize,
    redact: Option<Arc<Redact>>,
    told: PhantomData<fn(T)>,
}

type Redact = dyn Fn(Direction, &mut Vec<u8>) + Send + Sync;

impl Log<Lifecycle> {
    /// Tells when a connection begins, when it ends and why, when its peer sends no more, and of errors on their way through the pipeline.
    ///
    /// For a server's listeners it tells what they are bound to, who is accepted, and who is refused and why, the last as warnings:
    ///
    /// ```
    /// use netwright_core::pipeline;
    /// use netwright_handler::Log;
    /// use netwright_transport::Server;
    ///
    /// let server = Server::builder()
    ///     .observer(Log::lifecycle())
    ///     .pipeline(|_| pipeline().filter(Log::lifecycle()).handle(|cx, bytes| cx.write_and_flush(bytes)))
    ///     .bind("local:with-a-log")
    ///     .wait()?;
    /// server.shutdown_now().wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lifecycle() -> Self {
        Self::showing(Shows::Lengths)
    }
}

impl Log<Contents> {
    /// Tells how long each message is, and nothing of what it says.
    pub fn lengths() -> Self {
        Self::showing(Shows::Lengths)
    }

    /// Shows each message as hexadecimal numbers, beside the letters that they are.
    pub fn hex() -> Self {
        Self::showing(Shows::Hex)
    }

    /// Shows each message as text on one line.
    pub fn text() -> Self {
        Self::showing(Shows::Text)
    }
}

impl Log<Messages> {
    /// Shows each message by its [`Debug`].
    ///
    /// ```
    /// use netwright_codec::{LineFrames, Utf8};
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_handler::Log;
    ///
    /// let stages = pipeline().add(LineFrames::max(80)).add(Utf8::strict()).filter(Log::messages());
    /// let mut channel = EmbeddedChannel::new(stages.handle(|cx, line: String| cx.write_and_flush(line)));
    /// assert_eq!(channel.write_inbound("hello\n").outbound_bytes(), b"hello\n"); // read shown="hello"
    /// ```
    pub fn messages() -> Self {
        Self::showing(Shows::Text)
    }
}

impl<T> Log<T> {
    fn showing(shows: Shows) -> Self {
        Self { level: Level::DEBUG, shows, max: BYTES_MAX, redact: None, told: PhantomData }
    }

    /// The level of its events. Refused connections and failures to accept are told as warnings, unless this is [`ERROR`](Level::ERROR).
    #[must_use]
    pub fn level(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Shows at most so many bytes of a message; a dump of them takes up to five times as much room. With zero, lengths alone are told.
    #[must_use]
    pub fn max(mut self, bytes: usize) -> Self {
        self.max = bytes;
        self
    }

    /// Has a function change what is shown of each message, before anybody sees it: to cover secrets. It is given a copy of the bytes that would be
    /// shown, or of a message's `Debug`, cut at the limit, so that a secret may be cut as well. Of a message with which it panics, nothing is shown.
    #[must_use]
    pub fn redact(mut self, cover: impl Fn(Direction, &mut Vec<u8>) + Send + Sync + 'static) -> Self {
        self.redact = Some(Arc::new(cover));
        self
    }

    /// Whether anybody receives the level.
    #[inline]
    fn is_on(&self) -> bool {
        self.level <= tracing::level_filters::LevelFilter::current()
    }

    /// Covers what is to be shown. False if that failed.
    fn covered(&self, direction: Direction, shown: &mut Vec<u8>) -> bool {
        let Some(cover) = &self.redact else { return true };
        let whole = catch(|| cover(direction, shown)).is_ok();
        shown.truncate(self.max);
        whole
    }

    fn tells_bytes<M: Bytewise>(&self, emit: &Emit, direction: Direction, message: &M) {
        let len = message.length();
        let bytes = message.bytes().filter(|_| self.shows != Shows::Lengths && self.max > 0);
        let Some(bytes) = bytes else { return emit.length(direction, len) };
        let mut shown = bytes[..bytes.len().min(self.max)].to_vec();
        let cut = bytes.len() - shown.len();
        if !self.covered(direction, &mut shown) {
            return emit.omitted(direction, Some(len));
        }
        match self.shows {
            Shows::Hex => emit.dump(direction, len, &dump::hex(&shown, cut)),
            Shows::Text | Shows::Lengths => emit.text(direction, len, &dump::text(&shown, cut)),
        }
    }

    fn tells_message<M: Debug>(&self, emit: &Emit, direction: Direction, message: &M) {
        let mut shown = Bounded { text: String::new(), max: self.max, cut: false };
        let written = catch(|| {
            let _ = write!(shown, "{message:?}"); // which fails at the limit
        });
        if written.is_err() {
            return emit.omitted(direction, None);
        }
        let Bounded { text, cut, .. } = shown;
        let mut shown = text.into_bytes();
        if !self.covered(direction, &mut shown) {
            return emit.omitted(direction, None);
        }
        emit.message(direction, &dump::debug(&shown, cut));
    }
}

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self { redact: self.redact.clone(), ..*self }
    }
}

impl<T> Debug for Log<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("level", &self.level)
            .field("shows", &self.shows)
            .field("max", &self.max)
            .field("redacts", &self.redact.is_some())
            .finish()
    }
}

/// Text that takes no more than a limit.
struct Bounded {
    text: String,
    max: usize,
    cut: bool,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = self.max - self.text.len();
        if piece.len() <= room {
            self.text.push_str(piece);
            return Ok(());
        }
        let end = (0..=room).rev().find(|end| piece.is_char_boundary(*end)).unwrap_or(0);
        self.text.push_str(&piece[..end]);
        (self.max, self.cut) = (self.text.len(), true);
        Err(fmt::Error) // the rest need not be made
    }
}

/// Messages that are bytes, or know how many they will be.
///
/// ```compile_fail
/// use netwright_core::{filter, pipeline};
/// use netwright_handler::Log;
///
/// pipeline().add(filter::<_, u32, u32>(Log::hex())); // numbers are shown by `Log::messages`
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not bytes that a log could show",
    note = "messages of any type that has a `Debug` are shown by `Log::messages`"
)]
pub trait Bytewise: 'static {
    /// The bytes, if they are in memory.
    fn bytes(&self) -> Option<&[u8]>;
    /// How many there are.
    fn length(&self) -> u64 {
        self.bytes().map_or(0, |bytes| bytes.len() as u64)
    }
}

macro_rules! bytewise {
    ($($type:ty),+) => {$(
        impl Bytewise for $type {
            fn bytes(&self) -> Option<&[u8]> {
                Some(self.as_ref())
            }
        }
    )+};
}

bytewise!(Bytes, BytesMut, Vec<u8>, String);

impl Bytewise for Outgoing {
    fn bytes(&self) -> Option<&[u8]> {
        self.as_bytes().map(AsRef::as_ref)
    }
    fn length(&self) -> u64 {
        self.len()
    }
}

/// The hooks that are the same whatever is told of messages.
macro_rules! lifecycle {
    ($R:ident, $W:ident, $P:ident) => {
        fn active(&mut self, cx: &mut FilterContext<'_, Self, $R, $W, $P>) {
            if self.is_on() {
                let view = cx.view();
                Emit::new(self.level, view.id()).began(view.local().as_ref(), view.peer().as_ref());
            }
            cx.fire_active();
        }
        fn input_closed(&mut self, cx: &mut FilterContext<'_, Self, $R, $W, $P>) {
            if self.is_on() {
                Emit::new(self.level, cx.view().id()).input_closed();
            }
            cx.fire_input_closed();
        }
        fn error(&mut self, cx: &mut FilterContext<'_, Self, $R, $W, $P>, fault: Fault) {
            if self.is_on() {
                Emit::new(self.level, cx.view().id()).error(&fault);
            }
            cx.fire_error(fault);
        }
        fn inactive(&mut self, cx: &mut FilterContext<'_, Self, $R, $W, $P>, cause: CloseCause) {
            if self.is_on() {
                Emit::new(self.level, cx.view().id()).ended(&cause);
            }
            cx.fire_inactive(cause);
        }
        fn start_over(&mut self) -> bool {
            true
        }
    };
}

impl<R: 'static, W: 'static, P: Place> Filter<R, W, P> for Log<Lifecycle> {
    const PASSES: bool = true;

    lifecycle!(R, W, P);
}

impl<R: Bytewise, W: Bytewise, P: Place> Filter<R, W, P> for Log<Contents> {
    lifecycle!(R, W, P);

    fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, msg: R) {
        if self.is_on() {
            self.tells_bytes(&Emit::new(self.level, cx.view().id()), Direction::Read, &msg);
        }
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, msg: W, done: WritePromise) {
        if self.is_on() {
            self.tells_bytes(&Emit::new(self.level, cx.view().id()), Direction::Write, &msg);
        }
        cx.write_with(msg, done);
    }
}

impl<R: Debug + 'static, W: Debug + 'static, P: Place> Filter<R, W, P> for Log<Messages> {
    lifecycle!(R, W, P);

    fn read(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, msg: R) {
        if self.is_on() {
            self.tells_message(&Emit::new(self.level, cx.view().id()), Direction::Read, &msg);
        }
        cx.fire_read(msg);
    }
    fn write(&mut self, cx: &mut FilterContext<'_, Self, R, W, P>, msg: W, done: WritePromise) {
        if self.is_on() {
            self.tells_message(&Emit::new(self.level, cx.view().id()), Direction::Write, &msg);
        }
        cx.write_with(msg, done);
    }
}

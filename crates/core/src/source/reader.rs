//! Whatever can be read, on workers.
//!
//! ```text
//!   reader ── read, on a worker ──▶ [ ready: at most one piece ] ──▶ whoever writes
//!      ▲                                   │ taken
//!      └────────── the next read ◀─────────┘
//! ```
//! Always true:
//! 1. One read at a time, into one buffer; while it is under way one piece more may wait to be taken. Nothing is read before the first
//!    piece is asked for.
//! 2. The reader is where its read is: with the worker, or here. It is dropped at its end, by the thread that has it then.

use super::SourceError;
use crate::{
    channel::{ByteSource, Fault},
    promise::Promised,
    task_error::TaskError,
    workers::Workers,
};
use bytes::{Bytes, BytesMut};
use std::{
    fmt,
    io::{self, Read},
    pin::Pin,
    task::{Context, Poll, ready},
};

/// How much is read at a time, at most.
const PIECE: usize = 64 * 1024;

/// What a reader gives, read by workers, so that no loop waits for it: a decompressor, another program's output, a blocking socket.
///
/// One piece of up to 64 KiB is read ahead. A read that blocks keeps one thread of the pool, also after nobody wants its bytes any more. For files
/// `File::pieces` reads more at a time, and cheaper.
///
/// A reader that says that it has read more than it was given room for is an error ([`SourceError::Overrun`]). One that has written less than it says
/// cannot be told from one that has read zeros, which is what is sent.
///
/// ```
/// use netwright_core::{EmbeddedChannel, EventLoop, Workers, pipeline, source};
/// use std::io::Read;
///
/// let workers = Workers::new(1)?;
/// let mut embedded = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let channel = embedded.channel().clone();
/// let elsewhere = EventLoop::new();
/// let mut sent = elsewhere.spawn(async move {
///     let zeros = std::io::repeat(0).take(1_000_000); // anything that implements `Read`
///     channel.write_from(source::reader(zeros, &workers)).await
/// })?;
/// let mut got = 0;
/// while !sent.is_done() {
///     got += embedded.run().outbound_bytes().len();
/// }
/// assert_eq!(sent.wait()??, 1_000_000);
/// assert_eq!(got + embedded.run().outbound_bytes().len(), 1_000_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn reader<R: Read + Send + 'static>(reader: R, workers: &Workers) -> Reader<R> {
    Reader { workers: workers.clone(), step: Step::Idle(reader, BytesMut::new()) }
}

/// Something that can be read as a source of bytes. Made by [`reader`].
#[must_use = "nothing is read before somebody asks for a piece"]
pub struct Reader<R> {
    workers: Workers,
    step: Step<R>,
}

enum Step<R> {
    /// With the buffer of the next read.
    Idle(R, BytesMut),
    Reading(Promised<(R, BytesMut, io::Result<usize>), TaskError>),
    /// To be told behind the piece that was ready.
    Failed(SourceError),
    Over,
}

impl<R: Read + Send + 'static> Reader<R> {
    fn begin(&mut self) -> Result<(), SourceError> {
        let (mut reader, mut buffer) = match std::mem::replace(&mut self.step, Step::Over) {
            Step::Idle(reader, buffer) => (reader, buffer),
            Step::Failed(error) => return Err(error),
            other => {
                self.step = other;
                return Ok(());
            }
        };
        let read = move || {
            if !buffer.try_reclaim(PIECE) {
                buffer = BytesMut::with_capacity(PIECE);
            }
            buffer.resize(PIECE, 0);
            let result = loop {
                match reader.read(&mut buffer) {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    result => break result,
                }
            };
            (reader, buffer, result)
        };
        let reading = self.workers.submit(read).map_err(|refused| SourceError::Refused(refused.why))?;
        self.step = Step::Reading(reading);
        Ok(())
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, SourceError>> {
        self.begin()?;
        let Step::Reading(reading) = &mut self.step else { return Poll::Ready(Ok(None)) };
        let read = ready!(Pin::new(reading).poll(cx));
        self.step = Step::Over;
        let (reader, mut buffer, result) = read.map_err(|error| match error {
            TaskError::Panicked(message) => SourceError::Panicked(message),
            error => SourceError::Workers(error),
        })?;
        let len = result.map_err(SourceError::Read)?;
        if len == 0 {
            return Poll::Ready(Ok(None));
        }
        if len > buffer.len() {
            return Poll::Ready(Err(SourceError::Overrun { said: len, room: buffer.len() }));
        }
        let piece = buffer.split_to(len).freeze();
        self.step = Step::Idle(reader, buffer);
        if let Err(error) = self.begin() {
            self.step = Step::Failed(error);
        }
        Poll::Ready(Ok(Some(piece)))
    }
}

impl<R: Read + Send + 'static> ByteSource for Reader<R> {
    fn poll_piece(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Fault>> {
        self.poll(cx).map_err(Fault::from)
    }
}

/// What was to be read ahead and has not begun is not read.
impl<R> Drop for Reader<R> {
    fn drop(&mut self) {
        if let Step::Reading(reading) = &self.step {
            reading.cancel();
        }
    }
}

impl<R> fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = match self.step {
            Step::Idle(..) => "idle",
            Step::Reading(_) => "reading",
            Step::Failed(_) => "failed",
            Step::Over => "over",
        };
        f.debug_struct("Reader").field("step", &step).finish_non_exhaustive()
    }
}

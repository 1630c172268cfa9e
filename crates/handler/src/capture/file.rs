//! A capture in a file that never grows beyond its bound, written by workers.
//!
//! ```text
//!   loops ── blocks ──▶ [ pending, 4 MiB at most ] ── one worker at a time ──▶ file
//!                             │ no room, bound reached, disk full
//!                             ▼
//!                          lost, and counted
//! ```
//! Always true between calls:
//! 1. `accepted` is what is in the file, with its worker, and pending; it is at most the bound, less what the last words need.
//! 2. At most one worker writes. Whoever adds to an empty `pending` that nobody writes asks for one.
//! 3. Once the bound was reached or a write has failed nothing is accepted again: the file ends in one place, with a whole block where
//!    the system lets us have that.

use super::{CaptureError, block, figures::Counts};
use netwright_core::Workers;
use std::{
    fs::{File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::Path,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What waits for a slow disk.
const PENDING_MAX: usize = 4 << 20;
/// For what the last block says.
const LAST_WORDS_MAX: usize = 256;
/// The first blocks, the last one, and a packet.
pub(super) const BYTES_MIN: u64 = 4096;

pub(super) struct FileSink {
    state: Mutex<State>,
    file: Mutex<Output>,
    idle: Condvar,
    workers: Option<Workers>,
    bytes_max: u64,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct State {
    pending: Vec<u8>,
    /// How many packets that is.
    packets: u64,
    accepted: u64,
    is_written: bool,
    end: Option<End>,
}

/// Why nothing more is accepted.
#[derive(Clone)]
enum End {
    Bound,
    Finished,
    Failed(Arc<io::Error>),
}

struct Output {
    file: File,
    /// How much of it is whole blocks.
    good: u64,
}

impl FileSink {
    pub(super) fn create(
        path: &Path,
        bytes_max: u64,
        workers: Option<Workers>,
        counts: Arc<Counts>,
    ) -> Result<Self, CaptureError> {
        if bytes_max < BYTES_MIN {
            return Err(CaptureError::TooSmall { got: bytes_max, least: BYTES_MIN });
        }
        let file = create_private(path).map_err(CaptureError::Io)?;
        let mut state = State::default();
        block::preamble(&mut state.pending);
        state.accepted = state.pending.len() as u64;
        Ok(Self {
            state: Mutex::new(state),
            file: Mutex::new(Output { file, good: 0 }),
            idle: Condvar::new(),
            workers,
            bytes_max,
            counts,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a block of so many packets. False if it is lost.
    pub(super) fn push(self: &Arc<Self>, bytes: &[u8], packets: u64) -> bool {
        let mut state = self.lock();
        let fits = state.accepted + (bytes.len() + LAST_WORDS_MAX) as u64 <= self.bytes_max;
        if !fits && state.end.is_none() {
            self.counts.lose(packets, bytes.len() as u64);
            self.end(
                &mut state,
                End::Bound,
                "the bound of this file was reached: what came later is missing",
            );
            self.write_soon(state);
            return false;
        }
        if state.end.is_some() || state.pending.len() + bytes.len() > PENDING_MAX {
            drop(state);
            self.counts.lose(packets, bytes.len() as u64);
            return false;
        }
        state.pending.extend_from_slice(bytes);
        state.packets += packets;
        state.accepted += bytes.len() as u64;
        self.counts.accept(packets, bytes.len() as u64);
        self.write_soon(state);
        true
    }

    /// The last block.
    fn end(&self, state: &mut State, why: End, said: &str) {
        let (packets, lost) = self.counts.seen();
        let before = state.pending.len();
        block::statistics(&mut state.pending, since_epoch(), packets + lost, lost, said);
        debug_assert!(state.pending.len() - before <= LAST_WORDS_MAX);
        state.accepted += (state.pending.len() - before) as u64;
        state.end = Some(why);
    }

    /// Nothing more will come.
    pub(super) fn finish(self: &Arc<Self>) {
        let mut state = self.lock();
        if state.end.is_none() {
            self.end(&mut state, End::Finished, "the capture ends here");
            self.write_soon(state);
        }
    }

    fn write_soon(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if std::mem::replace(&mut state.is_written, true) {
            return;
        }
        drop(state);
        let writer = Writer(Some(self.clone()));
        let task = move || writer.write();
        // A task that is refused is dropped, which its writer takes note of.
        _ = match &self.workers {
            Some(workers) => workers.execute(task).is_ok(),
            None => Workers::common().is_ok_and(|workers| workers.execute(task).is_ok()),
        };
    }

    fn failed(&self, error: io::Error) {
        tracing::warn!(%error, "a capture cannot be written: its channels go on without it");
        let mut state = self.lock();
        state.end = Some(End::Failed(Arc::new(error)));
        state.is_written = false;
        let (packets, bytes) = (std::mem::take(&mut state.packets), std::mem::take(&mut state.pending).len());
        self.counts.take_back(packets, bytes as u64);
        self.idle.notify_all();
    }

    /// Waits until what was accepted is in the file.
    pub(super) fn wait(&self, most: Duration) -> bool {
        let state = self.lock();
        let waited = self.idle.wait_timeout_while(state, most, |state| state.is_written);
        !waited.unwrap_or_else(PoisonError::into_inner).0.is_written
    }

    pub(super) fn error(&self) -> Option<Arc<io::Error>> {
        match &self.lock().end {
            Some(End::Failed(error)) => Some(error.clone()),
            _ => None,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.lock().end.is_some()
    }
}

impl Output {
    fn write(&mut self, blocks: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(blocks).and_then(|()| self.file.flush());
        match written {
            Ok(()) => self.good += blocks.len() as u64,
            Err(_) => {
                // A block that is there in part would spoil the rest for its readers.
                let _ =
                    self.file.set_len(self.good).and_then(|()| self.file.seek(SeekFrom::Start(self.good)));
            }
        }
        written
    }
}

/// Writes on a worker, or is dropped where none takes it.
struct Writer(Option<Arc<FileSink>>);

impl Writer {
    /// Until nothing is left.
    fn write(mut self) {
        let Some(sink) = self.0.clone() else { return };
        let mut blocks = Vec::new();
        loop {
            let mut state = sink.lock();
            if state.pending.is_empty() {
                state.is_written = false;
                sink.idle.notify_all();
                self.0 = None;
                return;
            }
            blocks.clear();
            std::mem::swap(&mut blocks, &mut state.pending);
            let packets = std::mem::take(&mut state.packets);
            drop(state);
            let written = sink.file.lock().unwrap_or_else(PoisonError::into_inner).write(&blocks);
            if let Err(error) = written {
                sink.counts.take_back(packets, blocks.len() as u64);
                self.0 = None;
                return sink.failed(error);
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(sink) = self.0.take() {
            sink.failed(io::Error::other("no worker takes what is to be written"));
        }
    }
}

/// A new file that its user alone can read, also if one was there that others could: it holds what peers have sent, and maybe the keys to it.
pub(super) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    {
        use std::{fs::Permissions, os::unix::fs::OpenOptionsExt, os::unix::fs::PermissionsExt};
        let file = options.mode(0o600).open(path)?;
        if file.metadata()?.is_file() {
            file.set_permissions(Permissions::from_mode(0o600))?;
        }
        Ok(file)
    }
    #[cfg(not(unix))]
    {
        options.open(path)
    }
}

pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

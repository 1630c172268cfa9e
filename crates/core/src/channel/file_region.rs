//! A part of a file on its way to a peer.
//!
//! ```text
//!   file   [......|==========|##############|........]
//!               offset   position          end
//!                 └── sent ──┘└─ remaining ─┘
//! ```
//! Always true between calls:
//! 1. `position` is where the next byte to be sent lies; only [`FileRegion::advance`] moves it, reading does not.
//! 2. `sent + remaining` is the length that was promised, however long the file turns out to be.
//! 3. The file's own cursor is never used, so any number of regions can share one open file.
//!
//! Not here: `sendfile` and its like. They need a descriptor, which a transport finds under [`FileRegion::file`].

use crate::sync::{Arc as SyncArc, Mutex, lock};
use bytes::{Bytes, BytesMut};
use std::{fmt, fs::File, io, sync::Arc};

/// A part of an open file, to be sent as if its bytes had been written.
///
/// ```no_run
/// use netwright_core::FileRegion;
/// use std::fs::File;
///
/// # fn main() -> std::io::Result<()> {
/// let mut region = FileRegion::whole(File::open("film.mp4")?)?;
/// let progress = region.progress(); // stays here when the region is written
/// println!("{} of {} bytes are on their way", progress.sent(), progress.total());
/// # Ok(())
/// # }
/// ```
pub struct FileRegion {
    file: Arc<File>,
    position: u64,
    remaining: u64,
    /// Whether bytes of it are on their way.
    begun: bool,
    /// Whether its message has begun before it.
    within: bool,
    progress: Option<FileProgress>,
}

impl FileRegion {
    /// The `len` bytes of `file` from `offset` on. Whether they exist is found out when they are sent.
    pub fn new(file: impl Into<Arc<File>>, offset: u64, len: u64) -> Self {
        Self {
            file: file.into(),
            position: offset,
            remaining: len,
            begun: false,
            within: false,
            progress: None,
        }
    }

    /// All bytes that `file` has now.
    ///
    /// # Errors
    /// The system could not tell how long the file is.
    pub fn whole(file: impl Into<Arc<File>>) -> io::Result<Self> {
        let file = file.into();
        let len = file.metadata()?.len();
        Ok(Self::new(file, 0, len))
    }

    /// The open file, for what sends from a descriptor: from [`position`](Self::position), at most
    /// [`remaining`](Self::remaining) bytes.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// Where in the file the next byte to be sent lies.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// How many bytes are still to be sent.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// The region is a part of a message whose beginning is written before it, such as a body behind the head that says how
    /// long it is: should it fail, its channel ends, also if not a byte of the region itself was sent.
    ///
    /// ```no_run
    /// # fn main() -> std::io::Result<()> {
    /// let region = netwright_core::FileRegion::whole(std::fs::File::open("film.mp4")?)?.within_message();
    /// assert!(region.is_begun());
    /// # Ok(())
    /// # }
    /// ```
    pub fn within_message(mut self) -> Self {
        self.within = true;
        self
    }

    /// Whether a part of its message is on its way already: then a failure leaves the peer with a part of the message, and
    /// whatever was sent next would be taken for the rest of it.
    pub fn is_begun(&self) -> bool {
        self.begun || self.within
    }

    /// What it means for the connection that the rest cannot be read. With a part of its message on its way, the peer would take
    /// what comes next for that rest: the connection has to end, with this error. `None`: only this write fails.
    ///
    /// ```
    /// use netwright_core::FileRegion;
    /// use std::io;
    ///
    /// let mut region = FileRegion::new(tempfile()?, 0, 10);
    /// assert!(region.breaks_off(&io::ErrorKind::UnexpectedEof.into()).is_none());
    /// region.advance(4); // these are sent
    /// let error = region.breaks_off(&io::ErrorKind::UnexpectedEof.into()).unwrap();
    /// assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    /// # fn tempfile() -> io::Result<std::fs::File> { std::fs::File::open(std::env::current_exe()?) }
    /// # Ok::<(), io::Error>(())
    /// ```
    pub fn breaks_off(&self, error: &io::Error) -> Option<io::Error> {
        let text = || format!("a file failed when a part of its message was sent: {error}");
        self.is_begun().then(|| io::Error::new(error.kind(), text()))
    }

    /// Tells from any thread how far the region has got. Costs nothing unless it is asked for.
    pub fn progress(&mut self) -> FileProgress {
        let total = self.remaining;
        self.progress.get_or_insert_with(|| FileProgress { sent: SyncArc::new(Mutex::new(0)), total }).clone()
    }

    /// `taken` bytes are on their way: the region goes on behind them.
    ///
    /// # Panics
    /// If fewer remain.
    pub fn advance(&mut self, taken: u64) {
        assert!(
            taken <= self.remaining,
            "{taken} bytes of a file region were taken, but only {} remained",
            self.remaining
        );
        self.begun |= taken > 0;
        self.remaining -= taken;
        self.position = self.position.saturating_add(taken);
        if let Some(progress) = &self.progress {
            *lock(&progress.sent) += taken;
        }
    }

    /// Reads what comes next into `buffer`, without going on: that is [`advance`](Self::advance), once it is known how
    /// many bytes found their way. Gives how many were read; 0 only if nothing remains or `buffer` is empty.
    ///
    /// # Errors
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends here though bytes remain; else what the system
    /// says.
    pub fn read_into(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let want = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(buffer.len());
        if want == 0 {
            return Ok(0);
        }
        loop {
            match read_at(&self.file, &mut buffer[..want], self.position) {
                Ok(0) => return Err(self.ended_early()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }

    /// At most `max` bytes of what comes next, in a buffer of their own: see [`read_into`](Self::read_into).
    ///
    /// # Errors
    /// As for `read_into`.
    pub fn read_chunk(&self, max: usize) -> io::Result<Bytes> {
        let want = usize::try_from(self.remaining).unwrap_or(usize::MAX).min(max);
        let mut buffer = BytesMut::zeroed(want);
        let got = self.read_into(&mut buffer)?;
        buffer.truncate(got);
        Ok(buffer.freeze())
    }

    /// The error for a file that ended before the region did: also for transports whose `sendfile` sent nothing.
    pub fn ended_early(&self) -> io::Error {
        io::Error::new(
            io::ErrorKind::UnexpectedEof,
            format!(
                "the file ends at offset {} or before: expected {} more bytes there, got 0",
                self.position, self.remaining
            ),
        )
    }
}

/// What remains, from the same open file, with a progress of its own: for the same file to many peers.
impl Clone for FileRegion {
    fn clone(&self) -> Self {
        let copy = Self::new(self.file.clone(), self.position, self.remaining);
        Self { within: self.within, ..copy }
    }
}

impl fmt::Debug for FileRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileRegion")
            .field("position", &self.position)
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

/// How far a [`FileRegion`] has got. Cheap to clone, can be asked on any thread.
///
/// ```
/// use netwright_core::FileRegion;
///
/// # fn main() -> std::io::Result<()> {
/// let mut region = FileRegion::whole(std::fs::File::open(std::env::current_exe()?)?)?;
/// let progress = region.progress();
/// region.advance(10); // as a transport does
/// assert_eq!(progress.sent(), 10);
/// assert!(progress.total() > 10);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FileProgress {
    /// A lock rather than an atomic: not every 32-bit system has atomics of 64 bits, and files can be that long. Taken
    /// once per piece sent, so it costs little beside the system call.
    sent: SyncArc<Mutex<u64>>,
    total: u64,
}

impl FileProgress {
    /// Bytes that the transport has taken so far.
    pub fn sent(&self) -> u64 {
        *lock(&self.sent)
    }

    /// Bytes that are to be sent in all, counted from when the progress was first asked for.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl fmt::Debug for FileProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileProgress").field("sent", &self.sent()).field("total", &self.total).finish()
    }
}

#[cfg(unix)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, buffer, offset)
}

/// A pipe would be read wherever it is, and would block.
#[cfg(windows)]
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(io::Error::new(io::ErrorKind::NotSeekable, "only a file can be read at an offset"));
    }
    std::os::windows::fs::FileExt::seek_read(file, buffer, offset)
}

#[cfg(not(any(unix, windows)))]
fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<usize> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system cannot read a file at an offset"))
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    use super::*;
    use std::{
        fs::{self, OpenOptions},
        io::Write,
        process,
        sync::atomic::{AtomicUsize, Ordering},
    };

    /// An open file with this content, which is gone when it is closed.
    pub(in crate::channel) fn file_with(content: &[u8]) -> File {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("netwright-region-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let mut file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(content).unwrap();
        fs::remove_file(&path).unwrap();
        file
    }

    #[test]
    fn a_region_gives_its_part_of_the_file_in_chunks_and_nothing_else() {
        let mut region = FileRegion::new(file_with(b"0123456789"), 2, 6);
        assert_eq!(region.read_chunk(4).unwrap(), "2345");
        region.advance(4);
        assert_eq!((region.position(), region.remaining()), (6, 2));
        assert_eq!(region.read_chunk(4).unwrap(), "67");
        region.advance(2);
        assert_eq!(region.read_chunk(4).unwrap(), "");
        assert_eq!(region.remaining(), 0);
    }

    #[test]
    fn reading_does_not_go_on_so_a_short_write_loses_nothing() {
        let mut region = FileRegion::whole(file_with(b"abcdef")).unwrap();
        assert_eq!(region.read_chunk(100).unwrap(), "abcdef");
        region.advance(1);
        assert_eq!(region.read_chunk(100).unwrap(), "bcdef");
        let mut scratch = [0; 3];
        assert_eq!(region.read_into(&mut scratch).unwrap(), 3);
        assert_eq!(&scratch, b"bcd");
        assert_eq!(region.read_into(&mut []).unwrap(), 0, "no room is not the end of the file");
    }

    #[test]
    fn whole_is_as_long_as_the_file() {
        assert_eq!(FileRegion::whole(file_with(b"")).unwrap().remaining(), 0);
        assert_eq!(FileRegion::whole(file_with(&[7; 1000])).unwrap().remaining(), 1000);
    }

    #[test]
    fn a_file_shorter_than_promised_gives_what_it_has_and_then_an_error_that_names_offset_and_lengths() {
        let mut region = FileRegion::new(file_with(b"0123456789"), 8, 5);
        assert_eq!(region.read_chunk(100).unwrap(), "89");
        region.advance(2);
        let error = region.read_chunk(100).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(
            error.to_string(),
            "the file ends at offset 10 or before: expected 3 more bytes there, got 0"
        );
        assert_eq!(region.ended_early().to_string(), error.to_string());
    }

    #[test]
    fn regions_share_one_open_file_without_disturbing_each_other() {
        let file = Arc::new(file_with(b"shared"));
        let (mut first, second) = (FileRegion::new(file.clone(), 0, 6), FileRegion::new(file, 3, 3));
        assert_eq!(first.read_chunk(2).unwrap(), "sh");
        first.advance(2);
        assert_eq!(second.read_chunk(9).unwrap(), "red");
        assert_eq!(first.read_chunk(9).unwrap(), "ared");
        assert_eq!(first.clone().read_chunk(9).unwrap(), "ared");
    }

    #[test]
    fn a_region_within_a_message_is_begun_from_the_first_and_so_is_its_clone() {
        let mut region = FileRegion::new(file_with(b"0123456789"), 0, 10);
        assert!(!region.is_begun());
        region.advance(1);
        assert!(region.is_begun());
        assert!(!region.clone().is_begun(), "nobody has got anything of it");
        assert!(region.within_message().clone().is_begun());
    }

    #[test]
    fn progress_follows_what_was_sent_and_is_not_shared_with_a_clone() {
        let mut region = FileRegion::new(file_with(b"0123456789"), 0, 10);
        let progress = region.progress();
        let mut other = region.clone();
        region.advance(3);
        other.advance(10);
        assert_eq!((progress.sent(), progress.total()), (3, 10));
        region.advance(7);
        assert_eq!((progress.clone().sent(), region.progress().sent()), (10, 10));
    }

    #[test]
    #[should_panic(expected = "5 bytes of a file region were taken, but only 4 remained")]
    fn taking_more_than_remains_panics() {
        FileRegion::new(file_with(b""), 0, 4).advance(5);
    }

    #[test]
    fn an_offset_beyond_every_file_is_an_error_and_no_panic() {
        let mut region = FileRegion::new(file_with(b"x"), u64::MAX - 1, u64::MAX);
        assert!(region.read_chunk(1).is_err());
        region.advance(u64::MAX);
        assert_eq!((region.position(), region.remaining()), (u64::MAX, 0));
    }
}

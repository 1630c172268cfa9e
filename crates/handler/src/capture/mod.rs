//! Captures of channels for Wireshark: pcapng files in which bytes have heads of IP and TCP again.
//!
//! ```text
//!   channel ── observer ── packets ──▶ ┐
//!   channel ── observer ── packets ──▶ ├──▶ a file with a bound, by workers
//!   TLS ────── secrets ─────────────▶ ┘     or a ring, dumped on demand
//! ```
//! Unlike a capture by the system it needs no privileges, sees one server's channels and nothing else, and sees them where it is put: in front
//! of TLS as they are on the wire, behind it in clear.

mod block;
mod conversation;
mod figures;
mod file;
mod observer;
mod packet;
mod ring;

pub use figures::CaptureFigures;
pub use observer::{CaptureObserver, Captured};

use bytes::Bytes;
use figures::Counts;
use file::FileSink;
use netwright_core::{ObserverStage, Workers, observe};
use ring::Ring;
use std::{error::Error, fmt, io, path::Path, sync::Arc, time::Duration};

/// No line of a key log is longer: a label, 32 bytes and 64 bytes in hexadecimal digits.
const SECRET_MAX: usize = 512;

/// Captures what passes on any number of channels as pcapng, which Wireshark and `tshark` read.
///
/// A handle: clones are the same capture. Put [`stage`](Self::stage) where bytes are to be seen: as the first stage they are those of the
/// wire, behind TLS they are in clear. On a channel that lives already, [`observer`](Self::observer) goes into a slot.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::Capture;
///
/// let capture = Capture::ring(1024 * 1024)?; // the newest MiB of packets
/// let mut channel = EmbeddedChannel::new(pipeline().add(capture.stage()).handle(|cx, bytes| cx.write_and_flush(bytes)));
/// channel.write_inbound("GET / HTTP/1.0\r\n\r\n");
///
/// let file = capture.dump()?; // for `tshark -r`
/// assert!(file.windows(5).any(|bytes| bytes == b"GET /"));
/// assert_eq!(capture.figures().packets, 3 + 2, "a handshake, and a piece each way");
/// # Ok::<(), netwright_handler::CaptureError>(())
/// ```
///
/// TCP is made up: a handshake, sequence numbers, and the end by the cause of the channel's. Nothing is lost, sent again or out of order, and a
/// segment is a message as it passed. Addresses are those of the channel; where it has none of IP, they are made up, and a comment on its first
/// packet names the real ones. Of files that are sent only the length is known.
///
/// A capture shows everything that passes, secrets included; its file can be read by the program's user alone.
#[derive(Clone)]
pub struct Capture {
    shared: Arc<Shared>,
}

impl Capture {
    /// A capture into a new file of at most so many bytes; one that is there is replaced. Blocks while it is made, and never again: workers
    /// write. When the bound is reached, or the disk is full or too slow, channels go on, and what is lost is [counted](Self::figures).
    ///
    /// The file is complete [when it is finished](Self::finish), or soon after the last handle and the last channel are gone; it can be read before.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_handler::Capture;
    /// use std::time::Duration;
    ///
    /// # let path = std::env::temp_dir().join(format!("netwright-capture-{}.pcapng", std::process::id()));
    /// let capture = Capture::to_file(&path, 100 << 20)?;
    /// let mut channel = EmbeddedChannel::new(pipeline().add(capture.stage()).handle(|_, _| {}));
    /// channel.write_inbound("hello");
    /// assert!(capture.finish(Duration::from_secs(30)));
    /// assert!(std::fs::read(&path)?.windows(5).any(|bytes| bytes == b"hello"));
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The file cannot be made, or the bound is below 4 KiB.
    pub fn to_file(path: impl AsRef<Path>, bytes_max: u64) -> Result<Self, CaptureError> {
        Self::file(path.as_ref(), bytes_max, None)
    }

    /// [`to_file`](Self::to_file), written by these workers and not by the common ones.
    ///
    /// # Errors
    /// The file cannot be made, or the bound is below 4 KiB.
    pub fn to_file_on(
        workers: &Workers,
        path: impl AsRef<Path>,
        bytes_max: u64,
    ) -> Result<Self, CaptureError> {
        Self::file(path.as_ref(), bytes_max, Some(workers.clone()))
    }

    fn file(path: &Path, bytes_max: u64, workers: Option<Workers>) -> Result<Self, CaptureError> {
        let counts = Arc::<Counts>::default();
        let file = FileSink::create(path, bytes_max, workers, counts.clone())?;
        Ok(Self { shared: Arc::new(Shared { counts, sink: Sink::File(Arc::new(file)) }) })
    }

    /// A capture of the newest packets, of at most so many bytes, in memory. See [`dump`](Self::dump).
    ///
    /// # Errors
    /// The bound is below 4 KiB.
    pub fn ring(bytes_max: usize) -> Result<Self, CaptureError> {
        let counts = Arc::<Counts>::default();
        let ring = Ring::new(bytes_max, counts.clone())?;
        Ok(Self { shared: Arc::new(Shared { counts, sink: Sink::Ring(ring) }) })
    }

    /// A stage that captures its channel from the beginning. The peer began the connection: the channel is one of a server.
    pub fn stage(&self) -> ObserverStage<CaptureObserver> {
        observe(self.observer())
    }

    /// The same for a channel of a client: our side began the connection.
    pub fn client_stage(&self) -> ObserverStage<CaptureObserver> {
        observe(CaptureObserver::new(self.shared.clone(), block::Way::Out))
    }

    /// What captures one channel, to be put into a slot of it. Packets begin in the middle of the connection then.
    pub fn observer(&self) -> CaptureObserver {
        CaptureObserver::new(self.shared.clone(), block::Way::In)
    }

    /// The same for a slot through which `Bytes` pass and no files.
    ///
    /// ```
    /// use bytes::{Bytes, BytesMut};
    /// use netwright_core::{EmbeddedChannel, pipeline, slot};
    /// use netwright_handler::Capture;
    ///
    /// let capture = Capture::ring(64 * 1024)?;
    /// let mut channel = EmbeddedChannel::new(pipeline().add(slot::<BytesMut, Bytes>("capture")).handle(|_, _| {}));
    /// channel.channel().slot("capture").unwrap().put(capture.observer_of_bytes());
    /// channel.write_inbound("hello");
    /// assert_eq!(capture.figures().packets, 1);
    /// # Ok::<(), netwright_handler::CaptureError>(())
    /// ```
    pub fn observer_of_bytes(&self) -> CaptureObserver<Bytes> {
        CaptureObserver::new(self.shared.clone(), block::Way::In)
    }

    /// Adds a secret of a TLS connection, so that its bytes can be read: one line of the format of `SSLKEYLOGFILE`. For
    /// `netwright_tls`, that is what its `KeyLines` gives.
    ///
    /// **Whoever has the file can read everything that was sent on that connection**, which is what this is for, and why it never happens by itself.
    ///
    /// ```
    /// use netwright_handler::Capture;
    ///
    /// let capture = Capture::ring(64 * 1024)?;
    /// capture.tls_secret_line(&format!("CLIENT_TRAFFIC_SECRET_0 {} {}", "ab".repeat(32), "cd".repeat(32)))?;
    /// assert!(capture.tls_secret_line("one\ntwo").is_err());
    /// # Ok::<(), netwright_handler::CaptureError>(())
    /// ```
    ///
    /// # Errors
    /// It is no such line, or the file takes no more.
    pub fn tls_secret_line(&self, line: &str) -> Result<(), CaptureError> {
        let line = line.trim_end_matches(['\r', '\n']);
        check_secret(line).map_err(CaptureError::NoSecret)?;
        let mut bytes = Vec::with_capacity(line.len() + 32);
        block::secrets(&mut bytes, format!("{line}\n").as_bytes());
        match &self.shared.sink {
            Sink::Ring(ring) => ring.secrets(&bytes),
            Sink::File(file) if file.push(&bytes, 0) => {}
            Sink::File(_) => return Err(CaptureError::Full),
        }
        Ok(())
    }

    /// The file of what is in the ring now, which goes on.
    ///
    /// # Errors
    /// It is a capture to a file.
    pub fn dump(&self) -> Result<Vec<u8>, CaptureError> {
        match &self.shared.sink {
            Sink::Ring(ring) => Ok(ring.dump()),
            Sink::File(_) => Err(CaptureError::NoRing),
        }
    }

    /// [`dump`](Self::dump) to a new file, which the program's user alone can read. Blocks: not for a loop.
    ///
    /// # Errors
    /// It is a capture to a file, or the file cannot be written.
    pub fn dump_to(&self, path: impl AsRef<Path>) -> Result<(), CaptureError> {
        let bytes = self.dump()?;
        let mut file = file::create_private(path.as_ref()).map_err(CaptureError::Io)?;
        io::Write::write_all(&mut file, &bytes).map_err(CaptureError::Io)
    }

    /// What it has done so far.
    pub fn figures(&self) -> CaptureFigures {
        self.shared.counts.figures()
    }

    /// Why nothing more is written to the file, if that is so: the disk is full, say.
    pub fn error(&self) -> Option<Arc<io::Error>> {
        match &self.shared.sink {
            Sink::File(file) => file.error(),
            Sink::Ring(_) => None,
        }
    }

    /// Whether the file takes no more: its bound was reached, writing has failed, or it is finished. Never so of a ring.
    pub fn is_full(&self) -> bool {
        matches!(&self.shared.sink, Sink::File(file) if file.is_over())
    }

    /// Waits until what was captured by now is in the file, for at most so long. False if that was not enough. Blocks: not for a loop.
    pub fn wait_until_written(&self, most: Duration) -> bool {
        match &self.shared.sink {
            Sink::File(file) => file.wait(most),
            Sink::Ring(_) => true,
        }
    }

    /// Ends the file, and waits until it is written, for at most so long: before a program ends, or the file is read. What passes later is
    /// counted as lost. Of a ring, nothing. Blocks: not for a loop.
    pub fn finish(&self, most: Duration) -> bool {
        if let Sink::File(file) = &self.shared.sink {
            file.finish();
        }
        self.wait_until_written(most)
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture").field("figures", &self.figures()).finish_non_exhaustive()
    }
}

/// What all channels of a capture share.
struct Shared {
    counts: Arc<Counts>,
    sink: Sink,
}

enum Sink {
    File(Arc<FileSink>),
    Ring(Ring),
}

impl Shared {
    fn channel(&self) -> u64 {
        self.counts.channel()
    }

    fn packet(&self, block: &[u8]) {
        match &self.sink {
            Sink::File(file) => _ = file.push(block, 1),
            Sink::Ring(ring) => ring.packet(block),
        }
    }
}

/// The last handle and the last channel are gone.
impl Drop for Shared {
    fn drop(&mut self) {
        if let Sink::File(file) = &self.sink {
            file.finish();
        }
    }
}

/// A label, the client's random and the secret, both in hexadecimal digits. What is wrong is said without saying the secret.
fn check_secret(line: &str) -> Result<(), &'static str> {
    if line.len() > SECRET_MAX {
        return Err("longer than 512 bytes");
    }
    let words: Vec<_> = line.split(' ').collect();
    let is_hex =
        |word: &str| word.len().is_multiple_of(2) && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match words[..] {
        [label, _, _]
            if label.is_empty()
                || !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') =>
        {
            Err("its label is no word")
        }
        [_, random, _] if random.len() != 64 || !is_hex(random) => {
            Err("the client's random is not of 32 bytes")
        }
        [_, _, secret] if secret.is_empty() || !is_hex(secret) => Err("the secret is not of whole bytes"),
        [_, _, _] => Ok(()),
        _ => Err("not three words with a blank between them"),
    }
}

/// Why a capture cannot be made, or does not do what was asked for.
///
/// ```
/// use netwright_handler::{Capture, CaptureError};
///
/// let error = Capture::ring(100).unwrap_err();
/// assert!(matches!(error, CaptureError::TooSmall { got: 100, least: 4096 }));
/// assert_eq!(error.to_string(), "a capture of 100 bytes has no room for packets: 4096 is the least");
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file could not be made or written.
    Io(io::Error),
    /// The bound leaves no room for packets.
    TooSmall {
        /// What was asked for.
        got: u64,
        /// What is needed.
        least: u64,
    },
    /// A line is no secret of a key log, for this reason.
    NoSecret(&'static str),
    /// The file takes no more.
    Full,
    /// A capture to a file has nothing to dump: its file is there.
    NoRing,
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => write!(f, "the file of a capture: {error}"),
            Self::TooSmall { got, least } => {
                write!(f, "a capture of {got} bytes has no room for packets: {least} is the least")
            }
            Self::NoSecret(why) => write!(f, "this is no line of a TLS key log: {why}"),
            Self::Full => f.write_str("the file of the capture takes no more"),
            Self::NoRing => f.write_str("this capture goes to a file, and has no ring to dump"),
        }
    }
}

impl Error for CaptureError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

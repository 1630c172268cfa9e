//! Channels over a pair of pipes: two descriptors, one to read from and one to write to, as a child process has them.
//!
//! | file | what it is |
//! | --- | --- |
//! | here | pairs, children, and what a process was started with |
//! | `side` | one descriptor, left as it was found |
//! | `stream` | what [`Stream`](crate::open::Stream) asks for |
//!
//! A transport like any other that is no socket: it comes by [`open`](crate::open).

mod side;
mod stream;

use crate::open::{Connection, Stream};
use netwright_core::{Address, LocalLoop, driver::Token};
use side::Side;
use std::{
    fmt, io,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    process::Child,
    sync::Arc,
};
use stream::PipeStream;

/// A connection over two descriptors, for [`Client::adopt`](crate::Client::adopt): what comes in by the one and goes out by the other.
/// Pipes, FIFOs, terminals and other devices; a file, which is never waited for, is refused.
///
/// A child process as a channel:
///
/// ```
/// use bytes::Bytes;
/// use netwright_core::pipeline;
/// use netwright_transport::{Client, Pipes};
/// use std::{process::{Command, Stdio}, sync::mpsc};
///
/// let (tell, told) = mpsc::channel();
/// let client = Client::builder().pipeline(move || {
///     let tell = tell.clone();
///     pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
/// })?;
/// let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
/// let channel = client.adopt(Pipes::of_child(&mut child)?).wait()?;
///
/// channel.write_and_flush(Bytes::from("meow"));
/// assert_eq!(told.recv()?, "meow");
/// channel.close().wait()?; // the end of its input ends the child,
/// assert!(child.wait()?.success()); // which is still ours to wait for
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Half-closure closes the descriptor that is written to: the peer reads to its end, and may go on writing. Files are sent through memory.
/// There is no reset: a peer that goes is known by the end of what it wrote, or by a write that finds nobody: that ends the channel with
/// `BrokenPipe`, behind what had arrived by then. Do not write to a child that has closed its input and still has something to say.
///
/// The descriptors are made non-blocking for as long as the channel lives, which all who share them notice, and then left as they were. Rust
/// programs ignore `SIGPIPE`; one that does not is ended by a write that finds nobody.
pub struct Pipes {
    input: Side,
    output: Side,
    local: Option<Address>,
    peer: Address,
}

impl Pipes {
    /// Reads from `input` and writes to `output`.
    ///
    /// # Errors
    /// One of them cannot be waited for, or the system says no.
    pub fn new(input: impl Into<OwnedFd>, output: impl Into<OwnedFd>) -> Result<Self, PipesError> {
        let (input, output) = (input.into(), output.into());
        let name = format!("{},{}", input.as_raw_fd(), output.as_raw_fd());
        Self::named(input, output, "pipe", &name)
    }

    /// Both ends of a connection: what the one writes the other reads.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn pair() -> Result<(Self, Self), PipesError> {
        let ((from_two, to_one), (from_one, to_two)) = (io::pipe()?, io::pipe()?);
        Ok((Self::new(from_two, to_two)?, Self::new(from_one, to_one)?))
    }

    /// Writes to a child's standard input and reads its standard output, which are taken out of `child`. Both have to be
    /// [piped](std::process::Stdio::piped). To wait for the child stays the affair of who started it.
    ///
    /// # Errors
    /// One of them is not piped, or was taken before: then nothing is taken.
    pub fn of_child(child: &mut Child) -> Result<Self, PipesError> {
        if child.stdin.is_none() {
            return Err(PipesError::NotPiped("stdin"));
        }
        let output = child.stdout.take().ok_or(PipesError::NotPiped("stdout"))?;
        let input = child.stdin.take().ok_or(PipesError::NotPiped("stdin"))?;
        Self::named(output.into(), input.into(), "process", &child.id().to_string())
    }

    /// Reads this process's standard input and writes to its standard output: its parent, the program before and behind it, a terminal.
    /// Whatever else reads or prints shares them.
    ///
    /// # Errors
    /// One of them is a file, or closed.
    pub fn of_this_process() -> Result<Self, PipesError> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let output = io::stdout().as_fd().try_clone_to_owned()?;
        Self::named(input, output, "pipe", "stdio")
    }

    /// What the channel is to give as its addresses: for transports whose connections are pipes.
    pub fn between(mut self, local: Address, peer: Address) -> Self {
        (self.local, self.peer) = (Some(local), peer);
        self
    }

    fn named(input: OwnedFd, output: OwnedFd, scheme: &str, name: &str) -> Result<Self, PipesError> {
        let peer = Address::other(scheme, name).map_err(|error| PipesError::from(io::Error::other(error)))?;
        let (input, output) = (Side::new(input, "input")?, Side::new(output, "output")?);
        Ok(Self { input, output, local: None, peer })
    }
}

impl Connection for Pipes {
    /// `process:ID` for a child, `pipe:INPUT,OUTPUT` with the numbers of the descriptors for others.
    fn peer(&self) -> Address {
        self.peer.clone()
    }

    fn local(&self) -> Option<Address> {
        self.local.clone()
    }

    fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(PipeStream::open(local, token, self.input, self.output)?))
    }
}

impl fmt::Debug for Pipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pipes").field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// Why two descriptors are no connection.
///
/// ```
/// use netwright_transport::{Pipes, PipesError};
/// use std::{fs::File, process::{Command, Stdio}};
///
/// let (_, output) = std::io::pipe()?;
/// let error = Pipes::new(File::open("Cargo.toml")?, output).unwrap_err();
/// assert!(matches!(error, PipesError::NotWaitable { end: "input", what: "a file" }));
///
/// let mut child = Command::new("true").stdin(Stdio::piped()).spawn()?; // its output is where ours is
/// assert!(matches!(Pipes::of_child(&mut child), Err(PipesError::NotPiped("stdout"))));
/// # child.wait()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum PipesError {
    /// This stream of a child is not piped, or was taken before.
    NotPiped(&'static str),
    /// The system can wait for pipes and devices, not for this.
    NotWaitable {
        /// Which of the two it is.
        end: &'static str,
        /// What it is.
        what: &'static str,
    },
    /// What the system says.
    Io(Arc<io::Error>),
}

impl fmt::Display for PipesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPiped(stream) => {
                write!(
                    f,
                    "the child's {stream} is not piped, or was taken before: give its command `Stdio::piped()`"
                )
            }
            Self::NotWaitable { end, what } => {
                write!(f, "the {end} is {what}, and the system does not tell when there is news of one")
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PipesError {}

impl From<io::Error> for PipesError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

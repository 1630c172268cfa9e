//! A connection that has no loop yet.

use super::Stream;
use crate::stream::Carried;
use netwright_core::{Address, LocalLoop, driver::Token};
use std::{fmt, io};

/// A connection between whoever made it and the loop that will host its channel, which may be that of another thread.
///
/// It is [opened](Self::open) once, or [refused](Self::refuse), or dropped: an end in order.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_core::{Address, LocalLoop, Outbound, driver::{Ready, Token}, pipeline};
/// use netwright_transport::{Client, open::{Connection, Received, Stream, Wrote, next_bytes}};
/// use std::{io, sync::mpsc};
///
/// /// Says something, and then no more. What it is told it keeps to itself.
/// struct Oracle(&'static str);
///
/// impl Connection for Oracle {
///     fn peer(&self) -> Address {
///         Address::other("oracle", "delphi").unwrap()
///     }
///     fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
///         local.call(token); // there is something to read from the start: `look` says so
///         Ok(self)
///     }
/// }
///
/// impl Stream for Oracle {
///     fn look(&mut self) -> Ready {
///         Ready::READ
///     }
///     fn receive(&mut self) -> io::Result<Received> {
///         Ok(Received { bytes: BytesMut::from(std::mem::take(&mut self.0)), more: true })
///     }
///     fn has_ended(&mut self) -> io::Result<bool> {
///         Ok(self.0.is_empty())
///     }
///     fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
///         while let Some(bytes) = next_bytes(outbound, "an oracle", usize::MAX)? {
///             outbound.advance(bytes.len());
///         }
///         Ok(Wrote::All)
///     }
///     fn shut_down_output(&mut self) -> io::Result<()> {
///         Ok(())
///     }
/// }
///
/// let (tell, told) = mpsc::channel();
/// let client = Client::builder().pipeline(move || {
///     let tell = tell.clone();
///     pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
/// })?;
/// let channel = client.adopt(Oracle("know thyself")).wait()?;
/// assert_eq!(channel.peer().unwrap().to_string(), "oracle:delphi");
/// assert_eq!(told.recv()?, "know thyself");
/// channel.closed().wait()?; // the end came behind it
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Connection: Send + 'static {
    /// Where the other end is.
    fn peer(&self) -> Address;

    /// Where this end is, if that can be said.
    fn local(&self) -> Option<Address> {
        None
    }

    /// Takes it into the loop of the calling thread. `token` is its channel's: what is registered with the loop's driver is
    /// registered under it, and [`LocalLoop::caller`] of it is whom other threads call. What was there before is told as if it were new: by
    /// registering, or by a call.
    ///
    /// # Errors
    /// The channel does not come about, and the connection is closed.
    fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>>;

    /// Ends it so that the peer learns that it was refused, if there is a way to tell. Default: as if it was dropped.
    fn refuse(self: Box<Self>) {}
}

/// A connection that has come about: what an [`Acceptor`](super::Acceptor) accepts, and what [`Connecting`](super::Connecting) leads to.
///
/// Made of any [`Connection`] by `Arrival::from` or `.into()`.
pub struct Arrival {
    pub(crate) carried: Carried,
    pub(crate) peer: Address,
}

impl<C: Connection> From<C> for Arrival {
    fn from(connection: C) -> Self {
        Self { peer: connection.peer(), carried: Carried::Open(Box::new(connection)) }
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("peer", &self.peer).finish_non_exhaustive()
    }
}

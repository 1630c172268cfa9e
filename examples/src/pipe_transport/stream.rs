//! Two pipes as one stream of bytes.

use bytes::BytesMut;
use netwright::{
    Address,
    transport::{
        Interest, LocalLoop, Outbound, Readiness,
        driver::Token,
        open::{Connection, Received, Stream, Wrote, next_bytes},
    },
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::ioctl_fionbio,
};
use std::{
    io::{self, PipeReader, PipeWriter, Read, Write},
    rc::Rc,
};

/// The most that is read at once.
const READ_MAX: usize = 16 * 1024;

/// Writes of one channel before others get their turn.
const WRITES_PER_TURN: usize = 16;

/// One end of a connection, which has no loop yet.
pub struct Ends {
    input: PipeReader,
    output: PipeWriter,
    peer: Address,
}

impl Ends {
    /// The client's end, and the server's.
    pub(super) fn pair(address: &Address) -> io::Result<(Self, Self)> {
        let ((from_client, to_server), (from_server, to_client)) = (io::pipe()?, io::pipe()?);
        let end = |input: PipeReader, output: PipeWriter| {
            ioctl_fionbio(&input, true)?; // nothing blocks a loop
            ioctl_fionbio(&output, true)?;
            Ok::<_, io::Error>(Self { input, output, peer: address.clone() })
        };
        Ok((end(from_server, to_server)?, end(from_client, to_client)?))
    }
}

impl Connection for Ends {
    fn peer(&self) -> Address {
        self.peer.clone()
    }

    fn local(&self) -> Option<Address> {
        Some(self.peer.clone()) // a name is all that there is
    }

    fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
        let Some(readiness) = Readiness::of(local) else {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "this loop cannot wait for pipes"));
        };
        // Both under the channel's token: an event says "read" or "write", which can be meant of one of them only.
        readiness.register(&self.input, token, Interest::READABLE)?;
        if let Err(error) = readiness.register(&self.output, token, Interest::WRITABLE) {
            let _ = readiness.deregister(&self.input);
            return Err(error);
        }
        let (input, output) = (self.input, Some(self.output));
        Ok(Box::new(PipeStream { readiness, input, output, ahead: None }))
    }
}

struct PipeStream {
    readiness: Rc<Readiness>,
    input: PipeReader,
    /// None once we send no more.
    output: Option<PipeWriter>,
    /// Read to find out whether there is an end, and not asked for yet; empty: the end.
    ahead: Option<BytesMut>,
}

impl PipeStream {
    fn read(&mut self) -> io::Result<BytesMut> {
        let mut room = [0; READ_MAX];
        let len = self.input.read(&mut room)?;
        Ok(BytesMut::from(&room[..len]))
    }

    fn close_output(&mut self) {
        if let Some(output) = self.output.take() {
            let _ = self.readiness.deregister(&output); // before it is closed
        }
    }
}

impl Stream for PipeStream {
    fn receive(&mut self) -> io::Result<Received> {
        let bytes = match self.ahead.take() {
            Some(bytes) => bytes,
            None => self.read()?,
        };
        Ok(Received { bytes, more: true }) // until `WouldBlock`: then an event tells
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        if self.ahead.is_none() {
            self.ahead = Some(self.read()?); // a pipe does not let us look without taking
        }
        Ok(self.ahead.as_ref().is_some_and(BytesMut::is_empty))
    }

    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        let Some(output) = &mut self.output else { return Ok(Wrote::All) }; // behind our end nothing is queued
        for _ in 0..WRITES_PER_TURN {
            let Some(bytes) = next_bytes(outbound, "a pipe", READ_MAX)? else { return Ok(Wrote::All) };
            let written = output.write(&bytes);
            drop(bytes); // before anybody is told that they were sent
            match written {
                Ok(written) => outbound.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Wrote::Blocked),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(if outbound.has_flushed() { Wrote::Enough } else { Wrote::All })
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        self.close_output();
        Ok(())
    }

    /// Asked when the input has ended: whether there is anybody left who reads.
    fn take_error(&mut self) -> Option<io::Error> {
        let mut asked = [PollFd::new(self.output.as_ref()?, PollFlags::OUT)];
        poll(&mut asked, Some(&Timespec::default())).ok()?;
        asked[0].revents().contains(PollFlags::ERR).then(|| io::ErrorKind::BrokenPipe.into())
    }

    /// Behind the end of what it wrote, that it reads no more is no news.
    fn ends_one_by_one(&self) -> bool {
        true
    }

    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        let _ = self.readiness.set_interest(&self.input, wants_read, false);
        if let Some(output) = &self.output {
            let _ = self.readiness.set_interest(output, false, waits_for_room);
        }
    }
}

impl Drop for PipeStream {
    fn drop(&mut self) {
        self.close_output();
        let _ = self.readiness.deregister(&self.input);
    }
}

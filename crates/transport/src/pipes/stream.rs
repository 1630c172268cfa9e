//! Two descriptors as one stream, told by readiness when to try.
//!
//! Always true:
//! 1. Both are registered under one token: which of them an event is about does not matter, as what it says can only be meant of one.
//! 2. `output` is there until we send no more; it is deregistered before it is closed, like `input`.
//! 3. Whether a write has found nobody is asked of the system once more when the input has ended: nothing else would tell.

use super::Side;
use crate::{
    readiness::{Interest, Readiness, Registered},
    scratch::{Scratch, scratch},
    socket::{Sink, no_driver, write_flushed},
    stream::{Received, Stream, Wrote, next_bytes},
};
use netwright_core::{GatherCap, LocalLoop, Outbound, driver::Token};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::ioctl_fionread,
    net::Shutdown,
};
use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::AsFd,
    rc::Rc,
};

/// The most of a file that is read for one write: as much as a pipe holds.
const FILE_CHUNK: usize = 64 * 1024;

pub(super) struct PipeStream {
    scratch: Rc<Scratch>,
    /// Before `input`, behind which the peer waits for the end.
    output: Option<Registered<Side>>,
    input: Registered<Side>,
    cap: GatherCap,
}

impl PipeStream {
    /// Registers both under the token.
    pub(super) fn open(local: &LocalLoop, token: Token, input: Side, output: Side) -> io::Result<Self> {
        let readiness = Readiness::of(local).ok_or_else(no_driver)?;
        let input = Registered::new(readiness.clone(), input, token, Interest::READABLE)?;
        let output = Registered::new(readiness, output, token, Interest::WRITABLE)?;
        Ok(Self { scratch: scratch(), input, output: Some(output), cap: GatherCap::default() })
    }
}

impl Stream for PipeStream {
    fn receive(&mut self) -> io::Result<Received> {
        let read = |room: &mut [MaybeUninit<u8>]| Ok(rustix::io::read(&*self.input, room)?.0.len());
        let (bytes, room) = self.scratch.fill(read)?;
        let more = bytes.len() == room || !self.input.is_drained_by_a_short_read();
        Ok(Received { bytes, more })
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        let news = look_at(&self.input, PollFlags::IN)?;
        Ok(news.intersects(PollFlags::IN | PollFlags::HUP) && ioctl_fionread(&*self.input)? == 0)
    }

    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        match self.output.as_deref() {
            Some(output) => write_flushed(&PipeSink(output), outbound, &mut self.cap),
            None => Ok(Wrote::All), // behind our end the queue takes nothing
        }
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        if let Some(socket) = self.output.as_deref().filter(|output| output.is_socket()) {
            rustix::net::shutdown(socket, Shutdown::Write)?; // the input may be the same one
        }
        self.output = None;
        Ok(())
    }

    fn take_error(&mut self) -> Option<io::Error> {
        let news = look_at(self.output.as_ref()?, PollFlags::OUT);
        match news {
            Ok(news) => news.contains(PollFlags::ERR).then(|| io::ErrorKind::BrokenPipe.into()),
            Err(error) => Some(error),
        }
    }

    fn ends_one_by_one(&self) -> bool {
        self.output.as_ref().is_none_or(|output| !output.is_socket())
    }

    fn unacknowledged(&mut self) -> io::Result<usize> {
        Ok(self.on_its_way().unwrap_or(0))
    }

    /// What lies in the pipe.
    fn on_its_way(&mut self) -> Option<usize> {
        let output = self.output.as_deref().filter(|output| !output.is_socket())?;
        ioctl_fionread(output).ok().and_then(|len| usize::try_from(len).ok())
    }

    fn settle(&mut self, wants_read: bool, waits_for_room: bool) {
        self.input.set_interest(wants_read, false);
        if let Some(output) = &self.output {
            output.set_interest(false, waits_for_room);
        }
    }
}

/// What is true of a descriptor now.
fn look_at(side: &Side, of: PollFlags) -> io::Result<PollFlags> {
    let mut asked = [PollFd::new(side, of)];
    poll(&mut asked, Some(&Timespec::default()))?;
    Ok(asked[0].revents())
}

struct PipeSink<'a>(&'a Side);

impl Sink for PipeSink<'_> {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(self.0.as_fd(), bytes)?)
    }

    fn send_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(self.0.as_fd(), pieces)?)
    }

    fn send_other(&self, outbound: &mut Outbound) -> io::Result<(usize, usize)> {
        match next_bytes(outbound, "a pipe", FILE_CHUNK)? {
            Some(bytes) => Ok((bytes.len(), self.send(&bytes)?)),
            None => Ok((0, 0)),
        }
    }
}

//! A connection whose bytes are moved by a ring.
//!
//! ```text
//!   small: the ring receives and sends         large: by system calls, when the ring says that there is something, or room
//! ```
//! A ring pays where messages are small. Where they are large the copy is what costs, and it costs less with a buffer that is
//! still in the cache: all of a turn's receives first and all its sends after that make one of every buffer cold.
//!
//! Always true:
//! 1. At most one send is under way; while it is, the outbound queue keeps what it takes from, and learns what was taken
//!    when it has ended.
//! 2. A close that comes meanwhile waits for the end of the send: so `write, flush, close` delivers what it would deliver
//!    without a ring. That is no wait for the peer: the kernel ends a send in the call that hands it over, with what the
//!    socket takes at once, or with nothing. Who waits for room has nothing under way, and closes at once.
//! 3. The socket is read directly only while no receive of the ring is under way, so bytes keep their order.

use super::{Uring, extension::Arrival, slot::Key};
use crate::{
    return_stack::refill,
    scratch::scratch,
    socket::{SocketKind, SocketSink, recv, unacknowledged, write_flushed},
    stream::{Received, Stream, Wrote, open_envelope},
};
use bytes::{Bytes, BytesMut};
use netwright_core::{CloseCause, GatherCap, Outbound, driver::Token};
use socket2::{SockRef, Socket};
use std::{io, net::Shutdown, os::fd::BorrowedFd, rc::Rc};

/// Messages of at least this length, and files, are sent by a system call.
const DIRECT_FROM: usize = 8 * 1024;
/// After so many receives in a row that brought less than [`LITTLE`], the ring receives again.
const LITTLES: u8 = 4;
const LITTLE: usize = 2 * 1024;

pub(crate) struct UringStream {
    uring: Rc<Uring>,
    key: Key,
    cap: GatherCap,
    /// What the send under way offers.
    offered: u32,
    /// As the ring was told last.
    wants_read: bool,
    /// Receives in a row that brought little.
    littles: u8,
    /// A close that waits for the send.
    closing: Option<Box<CloseCause>>,
}

impl UringStream {
    pub(crate) fn open(uring: Rc<Uring>, socket: Socket, token: Token) -> io::Result<Self> {
        let key = uring.add_stream(socket, token)?;
        Ok(Self {
            uring,
            key,
            cap: GatherCap::default(),
            offered: 0,
            wants_read: false,
            littles: 0,
            closing: None,
        })
    }

    /// The socket's descriptor, for calls of one's own.
    #[allow(unsafe_code)]
    #[inline]
    fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let descriptor = self.uring.descriptor(self.key)?;
        // SAFETY: the ring has this registration, so its slot owns the descriptor and keeps it open until the registration
        // ends (rule 5). That is when this stream is dropped, or when the driver ends, on this thread and in no call of
        // ours: neither can happen while the borrow of `self` lasts.
        Ok(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// What was flushed behind the send that a close waited for: as much of it as the system takes at once still goes out, as
    /// it does where sends do not wait for the end of a turn.
    #[cold]
    fn send_the_rest(&mut self, outbound: &mut Outbound) {
        if outbound.has_flushed()
            && let Ok(descriptor) = self.descriptor()
        {
            let mut cap = self.cap;
            let _ = write_flushed(&sink(&SockRef::from(&descriptor)), outbound, &mut cap);
            refill();
        }
    }

    /// Receives without the ring.
    fn receive_directly(&mut self) -> io::Result<Received> {
        let result = scratch().fill(|room| recv(&SockRef::from(&self.descriptor()?), room));
        refill();
        match &result {
            Ok((bytes, _)) if bytes.is_empty() => self.uring.set_end(self.key, None),
            Ok((bytes, _)) if bytes.len() < LITTLE => {
                self.littles += 1;
                if self.littles >= LITTLES {
                    self.littles = 0;
                    self.uring.leave_bulk(self.key);
                }
            }
            Ok(_) => self.littles = 0,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => {}
                _ => self.uring.set_end(self.key, error.raw_os_error()),
            },
        }
        let (bytes, room) = result?;
        let more = bytes.len() == room;
        Ok(Received { bytes, more })
    }
}

impl Stream for UringStream {
    #[inline]
    fn receive(&mut self) -> io::Result<Received> {
        match self.uring.receive(self.key)? {
            Arrival::Piece(bytes, more) => Ok(Received { bytes, more }),
            Arrival::End => Ok(Received { bytes: BytesMut::new(), more: false }),
            Arrival::Look => self.receive_directly(),
        }
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        if let Some(ended) = self.uring.has_ended(self.key)? {
            return Ok(ended);
        }
        let ended = SockRef::from(&self.descriptor()?).peek(&mut [std::mem::MaybeUninit::uninit()])? == 0;
        if ended {
            // From now on a reset is looked out for: nobody receives who would find it.
            self.uring.set_end(self.key, None);
        }
        Ok(ended)
    }

    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        while outbound.has_flushed() {
            if outbound.first_envelope().is_some() {
                open_envelope(outbound, "a TCP channel");
                continue;
            }
            let by_ring =
                |bytes: &Bytes| bytes.len() < DIRECT_FROM || bytes.len() >= self.uring.zero_copy_from();
            if outbound.first_bytes().is_some_and(by_ring) {
                let offered = self.uring.send(self.key, outbound, self.cap.get())?;
                self.offered = u32::try_from(offered).unwrap_or(u32::MAX);
                return Ok(Wrote::Sending); // until the completion tells what was taken
            }
            let mut cap = self.cap;
            let wrote = write_flushed(&sink(&SockRef::from(&self.descriptor()?)), outbound, &mut cap);
            refill();
            self.cap = cap;
            let wrote = wrote?;
            if let Wrote::Blocked = wrote {
                self.offered = 0;
                self.uring.wait_for_room(self.key)?;
            }
            return Ok(wrote);
        }
        Ok(Wrote::All)
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        SockRef::from(&self.descriptor()?).shutdown(Shutdown::Write)
    }

    fn take_error(&mut self) -> Option<io::Error> {
        match self.descriptor().and_then(|descriptor| SockRef::from(&descriptor).take_error()) {
            Ok(error) => error,
            Err(error) => Some(error),
        }
    }

    fn sent(&mut self, outbound: &mut Outbound) -> io::Result<Option<CloseCause>> {
        let result = self.uring.sent(self.key);
        if let Ok(Some(taken)) = result {
            // A send that found no room says nothing of how much there is next time.
            if self.offered > 0 && taken > 0 {
                self.cap.record(self.offered as usize, taken);
            }
            outbound.advance(taken);
        }
        match self.closing.take() {
            Some(cause) => {
                self.send_the_rest(outbound);
                Ok(Some(*cause)) // whatever became of the sends
            }
            None => result.map(|_| None),
        }
    }

    fn close_later(&mut self, cause: CloseCause) -> Result<(), CloseCause> {
        if self.closing.is_none() {
            if !self.uring.finish_sending(self.key) {
                return Err(cause);
            }
            self.closing = Some(Box::new(cause));
        }
        Ok(())
    }

    fn waits_for_peer(&self) -> bool {
        self.uring.waits_for_room(self.key)
    }

    fn brings_later(&self) -> bool {
        true
    }

    #[inline]
    fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    fn unacknowledged(&mut self) -> io::Result<usize> {
        unacknowledged(&SockRef::from(&self.descriptor()?))
    }

    fn on_its_way(&mut self) -> Option<usize> {
        self.unacknowledged().ok()
    }

    fn reset_on_close(&mut self) {
        // The ring closes later: until then the peer could take everything after all. This resets at once.
        let reset = |descriptor| Ok(rustix::net::connect_unspec(descriptor)?);
        let _: io::Result<()> = self.descriptor().and_then(reset);
    }

    #[inline]
    fn settle(&mut self, wants_read: bool, _: bool) {
        if std::mem::replace(&mut self.wants_read, wants_read) != wants_read {
            self.uring.wants_read(self.key, wants_read);
        }
    }
}

impl Drop for UringStream {
    fn drop(&mut self) {
        self.uring.close(self.key);
    }
}

/// Writes directly, by the system call that others use.
fn sink(socket: &Socket) -> SocketSink<'_> {
    SocketSink { socket, kind: &SocketKind::Tcp }
}

//! The floor of completion I/O: an io_uring loop that does nothing but echo.
//!
//! ```text
//!   one enter a turn ─▶ received: sent back straight from the kernel's own choice of buffer ─▶ sent: the buffer goes back
//! ```
//! Everything that makes a ring fast is used: accepted connections live in the ring's own table of files, one receive
//! lasts for a connection's life, buffers are chosen by the kernel from a ring, the queues belong to one thread, and the
//! call into the kernel is an instruction in the middle of the loop.
//!
//! Like the epoll loop, nothing is left out that a server needs (short sends, buffers that run out, ends), and nothing is
//! in it that an echo server does not need.
//!
//! Always true, which is what the `unsafe` blocks argue from:
//! 1. A buffer is the kernel's while its number is in the ring of buffers; it is ours from the completion that names it until
//!    it is given back, which is after the send from it has ended.
//! 2. The memory of the buffers and of their ring lives as long as the loop, which has no end but that of the process.

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::{
    io::Errno,
    io_uring::{IoringEnterFlags, io_uring_enter},
};
use std::{
    collections::VecDeque,
    io,
    net::TcpListener,
    os::fd::{AsRawFd, BorrowedFd},
    sync::atomic::{AtomicU16, Ordering},
};

const SUBMISSIONS: u32 = 4096;
pub(super) const COMPLETIONS: u32 = 16 * 1024;
const CONNECTIONS: u32 = 16 * 1024;
const BUFFERS: u16 = 512;
const BUFFER: usize = 16 * 1024;
/// Off the power of two, so that small messages do not share the few places of a cache that their addresses would map to.
const STRIDE: usize = BUFFER + 576;
pub(super) const GROUP: u16 = 0;

pub(super) const ACCEPT: u64 = 1 << 32;
pub(super) const RECEIVE: u64 = 2 << 32;
pub(super) const SEND: u64 = 3 << 32;
pub(super) const CLOSE: u64 = 4 << 32;

/// Buffers, and the ring that offers them to the kernel.
pub(super) struct Buffers {
    ring: *mut types::BufRingEntry,
    memory: *mut u8,
    tail: u16,
}

impl Buffers {
    /// Page-aligned, and never freed (rule 2).
    fn new() -> Self {
        #[repr(C, align(4096))]
        struct Page([u8; 4096]);
        let pages = |bytes: usize| {
            let pages: Vec<Page> = (0..bytes.div_ceil(4096)).map(|_| Page([0; 4096])).collect();
            Box::leak(pages.into_boxed_slice()).as_mut_ptr().cast::<u8>()
        };
        let ring = pages(usize::from(BUFFERS) * size_of::<types::BufRingEntry>()).cast();
        Self { ring, memory: pages(usize::from(BUFFERS) * STRIDE), tail: 0 }
    }

    pub(super) fn address(&self, number: u16) -> *mut u8 {
        // SAFETY: the kernel names only numbers that it was given, which are below `BUFFERS`.
        unsafe { self.memory.add(usize::from(number) * STRIDE) }
    }

    pub(super) fn give(&mut self, number: u16) {
        let address = self.address(number);
        // SAFETY: the masked index lies within the ring (rule 2); the kernel does not read an entry before the tail passes it.
        let entry = unsafe { &mut *self.ring.add(usize::from(self.tail & (BUFFERS - 1))) };
        entry.set_addr(address as u64);
        entry.set_len(BUFFER as u32);
        entry.set_bid(number);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is two aligned bytes of the ring that only this thread writes.
        let tail = unsafe { AtomicU16::from_ptr(types::BufRingEntry::tail(self.ring).cast_mut()) };
        tail.store(self.tail, Ordering::Release);
    }
}

/// What is to be sent back: a part of a buffer.
struct Piece {
    buffer: u16,
    from: u32,
    to: u32,
}

#[derive(Default)]
struct Connection {
    receiving: bool,
    sending: bool,
    over: bool,
    pieces: VecDeque<Piece>,
}

struct Echo {
    ring: IoUring,
    buffers: Buffers,
    connections: Vec<Connection>,
}

/// Echoes on the calling thread until a system call fails that has no reason to.
pub fn serve(listener: &TcpListener) -> io::Result<()> {
    let (ring, buffers) = ring(listener)?;
    let mut echo = Echo { ring, buffers, connections: Vec::new() };
    let accept = opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).allocate_file_index(true);
    let accept = accept.build().user_data(ACCEPT);
    echo.push(&accept)?;
    let mut reaped: Vec<Completion> = Vec::with_capacity(COMPLETIONS as usize);
    loop {
        turn(&mut echo.ring, &mut reaped)?;
        for (name, result, flags) in reaped.drain(..) {
            let index = name as u32;
            match name & !u64::from(u32::MAX) {
                ACCEPT => {
                    if result >= 0 {
                        echo.open(result as u32)?;
                    }
                    if !cqueue::more(flags) {
                        echo.push(&accept)?;
                    }
                }
                RECEIVE => echo.received(index, result, flags)?,
                SEND => echo.sent(index, result)?,
                _ => {}
            }
        }
    }
}

/// A ring with all that makes it fast, and its buffers.
pub(super) fn ring(listener: &TcpListener) -> io::Result<(IoUring, Buffers)> {
    rustix::net::sockopt::set_tcp_nodelay(listener, true)?; // connections inherit it
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_submit_all()
        .setup_no_sqarray()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)?;
    ring.submitter().register_files_sparse(CONNECTIONS)?;
    let mut buffers = Buffers::new();
    // SAFETY: rule 2.
    unsafe { ring.submitter().register_buf_ring_with_flags(buffers.ring as u64, BUFFERS, GROUP, 0)? };
    (0..BUFFERS).for_each(|number| buffers.give(number));
    Ok((ring, buffers))
}

/// What was done: its name, its result, its flags.
pub(super) type Completion = (u64, i32, u32);

/// One call into the kernel: what is queued goes in, what is done comes out.
#[inline(always)]
pub(super) fn turn(ring: &mut IoUring, reaped: &mut Vec<Completion>) -> io::Result<()> {
    let queued = ring.submission().len() as u32;
    // SAFETY: the ring is open, and what was queued names memory that rules 1 and 2 keep.
    let entered = unsafe {
        let ring = BorrowedFd::borrow_raw(ring.as_raw_fd());
        io_uring_enter(ring, queued, 1, IoringEnterFlags::GETEVENTS)
    };
    match entered {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    reaped.extend(ring.completion().map(|done| (done.user_data(), done.result(), done.flags())));
    Ok(())
}

impl Echo {
    #[inline]
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: rules 1 and 2.
        while unsafe { self.ring.submission().push(entry) }.is_err() {
            self.ring.submit()?;
        }
        Ok(())
    }

    fn open(&mut self, index: u32) -> io::Result<()> {
        if self.connections.len() <= index as usize {
            self.connections.resize_with(index as usize + 1, Connection::default);
        }
        self.connections[index as usize] = Connection::default();
        self.step(index)
    }

    fn received(&mut self, index: u32, result: i32, flags: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        connection.receiving = cqueue::more(flags);
        match cqueue::buffer_select(flags) {
            Some(buffer) if result > 0 => {
                connection.pieces.push_back(Piece { buffer, from: 0, to: result as u32 });
            }
            // Out of buffers: again, when some are back.
            _ => connection.over |= result != -Errno::NOBUFS.raw_os_error(),
        }
        self.step(index)
    }

    fn sent(&mut self, index: u32, result: i32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        connection.sending = false;
        connection.over |= result < 0;
        if let Some(piece) = connection.pieces.front_mut() {
            piece.from += result.max(0) as u32;
            if piece.from == piece.to || result < 0 {
                let buffer = piece.buffer;
                connection.pieces.pop_front();
                self.buffers.give(buffer);
            }
        }
        self.step(index)
    }

    /// Sends what waits, receives again, or closes.
    fn step(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        let file = types::Fixed(index);
        if connection.over {
            if !connection.sending && !connection.receiving {
                for piece in std::mem::take(&mut connection.pieces) {
                    self.buffers.give(piece.buffer);
                }
                return self.push(&opcode::Close::new(file).build().user_data(CLOSE | u64::from(index)));
            }
            if connection.receiving && !connection.sending {
                let cancel = opcode::AsyncCancel::new(RECEIVE | u64::from(index)).build();
                return self.push(&cancel.user_data(CLOSE | u64::from(index)));
            }
            return Ok(());
        }
        if !connection.receiving {
            connection.receiving = true;
            let receive = opcode::RecvMulti::new(file, GROUP).build();
            self.push(&receive.user_data(RECEIVE | u64::from(index)))?;
        }
        let connection = &mut self.connections[index as usize];
        if !connection.sending
            && let Some(piece) = connection.pieces.front()
        {
            connection.sending = true;
            let (address, len) = (self.buffers.address(piece.buffer), piece.to - piece.from);
            let send = opcode::Send::new(file, address.wrapping_add(piece.from as usize), len)
                .flags(rustix::net::SendFlags::NOSIGNAL.bits() as i32);
            return self.push(&send.build().user_data(SEND | u64::from(index)));
        }
        Ok(())
    }
}

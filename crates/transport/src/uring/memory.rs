//! What the kernel reads from while a send is under way: held here until it has ended (rule 1 of the module's header).

use super::slot::Descriptor;
use bytes::Bytes;
use io_uring::{opcode, squeue, types};
use netwright_core::{GATHER_PIECES_MAX, Outbound};

/// A peer that is gone is an error to us, not a signal to the process. And no send waits inside the kernel: one for which
/// there is no room ends at once and says so. The kernel's own wait would also be for the peer's end, whether one asks for
/// it or not, so behind that end it tries again and again, for as long as the peer takes nothing.
const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// The bytes of one send.
#[derive(Default)]
pub(super) enum Sending {
    #[default]
    Nothing,
    One(Bytes),
    Many(Box<Gathered>),
    /// At this place in the table of zero-copy sends.
    Elsewhere(u32),
}

/// Pieces that leave together, and the lists that say so to the kernel.
pub(super) struct Gathered {
    pieces: Vec<Bytes>,
    slices: Vec<libc::iovec>,
    header: libc::msghdr,
    bytes: usize,
}

impl Gathered {
    #[allow(unsafe_code)]
    pub(super) fn new() -> Box<Self> {
        // SAFETY: all zeros is a message without address, pieces or control data.
        let header = unsafe { std::mem::zeroed() };
        Box::new(Self { pieces: Vec::new(), slices: Vec::new(), header, bytes: 0 })
    }

    /// Takes the flushed pieces as far as the next file, at most so many bytes of them; the last one is cut there.
    pub(super) fn gather(mut self: Box<Self>, outbound: &Outbound, bytes_max: usize) -> Box<Self> {
        self.clear();
        for piece in outbound.pieces().take(GATHER_PIECES_MAX) {
            let room = bytes_max - self.bytes;
            if room == 0 {
                break;
            }
            let piece = if piece.len() <= room { piece.clone() } else { piece.slice(..room) };
            self.slices
                .push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() });
            self.bytes += piece.len();
            self.pieces.push(piece);
        }
        self.header.msg_iov = self.slices.as_mut_ptr(); // from here on neither list changes until the send has ended
        self.header.msg_iovlen = self.slices.len() as _;
        self
    }

    /// Lets the bytes go and keeps the room.
    pub(super) fn clear(&mut self) {
        self.slices.clear();
        self.pieces.clear();
        self.bytes = 0;
    }
}

impl Sending {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Nothing | Self::Elsewhere(_) => 0,
            Self::One(bytes) => bytes.len(),
            Self::Many(gathered) => gathered.bytes,
        }
    }

    /// The operation that sends this. Its addresses are good while `self` is held, wherever it is moved.
    pub(super) fn entry(&self, fd: Descriptor) -> squeue::Entry {
        let fd = types::Fd(fd);
        match self {
            Self::Nothing | Self::Elsewhere(_) => opcode::Nop::new().build(),
            Self::One(bytes) => opcode::Send::new(fd, bytes.as_ptr(), send_len(bytes)).flags(FLAGS).build(),
            Self::Many(gathered) => {
                opcode::SendMsg::new(fd, &raw const gathered.header).flags(FLAGS as u32).build()
            }
        }
    }

    /// The same without a copy in the kernel.
    pub(super) fn zero_copy_entry(&self, fd: Descriptor) -> squeue::Entry {
        let fd = types::Fd(fd);
        match self {
            Self::Nothing | Self::Elsewhere(_) => opcode::Nop::new().build(),
            Self::One(bytes) => opcode::SendZc::new(fd, bytes.as_ptr(), send_len(bytes)).flags(FLAGS).build(),
            Self::Many(gathered) => {
                opcode::SendMsgZc::new(fd, &raw const gathered.header).flags(FLAGS as u32).build()
            }
        }
    }
}

/// Of what is longer, as much as one operation takes.
fn send_len(bytes: &Bytes) -> u32 {
    const MOST: usize = 1 << 30;
    bytes.len().min(MOST) as u32
}

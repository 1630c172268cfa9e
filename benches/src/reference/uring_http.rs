//! The floor of an HTTP server by completions: the ring of [`uring_echo`](super::uring_echo), and answers of the caller's making.
//!
//! ```text
//!   received ─▶ answered into `next`, the buffer goes back at once ─▶ nothing under way? `next` becomes `out`, and is sent
//! ```
//! Always true, beside the rules of `uring_echo`:
//! 3. `out` is not touched while a send is under way: the kernel reads from it. Connections are not dropped while the ring lives,
//!    and one is not used anew before its sends and receives have ended, and its file has been closed.

use super::uring_echo::{ACCEPT, Buffers, CLOSE, COMPLETIONS, Completion, GROUP, RECEIVE, SEND, ring, turn};
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::io::Errno;
use std::{io, net::TcpListener, os::fd::AsRawFd, slice};

#[derive(Default)]
struct Connection {
    receiving: bool,
    sending: bool,
    over: bool,
    /// The beginning of a request whose end has not come.
    input: Vec<u8>,
    /// What is being sent, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Answers that wait until that is sent.
    next: Vec<u8>,
}

struct Http<F> {
    ring: IoUring,
    buffers: Buffers,
    connections: Vec<Connection>,
    parse: F,
}

/// Serves on the calling thread until a system call fails that has no reason to. `parse` gets what has come, adds an answer for
/// each whole request, and says how many bytes these were; `None` ends the connection.
pub fn serve_with(
    listener: &TcpListener,
    parse: impl FnMut(&[u8], &mut Vec<u8>) -> Option<usize>,
) -> io::Result<()> {
    let (ring, buffers) = ring(listener)?;
    let mut http = Http { ring, buffers, connections: Vec::new(), parse };
    let accept = opcode::AcceptMulti::new(types::Fd(listener.as_raw_fd())).allocate_file_index(true);
    let accept = accept.build().user_data(ACCEPT);
    http.push(&accept)?;
    let mut reaped: Vec<Completion> = Vec::with_capacity(COMPLETIONS as usize);
    loop {
        turn(&mut http.ring, &mut reaped)?;
        for (name, result, flags) in reaped.drain(..) {
            let index = name as u32;
            match name & !u64::from(u32::MAX) {
                ACCEPT => {
                    if result >= 0 {
                        http.open(result as u32)?;
                    }
                    if !cqueue::more(flags) {
                        http.push(&accept)?;
                    }
                }
                RECEIVE => http.received(index, result, flags)?,
                SEND => http.sent(index, result)?,
                _ => {}
            }
        }
    }
}

impl<F: FnMut(&[u8], &mut Vec<u8>) -> Option<usize>> Http<F> {
    #[inline]
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: rules 1 to 3.
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
                // SAFETY: rule 1; the kernel has written that many bytes.
                let bytes = unsafe { slice::from_raw_parts(self.buffers.address(buffer), result as usize) };
                let kept = !connection.input.is_empty();
                if kept {
                    connection.input.extend_from_slice(bytes);
                }
                let from = if kept { &connection.input } else { bytes };
                match (self.parse)(from, &mut connection.next) {
                    Some(used) if kept => drop(connection.input.drain(..used)),
                    Some(used) => connection.input.extend_from_slice(&bytes[used..]),
                    None => connection.over = true,
                }
                self.buffers.give(buffer);
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
        connection.sent += result.max(0) as usize;
        self.step(index)
    }

    /// Sends what waits, receives again, or closes.
    fn step(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        let file = types::Fixed(index);
        if connection.over {
            let last = match (connection.sending, connection.receiving) {
                (true, _) => return Ok(()),
                (false, true) => opcode::AsyncCancel::new(RECEIVE | u64::from(index)).build(),
                (false, false) => opcode::Close::new(file).build(),
            };
            return self.push(&last.user_data(CLOSE | u64::from(index)));
        }
        let receive = !connection.receiving;
        connection.receiving = true;
        if !connection.sending {
            if connection.sent == connection.out.len() {
                connection.out.clear();
                connection.sent = 0;
                std::mem::swap(&mut connection.out, &mut connection.next);
            }
            let rest = &connection.out[connection.sent..];
            if !rest.is_empty() {
                connection.sending = true;
                let send = opcode::Send::new(file, rest.as_ptr(), rest.len() as u32)
                    .flags(rustix::net::SendFlags::NOSIGNAL.bits() as i32);
                self.push(&send.build().user_data(SEND | u64::from(index)))?;
            }
        }
        if receive {
            let receive = opcode::RecvMulti::new(file, GROUP).build();
            self.push(&receive.user_data(RECEIVE | u64::from(index)))?;
        }
        Ok(())
    }
}

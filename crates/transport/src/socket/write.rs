//! What leaves a channel: one piece by `send`, several by one `writev`, a file by `sendfile`.

use super::{calls, stream::SocketKind};
use crate::stream::{Wrote, fail_file, open_envelope};
use netwright_core::{GATHER_PIECES_MAX, GatherCap, Outbound};
use socket2::Socket;
use std::io::{self, IoSlice};

/// System calls for one flush before other channels of the loop get their turn.
const WRITE_SPINS: usize = 16;

/// Pieces that are gathered without clearing a large array on the stack first.
const FEW: usize = 64;

/// Where bytes go: what differs between sockets and pipes.
pub(crate) trait Sink {
    /// One piece.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;

    /// Several, by one system call.
    fn send_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// The file or the envelope at the front. Returns how much was offered and how much was taken.
    fn send_other(&self, outbound: &mut Outbound) -> io::Result<(usize, usize)>;
}

/// A socket, TCP or Unix.
pub(crate) struct SocketSink<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) kind: &'a SocketKind,
}

impl Sink for SocketSink<'_> {
    #[inline(always)] // the system call in it too: see `return_stack`
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        calls::send(self.socket, bytes)
    }

    #[inline(always)]
    fn send_pieces(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        calls::send_pieces(self.socket, pieces)
    }

    #[inline(never)]
    fn send_other(&self, outbound: &mut Outbound) -> io::Result<(usize, usize)> {
        match outbound.first_file() {
            Some(_) => write_file(self.socket, outbound),
            None => write_envelope(self.socket, outbound, self.kind),
        }
    }
}

/// Sends what is flushed, as far as it is taken.
#[inline(always)] // with its system call: see `return_stack`
pub(crate) fn write_flushed(
    sink: &impl Sink,
    outbound: &mut Outbound,
    cap: &mut GatherCap,
) -> io::Result<Wrote> {
    for _ in 0..WRITE_SPINS {
        if !outbound.has_flushed() {
            return Ok(Wrote::All);
        }
        let (attempted, written) = match write_once(sink, outbound, cap.get()) {
            Ok(done) => done,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Wrote::Blocked),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        outbound.advance(written);
        if attempted > 0 {
            cap.record(attempted, written);
            if written < attempted {
                return Ok(Wrote::Blocked); // a short write: the socket will say when there is room
            }
        }
    }
    Ok(if outbound.has_flushed() { Wrote::Enough } else { Wrote::All })
}

/// One system call. Returns how much was offered and how much was taken.
#[inline(always)]
fn write_once(sink: &impl Sink, outbound: &mut Outbound, bytes_max: usize) -> io::Result<(usize, usize)> {
    let Some(bytes) = outbound.first_bytes() else { return sink.send_other(outbound) };
    match outbound.len() {
        0 | 1 => Ok((bytes.len(), sink.send(bytes)?)),
        2..=FEW => gather::<_, FEW>(sink, outbound, bytes_max),
        _ => gather::<_, GATHER_PIECES_MAX>(sink, outbound, bytes_max),
    }
}

#[inline(never)]
fn gather<S: Sink, const N: usize>(
    sink: &S,
    outbound: &Outbound,
    bytes_max: usize,
) -> io::Result<(usize, usize)> {
    let mut slices = [IoSlice::new(&[]); N];
    let gathered = outbound.gather(&mut slices, bytes_max);
    let written = sink.send_pieces(&slices[..gathered.pieces])?;
    Ok((gathered.bytes, written))
}

/// Envelopes without descriptors, and those that cannot be sent, need no system call.
fn write_envelope(socket: &Socket, outbound: &mut Outbound, kind: &SocketKind) -> io::Result<(usize, usize)> {
    #[cfg(unix)]
    if kind.is_unix() && outbound.first_envelope().is_some_and(|envelope| !envelope.descriptors.is_empty()) {
        return super::unix::send_envelope(socket, outbound);
    }
    let _ = socket;
    open_envelope(outbound, if kind.is_unix() { "this Unix channel" } else { "a TCP channel" });
    Ok((0, 0))
}

/// The most that one `sendfile` may take, so that one file does not hold up a loop.
const FILE_CHUNK: usize = 1 << 20;

#[inline(never)]
fn write_file(socket: &Socket, outbound: &mut Outbound) -> io::Result<(usize, usize)> {
    let Some(region) = outbound.first_file() else { return Ok((0, 0)) };
    let want = usize::try_from(region.remaining()).unwrap_or(usize::MAX).min(FILE_CHUNK);
    match send_file(socket, region, want) {
        Ok(0) => {
            let error = region.ended_early();
            fail_file(outbound, error).map(|()| (0, 0))
        }
        Ok(written) => Ok((written, written)), // short for many reasons: only WouldBlock tells that the socket is full
        Err(FileError::Socket(error)) => Err(error),
        Err(FileError::File(error)) => fail_file(outbound, error).map(|()| (0, 0)),
    }
}

enum FileError {
    File(io::Error),
    Socket(io::Error),
}

#[cfg(target_os = "linux")]
fn send_file(socket: &Socket, region: &netwright_core::FileRegion, want: usize) -> Result<usize, FileError> {
    let mut offset = region.position();
    match rustix::fs::sendfile(socket, region.file(), Some(&mut offset), want) {
        Ok(written) => Ok(written),
        Err(error) if concerns_the_connection(error) => Err(FileError::Socket(error.into())),
        // Not every file system can do this; or the file failed, and does so again; or it was the connection after all.
        // Whichever it is: one call for each of them tells.
        Err(_) => copy_file(socket, region, want),
    }
}

/// Whether it is certain which of the two failed. A connection tells of its end once, so it is not asked again.
#[cfg(target_os = "linux")]
fn concerns_the_connection(error: rustix::io::Errno) -> bool {
    use rustix::io::Errno;
    matches!(
        error,
        Errno::AGAIN
            | Errno::INTR
            | Errno::PIPE
            | Errno::CONNRESET
            | Errno::CONNABORTED
            | Errno::CONNREFUSED
            | Errno::NOTCONN
            | Errno::TIMEDOUT
            | Errno::NETDOWN
            | Errno::NETUNREACH
            | Errno::NETRESET
            | Errno::HOSTDOWN
            | Errno::HOSTUNREACH
    )
}

#[cfg(not(target_os = "linux"))]
fn send_file(socket: &Socket, region: &netwright_core::FileRegion, want: usize) -> Result<usize, FileError> {
    copy_file(socket, region, want)
}

fn copy_file(socket: &Socket, region: &netwright_core::FileRegion, want: usize) -> Result<usize, FileError> {
    let chunk = region.read_chunk(want.min(64 * 1024)).map_err(FileError::File)?;
    calls::send(socket, &chunk).map_err(FileError::Socket)
}

//! Load for a UDP echo server: a window of numbered datagrams from each of several sockets, sent and received in batches
//! by one thread that never sleeps.
//!
//! Every answer is compared with what was asked. A datagram that does not come back in time is counted as lost and the
//! window starts anew: loopback loses only what no buffer had room for, so on a healthy machine none is.

#![allow(unsafe_code)]

use std::{
    io, mem,
    net::{SocketAddr, UdpSocket},
    os::fd::AsRawFd,
    ptr,
    time::{Duration, Instant},
};

/// After this time a datagram is lost.
const LOST: Duration = Duration::from_millis(200);

/// What a run came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Run {
    /// Datagrams that came back.
    pub requests: u64,
    /// Datagrams that did not.
    pub lost: u64,
    /// How long it took.
    pub time: Duration,
}

/// Sockets that talk to one server.
pub struct UdpLoad {
    sockets: Vec<Lane>,
}

struct Lane {
    socket: UdpSocket,
    /// The number of the window's first datagram.
    number: u64,
    back: usize,
    sent: Vec<Vec<u8>>,
    room: Vec<Vec<u8>>,
    since: Instant,
}

impl UdpLoad {
    /// `sockets` of them, each with `window` datagrams of `length` bytes on their way.
    pub fn connect(server: SocketAddr, sockets: usize, window: usize, length: usize) -> Self {
        assert!(length >= 8, "a datagram holds its number");
        let lane = |_| {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
            socket.connect(server).expect("loopback is there");
            socket.set_nonblocking(true).expect("every socket can");
            let buffers = || vec![vec![0x5a; length]; window];
            Lane { socket, number: 0, back: window, sent: buffers(), room: buffers(), since: Instant::now() }
        };
        Self { sockets: (0..sockets).map(lane).collect() }
    }

    /// Keeps the server busy for so long, then waits for what is on its way.
    pub fn run(&mut self, time: Duration) -> Run {
        let (start, mut run) = (Instant::now(), Run::default());
        loop {
            let going = start.elapsed() < time;
            let mut waiting = false;
            for lane in &mut self.sockets {
                if lane.back == lane.sent.len() && going {
                    lane.send();
                }
                lane.receive(&mut run);
                waiting |= lane.back < lane.sent.len();
            }
            if !going && !waiting {
                run.time = start.elapsed();
                return run;
            }
        }
    }
}

impl Lane {
    fn send(&mut self) {
        self.number += self.sent.len() as u64;
        for (at, datagram) in self.sent.iter_mut().enumerate() {
            datagram[..8].copy_from_slice(&(self.number + at as u64).to_be_bytes());
        }
        (self.back, self.since) = (0, Instant::now());
        let mut done = 0;
        while done < self.sent.len() {
            done += with_headers(&mut self.sent[done..], |headers| {
                // SAFETY: every header points to a datagram of the stated length, borrowed for this call.
                unsafe {
                    libc::sendmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), headers.len() as u32, 0)
                }
            })
            .unwrap_or_else(|error| panic!("the load cannot send: {error}"));
        }
    }

    fn receive(&mut self, run: &mut Run) {
        if self.back == self.sent.len() {
            return;
        }
        let left = self.sent.len() - self.back;
        let received = with_headers(&mut self.room[..left], |headers| {
            // SAFETY: as above.
            unsafe {
                let count = headers.len() as u32;
                libc::recvmmsg(self.socket.as_raw_fd(), headers.as_mut_ptr(), count, 0, ptr::null_mut())
            }
        })
        .unwrap_or_else(|error| panic!("the load cannot receive: {error}"));
        for room in &self.room[..received] {
            let number = u64::from_be_bytes(room[..8].try_into().expect("eight bytes"));
            if number < self.number {
                continue; // late, and counted as lost
            }
            assert!(*room == self.sent[(number - self.number) as usize], "the answer is not what was asked");
            self.back += 1;
            run.requests += 1;
        }
        if received == 0 && self.since.elapsed() > LOST {
            run.lost += left as u64;
            self.back = self.sent.len();
        }
    }
}

/// Calls the system with a header for each buffer. How many it took; none if it would block.
fn with_headers(
    buffers: &mut [Vec<u8>],
    call: impl FnOnce(&mut [libc::mmsghdr]) -> libc::c_int,
) -> io::Result<usize> {
    let mut pieces: Vec<libc::iovec> = buffers
        .iter_mut()
        .map(|buffer| libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() })
        .collect();
    let mut headers: Vec<libc::mmsghdr> = pieces
        .iter_mut()
        .map(|piece| {
            // SAFETY: a struct of integers and raw pointers, for which all zeroes is a valid value.
            let mut header: libc::mmsghdr = unsafe { mem::zeroed() };
            header.msg_hdr.msg_iov = piece;
            header.msg_hdr.msg_iovlen = 1;
            header
        })
        .collect();
    match usize::try_from(call(&mut headers)) {
        Ok(done) => Ok(done),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            error => Err(error),
        },
    }
}

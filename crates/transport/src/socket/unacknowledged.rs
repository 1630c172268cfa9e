//! How much of what was sent a peer has not acknowledged.

use socket2::Socket;
use std::io;

/// How many bytes of a connection, its end included, the peer's system has not acknowledged.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[allow(unsafe_code)]
pub(crate) fn unacknowledged(socket: &Socket) -> io::Result<usize> {
    use rustix::ioctl::{Getter, Opcode, ioctl};
    // SIOCOUTQ of a socket is the same number as this one of a terminal.
    const BYTES_OUT: Opcode = libc::TIOCOUTQ as Opcode;
    // SAFETY: this request takes no input and writes one `int`, to which the getter gives room. No other kind of descriptor takes it
    // for something else.
    let bytes = unsafe { ioctl(socket, Getter::<BYTES_OUT, libc::c_int>::new()) }?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Nobody tells. A peer that has ended as well has seen our end, and everything before it.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn unacknowledged(socket: &Socket) -> io::Result<usize> {
    match socket.peek(&mut [std::mem::MaybeUninit::uninit()]) {
        Ok(0) => Ok(0),
        Ok(_) => Ok(1),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(1),
        Err(error) => Err(error),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use socket2::SockRef;
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
    };

    #[test]
    fn what_the_peer_has_not_read_beyond_its_window_and_our_end_are_counted_until_it_has_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        SockRef::from(&listener).set_recv_buffer_size(4096).unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let sent = [7; 60_000];
        near.write_all(&sent).unwrap();
        near.shutdown(Shutdown::Write).unwrap();
        assert!(unacknowledged(&SockRef::from(&near)).unwrap() > 1);
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        assert_eq!(got, sent);
        // The last acknowledgement may be a moment behind.
        while unacknowledged(&SockRef::from(&near)).unwrap() > 0 {
            std::thread::yield_now();
        }
    }
}

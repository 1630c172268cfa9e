//! An address where nobody answers.

use socket2::{Domain, Socket, Type};
use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
};

/// An address where a connect is neither answered nor refused: the queue of a listener that nobody serves is full, and
/// the system lets further attempts wait.
///
/// ```
/// use netwright_testkit::hostile::Unanswering;
///
/// let nobody = Unanswering::new()?;
/// assert!(nobody.addr().ip().is_loopback());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Unanswering {
    addr: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Unanswering {
    /// Takes a free port of this machine.
    ///
    /// # Errors
    /// The system has no port for it.
    pub fn new() -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into())?;
        socket.listen(1)?;
        let listener = TcpListener::from(socket);
        let addr = listener.local_addr()?;
        // Linux lets one more wait than asked for.
        let waiting = (0..2).map(|_| TcpStream::connect(addr)).collect::<io::Result<_>>()?;
        Ok(Self { addr, _listener: listener, _waiting: waiting })
    }

    /// Where to connect to in vain.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

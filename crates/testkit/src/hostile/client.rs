//! Clients that attack a server, and honest ones that are served meanwhile.
//!
//! ```text
//!   seed ─▶ script ─▶ requests, frames ─▶ mutated? ─▶ cut where? ─▶ at once, in pieces, in drips ─▶ FIN, RST, close, silence
//!                     at once: so many connections; reading: all, slowly, nothing
//!   honest clients ask all the while: replies are right, and in order
//! ```
//! A [`Siege`] is what is left of an attack: connections that were silent to the end, which the server has to end by itself.
//! So whoever runs it looks at the server's open channels first, and drops the siege then.
//!
//! | file | what it is |
//! | --- | --- |
//! | `script` | what is sent, and how, by the numbers of a seed |
//! | `honest` | a client that checks every byte of its replies |
//! | `socket` | WebSocket as both of them speak it |
//! | `http2` | HTTP/2 as both of them speak it |
//!
//! Plain sockets of the standard library; what is put around them, such as TLS, is the caller's.

mod honest;
mod http2;
mod script;
mod socket;

use crate::verify::Numbers;
use script::{Ending, Plan, Reading};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// A connection, with whatever is around it.
pub trait Link: Read + Write + Send {
    /// The socket below.
    fn socket(&self) -> &TcpStream;
}

impl Link for TcpStream {
    fn socket(&self) -> &TcpStream {
        self
    }
}

/// Puts something around a connection: TLS.
pub type Wrap = Arc<dyn Fn(TcpStream) -> io::Result<Box<dyn Link>> + Send + Sync>;

/// What a server is asked for, and what it has to answer.
#[derive(Debug, Clone, Default)]
pub struct Site {
    /// Paths, and the bodies of the replies. Of two at least one should be more than systems keep unread.
    pub pages: Vec<(String, Arc<[u8]>)>,
    /// A path whose replies have the bodies of their requests.
    pub echo: Option<String>,
    /// A path that becomes a WebSocket, which sends every message back.
    pub socket: Option<String>,
    /// Whether HTTP/2 is spoken as well, by who begins as its clients do.
    pub http2: bool,
}

/// Whom to attack.
#[derive(Clone)]
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it serves.
    pub site: Arc<Site>,
    /// What is spoken below, if anything.
    pub wrap: Option<Wrap>,
}

/// Hostile connections of one attack, and how many of them at once.
const CONNECTIONS: usize = 40;
const AT_ONCE: usize = 8;
/// How long a call may take before its connection is left to itself.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a hostile client reads to the end.
const READING_MAX: Duration = Duration::from_secs(5);
/// Pieces that a stream is cut into.
const PIECES_MAX: usize = 200;
/// Between two connections of an honest client.
const BETWEEN: Duration = Duration::from_millis(20);
/// How often an honest client may be cut off before that counts: on a busy machine it may be as slow as a hostile one.
const TRIES: usize = 5;

/// What is left of an attack.
pub struct Siege {
    /// Connections that are open on our side, and on which nothing happens any more.
    pub held: Vec<Box<dyn Link>>,
    /// Exchanges of honest clients that went as they should.
    pub honest: usize,
}

impl std::fmt::Debug for Siege {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Siege").field("held", &self.held.len()).field("honest", &self.honest).finish()
    }
}

/// Attacks a server by the script of a seed, while honest clients are served, and asks once more afterwards.
///
/// # Errors
/// What an honest client got that it should not have, or did not get.
pub fn attack(target: &Target, seed: u64) -> Result<Siege, String> {
    let (next, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let held: Mutex<Vec<Box<dyn Link>>> = Mutex::default();
    let honest = thread::scope(|scope| {
        let honest = scope.spawn(|| {
            let mut numbers = Numbers::new(!seed);
            let mut done = 0;
            while done < 3 || !over.load(Ordering::Acquire) {
                done += ask(target, &mut numbers)?;
                thread::sleep(BETWEEN);
            }
            Ok::<usize, String>(done)
        });
        let hostile = || {
            while let number @ 0..CONNECTIONS = next.fetch_add(1, Ordering::Relaxed) {
                let mut numbers = Numbers::new(seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
                let left = misbehave(target, &mut numbers);
                held.lock().unwrap_or_else(PoisonError::into_inner).extend(left);
            }
        };
        let attackers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(hostile)).collect();
        let ended = attackers.into_iter().all(|attacker| attacker.join().is_ok());
        over.store(true, Ordering::Release);
        assert!(ended, "an attacker has failed by itself");
        honest.join().unwrap_or_else(|_| Err("the honest client has failed by itself".to_owned()))
    })?;
    let after = ask(target, &mut Numbers::new(seed))?;
    let held = held.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Siege { held, honest: honest + after })
}

/// One connection of an honest client.
fn ask(target: &Target, numbers: &mut Numbers) -> Result<usize, String> {
    let mut cut = String::new();
    for _ in 0..TRIES {
        let mut again = numbers.clone();
        let link = dial(target, false).and_then(|socket| wrap(target, socket));
        let asked = match link {
            Ok(mut link) => honest::converse(&mut *link, &target.site, &mut again),
            Err(error) => Err(honest::Failure::Cut(format!("no connection: {error}"))),
        };
        match asked {
            Ok(exchanges) => {
                *numbers = again;
                return Ok(exchanges);
            }
            Err(honest::Failure::Wrong(what)) => return Err(what),
            Err(honest::Failure::Cut(what)) => cut = what,
        }
    }
    Err(format!("an honest client was cut off {TRIES} times, at last so: {cut}"))
}

/// A connection. A narrow one keeps little of what is not read.
fn dial(target: &Target, narrow: bool) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target.address), Type::STREAM, None)?;
    if narrow {
        socket.set_recv_buffer_size(4096)?;
    }
    socket.connect_timeout(&target.address.into(), PATIENCE)?;
    socket.set_tcp_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket.into())
}

fn wrap(target: &Target, socket: TcpStream) -> io::Result<Box<dyn Link>> {
    match &target.wrap {
        Some(wrap) => wrap(socket),
        None => Ok(Box::new(socket)),
    }
}

/// One connection of a hostile client; it is given back if it is to be held.
fn misbehave(target: &Target, numbers: &mut Numbers) -> Option<Box<dyn Link>> {
    let Plan { bytes, pieces, reading, ending, bare } = script::plan(numbers, &target.site);
    let socket = dial(target, reading != Reading::All).ok()?;
    // Without what belongs around it, its bytes are only noise to the server.
    let mut link = if bare { Box::new(socket) } else { wrap(target, socket).ok()? };
    // A server that does not read any more is not waited for: that is its way of being left alone.
    let _ = link.socket().set_write_timeout(Some(Duration::from_millis(300)));
    let (mut rest, mut sent) = (&bytes[..], 0);
    while !rest.is_empty() {
        sent += 1;
        // What is left behind many pieces is one: the interesting places are where things begin.
        let len =
            if sent > PIECES_MAX { rest.len() } else { (1 + numbers.below(pieces.max)).min(rest.len()) };
        if link.write_all(&rest[..len]).and_then(|()| link.flush()).is_err() {
            break;
        }
        rest = &rest[len..];
        read_some(&mut *link, reading);
        if !pieces.pause.is_zero() {
            thread::sleep(pieces.pause);
        }
    }
    match ending {
        Ending::Silence => return Some(link),
        Ending::Close => {}
        Ending::Reset => _ = SockRef::from(link.socket()).set_linger(Some(Duration::ZERO)),
        Ending::Finish => {
            let _ = link.socket().shutdown(Shutdown::Write);
            if reading != Reading::All || !read_to_end(&mut *link) {
                return Some(link);
            }
        }
    }
    None
}

/// Takes what is there, or a little of it.
fn read_some(link: &mut dyn Link, reading: Reading) {
    let room = match reading {
        Reading::Nothing => return,
        Reading::Slowly => 10,
        Reading::All => 64 * 1024,
    };
    let _ = link.socket().set_read_timeout(Some(Duration::from_millis(1)));
    let _ = link.read(&mut vec![0; room]);
}

/// Takes everything. False: there is no end to it.
fn read_to_end(link: &mut dyn Link) -> bool {
    let _ = link.socket().set_read_timeout(Some(Duration::from_millis(100)));
    let (begun, mut room) = (Instant::now(), vec![0; 64 * 1024]);
    while begun.elapsed() < READING_MAX {
        match link.read(&mut room) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return true,
        }
    }
    false
}

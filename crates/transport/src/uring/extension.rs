//! What sources call: the safe side of a ring.

use super::{
    UringFigures,
    engine::Engine,
    memory::Sending,
    slot::{Connecting, End, Key, Kind, Role, Stream, gone},
};
use crate::readiness::{Readiness, not_registered, registered_already};
use bytes::BytesMut;
use mio::Interest;
use netwright_core::{Outbound, driver::Token};
use socket2::{SockAddr, Socket};
use std::{
    cell::{RefCell, RefMut},
    collections::HashMap,
    fmt, io,
    os::fd::{AsFd, AsRawFd, RawFd},
    rc::Rc,
};

/// The ring of a loop, as its sources see it: found with [`LocalLoop::driver`](netwright_core::LocalLoop::driver).
///
/// Connections, listeners and connects use it by themselves. A source of your own can have a descriptor watched, as with
/// [`Readiness`](crate::Readiness).
///
/// ```
/// use netwright_core::LocalLoop;
/// use netwright_transport::uring::Uring;
///
/// /// Whether the code that asks runs on a loop with a ring.
/// fn on_a_ring() -> bool {
///     LocalLoop::current().is_some_and(|local| local.driver::<Uring>().is_some())
/// }
/// assert!(!on_a_ring(), "this is no loop's thread");
/// ```
pub struct Uring {
    /// `None` once the driver has left this thread.
    engine: RefCell<Option<Engine>>,
    /// Descriptors that are watched for sources of their own.
    watched: RefCell<HashMap<RawFd, Key>>,
    /// The same for sources that know no ring.
    readiness: Rc<Readiness>,
}

/// A descriptor that is not the ring's: the events of `poll`, told once for each time that they come up.
impl Uring {
    /// Has the loop told when `source` becomes ready. It must be [deregistered](Self::deregister) before it is closed.
    ///
    /// # Errors
    /// `AlreadyExists` if it is registered; `NotConnected` if the driver has left this thread.
    pub fn register(&self, source: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        let fd = source.as_fd().as_raw_fd();
        let mut watched = self.watched.borrow_mut();
        if watched.contains_key(&fd) {
            return Err(registered_already(fd));
        }
        let mut events = libc::POLLRDHUP as u32;
        if interest.is_readable() {
            events |= libc::POLLIN as u32;
        }
        if interest.is_writable() {
            events |= libc::POLLOUT as u32;
        }
        if interest.is_priority() {
            events |= libc::POLLPRI as u32;
        }
        let key = self.with(|engine| {
            let key = engine.insert(token, None, Role::Watched(fd, events));
            engine.mark(key);
            Ok(key)
        })?;
        watched.insert(fd, key);
        Ok(())
    }

    /// Changes what a registered source wants to hear about, and under which token. What is possible now is told anew.
    ///
    /// # Errors
    /// `NotFound` if it is not registered.
    pub fn reregister(&self, source: &impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        self.deregister(source)?;
        self.register(source, token, interest)
    }

    /// Stops telling about `source`.
    ///
    /// # Errors
    /// `NotFound` if it is not registered.
    pub fn deregister(&self, source: &impl AsFd) -> io::Result<()> {
        let fd = source.as_fd().as_raw_fd();
        let key = self.watched.borrow_mut().remove(&fd).ok_or_else(|| not_registered(fd))?;
        self.close(key);
        Ok(())
    }

    /// For sources that were written for readiness and know no ring.
    pub fn readiness(&self) -> Rc<Readiness> {
        self.readiness.clone()
    }

    /// How many descriptors are registered here.
    pub(crate) fn watched(&self) -> usize {
        self.watched.borrow().len()
    }

    /// What the ring has done, and what it holds.
    pub fn figures(&self) -> UringFigures {
        self.engine.borrow_mut().as_mut().map_or_else(UringFigures::default, Engine::figures)
    }

    /// How the kernel runs this ring, in words.
    pub fn mode(&self) -> &'static str {
        self.engine.borrow().as_ref().map_or("gone", Engine::mode)
    }
}

/// What there is to be received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// These bytes, and whether there may be more, or the end.
    Piece(BytesMut, bool),
    /// The peer sends no more.
    End,
    /// So much comes that the source is to receive by itself.
    Look,
}

/// Streams.
impl Uring {
    pub(super) fn zero_copy_from(&self) -> usize {
        self.engine.borrow().as_ref().map_or(usize::MAX, Engine::zero_copy_from)
    }

    /// Takes in a connected socket. Nothing is received before [`wants_read`](Self::wants_read).
    pub(super) fn add_stream(&self, socket: Socket, token: Token) -> io::Result<Key> {
        self.with(|engine| {
            let key = engine.insert(token, Some(socket), Role::Stream(Stream::default()));
            engine.mark(key);
            Ok(key)
        })
    }

    /// What has arrived.
    #[inline]
    pub(super) fn receive(&self, key: Key) -> io::Result<Arrival> {
        self.with(|engine| engine.receive(key))
    }

    /// The source has received by itself and found the end, or an error.
    pub(super) fn set_end(&self, key: Key, code: Option<i32>) {
        let _ = self.with_stream(key, |stream| {
            stream.end = Some(code.map_or(End::Closed, End::Failed));
            stream.end_told = code.is_some(); // behind an end in order a reset may still come
            Ok(((), true))
        });
    }

    /// Little comes by now: the ring receives again.
    pub(super) fn leave_bulk(&self, key: Key) {
        let _ = self.with_stream(key, |stream| {
            stream.bulk = false;
            Ok(((), true))
        });
    }

    /// Whether the peer has gone and nothing is left to be received here. `None`: the socket knows.
    pub(super) fn has_ended(&self, key: Key) -> io::Result<Option<bool>> {
        self.with(|engine| {
            let slot = engine.slot(key).ok_or_else(gone)?;
            let receiving = slot.flying.has(Kind::Receive);
            let stream = slot.stream()?;
            match stream.end {
                _ if !stream.inbox.is_nowhere() => Ok(Some(false)),
                Some(End::Closed) => Ok(Some(true)),
                Some(End::Failed(code)) => Err(io::Error::from_raw_os_error(code)),
                None if receiving => Ok(Some(false)), // what it has taken may not be reaped yet; it will tell
                None => Ok(None),
            }
        })
    }

    /// Whether the source wants bytes. Takes effect when the turn ends, so wanting again at once costs nothing.
    pub(super) fn wants_read(&self, key: Key, wants: bool) {
        let _ = self.with_stream(key, |stream| {
            stream.wants_read = wants;
            if wants && stream.end.is_none() {
                stream.end_told = false;
            }
            Ok(((), true))
        });
    }

    /// Queues a send of what is flushed, unless one is under way. Returns how much that is.
    pub(super) fn send(&self, key: Key, outbound: &Outbound, bytes_max: usize) -> io::Result<usize> {
        self.with(|engine| {
            let slot = engine.slot(key).ok_or_else(gone)?;
            if slot.flying.has(Kind::Send) {
                return Ok(0);
            }
            let memory = match (outbound.len(), outbound.first_bytes()) {
                (1, Some(bytes)) => Sending::One(bytes.clone()),
                _ => Sending::Many(engine.take_gathered().gather(outbound, bytes_max)),
            };
            let offered = memory.len();
            engine.send(key, memory);
            Ok(offered)
        })
    }

    /// Waits for room to send more by oneself; it ends like a send that took nothing.
    pub(super) fn wait_for_room(&self, key: Key) -> io::Result<()> {
        self.with(|engine| {
            let slot = engine.slot(key).ok_or_else(gone)?;
            let watches = slot.flying.has(Kind::Room);
            slot.stream()?.waits_for_room = true;
            if !watches {
                engine.start(key, Kind::Room); // lasts, for the next time; if not, it is started again
            }
            Ok(())
        })
    }

    /// Whether a send has found no room, or room is waited for without one.
    pub(super) fn waits_for_room(&self, key: Key) -> bool {
        self.with_stream(key, |stream| Ok((stream.waits_for_room, false))).unwrap_or(false)
    }

    /// How many bytes the last send took, if it has ended and was not asked about since.
    #[inline]
    pub(super) fn sent(&self, key: Key) -> io::Result<Option<usize>> {
        self.with_stream(key, |stream| match stream.sent.take() {
            None => Ok((None, false)),
            Some(taken @ 0..) => Ok((Some(taken as usize), false)),
            Some(error) => match -error {
                libc::ECANCELED | libc::EINTR | libc::EAGAIN => Ok((Some(0), false)),
                code => Err(io::Error::from_raw_os_error(code)),
            },
        })
    }

    /// Whether a send is under way, or its end is about to be told: an event will come, and soon, because no send waits
    /// inside the kernel. What the socket does not take at once is not sent.
    pub(super) fn finish_sending(&self, key: Key) -> bool {
        let result = self.with(|engine| {
            let slot = engine.slot(key).ok_or_else(gone)?;
            let flies = slot.flying.has(Kind::Send);
            let stream = slot.stream()?;
            stream.closing = true;
            Ok(flies || stream.sent.is_some())
        });
        result.unwrap_or(false)
    }
}

/// Listeners.
impl Uring {
    pub(super) fn add_listener(&self, socket: Socket, token: Token) -> io::Result<Key> {
        self.with(|engine| Ok(engine.insert(token, Some(socket), Role::Listener(Box::default()))))
    }

    /// Whether connections are accepted. Takes effect when the turn ends. Forgets an error.
    pub(super) fn wants_accept(&self, key: Key, wants: bool) {
        let _ = self.with(|engine| {
            if let Role::Listener(listener) = &mut engine.slot(key).ok_or_else(gone)?.role {
                listener.wants = wants;
                listener.error = None;
            }
            engine.mark(key);
            Ok(())
        });
    }

    /// Accepts again after a rest.
    pub(super) fn go_on_accepting(&self, key: Key) {
        let resting = self.with(|engine| match &engine.slot(key).ok_or_else(gone)?.role {
            Role::Listener(listener) => Ok(!listener.wants),
            _ => Ok(false),
        });
        if resting.unwrap_or(false) {
            self.wants_accept(key, true);
        }
    }

    /// The next connection that was accepted, or why there are no more.
    pub(super) fn accepted(&self, key: Key) -> Option<io::Result<Socket>> {
        let mut engine = self.engine.borrow_mut();
        let engine = engine.as_mut()?;
        let Role::Listener(listener) = &mut engine.slot(key)?.role else { return None };
        let next = listener.accepted.pop_front().map(Ok);
        let (empty, error) = (listener.accepted.is_empty(), listener.error);
        if empty {
            engine.mark(key);
        }
        next.or_else(|| error.map(|code| Err(io::Error::from_raw_os_error(code))))
    }
}

/// Connects.
impl Uring {
    /// Begins to connect a socket.
    pub(super) fn add_connect(&self, socket: Socket, address: SockAddr, token: Token) -> io::Result<Key> {
        self.with(|engine| {
            let connecting = Connecting { address: Box::new(address), begun: false, result: None };
            let key = engine.insert(token, Some(socket), Role::Connecting(connecting));
            engine.start(key, Kind::Connect);
            Ok(key)
        })
    }

    /// The socket, once it is connected, or why it is not. The registration ends with the answer.
    pub(super) fn connected(&self, key: Key) -> Option<io::Result<Socket>> {
        let mut engine = self.engine.borrow_mut();
        let engine = engine.as_mut()?;
        let Role::Connecting(connecting) = &engine.slot(key)?.role else { return None };
        let (result, begun) = (connecting.result?, connecting.begun);
        let socket = engine.take_socket(key)?;
        if result < 0 {
            return Some(Err(io::Error::from_raw_os_error(-result)));
        }
        if begun && let Ok(Some(error)) | Err(error) = socket.take_error() {
            return Some(Err(error)); // only its end was waited for, whatever that was
        }
        Some(Ok(socket))
    }
}

/// All of them.
impl Uring {
    pub(super) fn new(engine: Engine) -> Rc<Self> {
        Rc::new_cyclic(|ring| Self {
            engine: RefCell::new(Some(engine)),
            watched: RefCell::default(),
            readiness: Rc::new(Readiness::of_ring(ring.clone())),
        })
    }

    /// Ends a registration and closes its descriptor, behind everything that was queued for it.
    pub(super) fn close(&self, key: Key) {
        let _ = self.with(|engine| {
            engine.close(key);
            Ok(())
        });
    }

    /// Lets a call look at the socket itself.
    pub(super) fn socket<T>(&self, key: Key, look: impl FnOnce(&Socket) -> io::Result<T>) -> io::Result<T> {
        self.with(|engine| {
            let slot = engine.slot(key).ok_or_else(gone)?;
            look(slot.socket.as_ref().ok_or_else(gone)?)
        })
    }

    /// The descriptor of a registration, which keeps it open.
    #[inline]
    pub(super) fn descriptor(&self, key: Key) -> io::Result<RawFd> {
        self.with(|engine| Ok(engine.slot(key).ok_or_else(gone)?.descriptor()))
    }

    /// Runs `act` with the engine; what nobody needs any more is dropped after it.
    #[inline]
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut Engine) -> io::Result<T>) -> io::Result<T> {
        let mut engine = self.engine.borrow_mut();
        act(engine.as_mut().ok_or_else(gone)?)
    }

    #[inline]
    fn with_stream<T>(
        &self,
        key: Key,
        act: impl FnOnce(&mut Stream) -> io::Result<(T, bool)>,
    ) -> io::Result<T> {
        self.with(|engine| {
            let (value, mark) = act(engine.slot(key).ok_or_else(gone)?.stream()?)?;
            if mark {
                engine.mark(key);
            }
            Ok(value)
        })
    }

    /// The engine, if there is one and nobody has it at the moment.
    pub(super) fn engine(&self) -> Option<RefMut<'_, Engine>> {
        RefMut::filter_map(self.engine.try_borrow_mut().ok()?, Option::as_mut).ok()
    }

    /// The engine, for its end.
    pub(super) fn take(&self) -> Option<Engine> {
        self.engine.borrow_mut().take()
    }
}

impl fmt::Debug for Uring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.engine.try_borrow_mut() {
            Ok(mut engine) => {
                let figures = engine.as_mut().map(Engine::figures);
                f.debug_struct("Uring").field("figures", &figures).finish()
            }
            Err(_) => f.debug_struct("Uring").finish_non_exhaustive(),
        }
    }
}

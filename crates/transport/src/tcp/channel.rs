//! One TCP connection on a loop.
//!
//! Always true:
//! 1. The descriptor is registered once, for reading and writing, edge-triggered. `readable` and `blocked` remember what
//!    the edges said; no further registration call is made in the connection's life.
//! 2. A read that does not fill the room has emptied the socket: the next edge will tell of more, no `recv` is wasted on
//!    hearing `WouldBlock`. Only a peer that has closed is read until the end.
//! 3. At most [`READS_PER_TURN`] reads per turn; what is left goes on in the next one, behind other channels.
//! 4. A peer that has gone is noticed also while nobody reads, as soon as nothing is left to be read.
//! 5. Whatever was read is followed by `read_complete`, and what is flushed there is sent, before the channel ends.
//! 6. The descriptor is deregistered before it is closed, and closed before anybody is told.

use super::{
    calls,
    write::{Wrote, write_flushed},
};
use crate::{
    live::Guard,
    options::{OptionError, StreamOptions},
    readiness::{Interest, Readiness},
    scratch::Scratch,
};
use bytes::BytesMut;
use netwright_core::{
    Channel, CloseCause, GatherCap, Host, HostSettings, LocalLoop, Outgoing, RefusedWhy, Segment, WriteError,
    driver::{Event, Ready, Source, Token},
};
use socket2::{Domain, Socket};
use std::{
    any::{Any, TypeId},
    cell::RefCell,
    io,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

/// Reads of one channel before others get their turn.
const READS_PER_TURN: usize = 16;

/// How a connection behaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChannelSettings {
    pub(crate) host: HostSettings,
    pub(crate) half_closure: bool,
    pub(crate) options: StreamOptions,
    /// What every channel has attached from the start.
    pub(crate) attributes: Vec<(TypeId, Arc<dyn Any + Send + Sync>)>,
}

impl ChannelSettings {
    /// Attaches a value to every channel, one for each type.
    pub(crate) fn attach<T: Send + Sync + 'static>(&mut self, value: T) {
        self.attributes.retain(|(known, _)| *known != TypeId::of::<T>());
        self.attributes.push((TypeId::of::<T>(), Arc::new(value)));
    }

    /// Whether connections of any family can be set up like this.
    pub(crate) fn check(&self) -> Result<(), OptionError> {
        let v4 = self.options.check(Domain::IPV4);
        v4.or_else(|error| self.options.check(Domain::IPV6).map_err(|_| error))
    }
}

pub(crate) struct TcpChannel<P: Segment<BytesMut, W>, W: 'static> {
    host: Host<P, W>,
    local: LocalLoop,
    readiness: Rc<Readiness>,
    scratch: Rc<Scratch>,
    socket: Option<Socket>,
    token: Token,
    cap: GatherCap,
    half_closure: bool,
    /// There may be something to read.
    readable: bool,
    /// The peer's end has been seen: read until it comes.
    ending: bool,
    /// The end has come; only with half-closure the channel lives on.
    input_ended: bool,
    /// Our end has been announced to the peer.
    output_ended: bool,
    /// Bytes have been delivered and `read_complete` has not been told yet.
    incomplete: bool,
    /// The socket takes no more for now.
    blocked: bool,
    /// Closing may block, because unsent data is waited for.
    lingers: bool,
    /// A call for the next turn is under way.
    called: bool,
    /// Keeps whoever counts connections informed: dropped with the channel.
    _guard: Option<Guard>,
}

thread_local! {
    static SCRATCH: RefCell<Option<Rc<Scratch>>> = const { RefCell::new(None) };
}

/// The read buffer of this thread's loop.
fn scratch() -> Rc<Scratch> {
    SCRATCH.with_borrow_mut(|scratch| scratch.get_or_insert_with(|| Rc::new(Scratch::new())).clone())
}

/// What a connection is made of.
pub(crate) struct Adoption<'a, P> {
    pub(crate) local: &'a LocalLoop,
    pub(crate) socket: Socket,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) pipeline: P,
    pub(crate) settings: &'a ChannelSettings,
}

/// Takes a connected socket into the loop of the calling thread and makes its channel active. `introduce` sees the
/// handle before anything happens to the channel; what it returns is dropped with the channel.
pub(crate) fn adopt<P, W>(
    adoption: Adoption<'_, P>,
    introduce: impl FnOnce(&Channel<P::Tail>) -> Option<Guard>,
) -> io::Result<Channel<P::Tail>>
where
    P: Segment<BytesMut, W>,
    W: Into<Outgoing> + 'static,
{
    let Adoption { local, socket, peer, pipeline, settings } = adoption;
    let readiness = local.driver::<Readiness>().ok_or_else(no_driver)?;
    let host = Host::new(local.clone(), pipeline, settings.host);
    let channel = host.channel();
    channel.attach(&settings.attributes);
    let guard = introduce(&channel);
    local.register_with(|token| {
        readiness.register(&socket, token, Interest::READABLE | Interest::WRITABLE)?;
        let local_addr = socket.local_addr().ok().and_then(|addr| addr.as_socket());
        let mut tcp = TcpChannel {
            host,
            local: local.clone(),
            readiness,
            scratch: scratch(),
            socket: Some(socket),
            token,
            cap: GatherCap::default(),
            half_closure: settings.half_closure,
            lingers: settings.options.blocks_on_close(),
            readable: false,
            ending: false,
            input_ended: false,
            output_ended: false,
            incomplete: false,
            blocked: false,
            called: false,
            _guard: guard,
        };
        tcp.host.register(token);
        tcp.host.activate(local_addr, peer);
        tcp.act();
        Ok::<_, AdoptError>(tcp)
    })?;
    Ok(channel)
}

/// Lets `?` take both what the loop and what the system says.
struct AdoptError(io::Error);

impl From<io::Error> for AdoptError {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

impl From<RefusedWhy> for AdoptError {
    fn from(why: RefusedWhy) -> Self {
        Self(io::Error::other(why.to_string()))
    }
}

impl From<AdoptError> for io::Error {
    fn from(error: AdoptError) -> Self {
        error.0
    }
}

pub(crate) fn no_driver() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this event loop has no readiness driver: build its group with `event_loops`, or give it a `ReadinessSeed`",
    )
}

impl<P, W> TcpChannel<P, W>
where
    P: Segment<BytesMut, W>,
    W: Into<Outgoing> + 'static,
{
    /// Does everything that can be done now.
    fn act(&mut self) {
        let mut reads = 0;
        loop {
            self.send();
            if self.host.take_output_shutdown() {
                self.shut_down_output();
            }
            if let Some(cause) = self.host.take_close() {
                self.close(cause);
            }
            if !self.readable || self.input_ended || self.socket.is_none() {
                break;
            }
            if !self.host.wants_read() {
                if self.ending && self.look_for_end() {
                    continue;
                }
                break;
            }
            if reads == READS_PER_TURN {
                self.call_again();
                break;
            }
            reads += 1;
            self.receive(reads);
        }
        if self.host.is_finished() {
            self.host.remove();
            self.local.deregister(self.token);
        }
    }

    fn call_again(&mut self) {
        if !std::mem::replace(&mut self.called, true) {
            self.local.call(self.token);
        }
    }

    // ---- reading ----

    /// One `recv`, and what follows from it.
    fn receive(&mut self, reads: usize) {
        let Some(socket) = &self.socket else { return };
        match self.scratch.fill(|room| calls::recv(socket, room)) {
            Ok((bytes, room)) => {
                let len = bytes.len();
                if len == 0 {
                    return self.end_of_input();
                }
                self.incomplete = true;
                self.host.received(bytes);
                self.readable = len == room || self.ending;
                // The last read of this turn, as far as we know: the pipeline may flush what it has gathered.
                if !self.readable || reads == READS_PER_TURN || !self.host.wants_read() {
                    self.read_complete();
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    self.read_complete();
                }
                io::ErrorKind::Interrupted => {}
                _ => self.fail(error),
            },
        }
    }

    fn read_complete(&mut self) {
        if std::mem::take(&mut self.incomplete) {
            self.host.read_complete();
        }
    }

    /// Nobody wants to read and the peer is going: if nothing is left to be read, it has gone. True if so.
    fn look_for_end(&mut self) -> bool {
        let Some(socket) = &self.socket else { return false };
        match socket.peek(&mut [std::mem::MaybeUninit::uninit()]) {
            Ok(0) => self.end_of_input(),
            Ok(_) => return false,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return false,
                _ => self.fail(error),
            },
        }
        true
    }

    fn end_of_input(&mut self) {
        self.readable = false;
        self.input_ended = true;
        self.read_complete();
        self.send(); // answers to what came last
        if self.half_closure {
            self.host.input_closed();
            if !self.output_ended {
                return;
            }
        }
        // Nothing can happen any more.
        let cause = self.host.take_close().unwrap_or(CloseCause::PeerClosed);
        self.close(cause);
    }

    // ---- writing ----

    fn send(&mut self) {
        while self.host.take_flush() && !self.blocked {
            let Some(socket) = &self.socket else { return };
            match write_flushed(socket, self.host.outbound(), &mut self.cap) {
                Ok(Wrote::All) => {}
                Ok(Wrote::Blocked) => self.blocked = true,
                Ok(Wrote::Enough) => {
                    self.host.wants_flush_again();
                    self.call_again();
                    self.host.wrote();
                    return;
                }
                Err(error) => return self.close(CloseCause::io(error)),
            }
            self.host.wrote(); // there may be room again, and so a new wish to flush
        }
    }

    fn shut_down_output(&mut self) {
        let Some(socket) = &self.socket else { return };
        let result = socket.shutdown(std::net::Shutdown::Write);
        self.output_ended = true;
        self.host.output_shut_down(result.map_err(|error| WriteError::Closed(CloseCause::io(error))));
        if self.input_ended {
            self.close(CloseCause::Requested); // nothing can happen any more
        }
    }

    // ---- the end ----

    fn fail(&mut self, error: io::Error) {
        self.read_complete();
        self.close(CloseCause::io(error));
    }

    fn close(&mut self, cause: CloseCause) {
        let Some(socket) = self.socket.take() else { return };
        let _ = self.readiness.deregister(&socket);
        if self.lingers {
            close_elsewhere(socket);
        } else {
            drop(socket);
        }
        self.host.closed(cause);
    }
}

/// Closing a socket that lingers may block until the peer has everything: not on a loop.
fn close_elsewhere(socket: Socket) {
    let closer = std::thread::Builder::new().name("netwright-linger".to_owned());
    // Without a thread it is closed here after all: late is better than never.
    let _ = closer.spawn(move || drop(socket));
}

impl<P, W> Source for TcpChannel<P, W>
where
    P: Segment<BytesMut, W>,
    W: Into<Outgoing> + 'static,
{
    fn ready(&mut self, event: Event) {
        if event.ready == Ready::NONE {
            self.called = false;
            self.host.run_commands();
        } else {
            let ending = event.ready.contains(Ready::READ_CLOSED) || event.ready.contains(Ready::ERROR);
            self.ending |= ending;
            self.readable |= ending || event.ready.contains(Ready::READ);
            if event.ready.contains(Ready::WRITE) && std::mem::take(&mut self.blocked) {
                self.host.wants_flush_again();
            }
            if self.input_ended
                && event.ready.contains(Ready::ERROR)
                && let Some(socket) = &self.socket
                && let Ok(Some(error)) | Err(error) = socket.take_error()
            {
                self.fail(error); // no read will find it
            }
        }
        self.act();
    }

    fn signal(&mut self, signal: u64) {
        self.host.signal(signal);
        self.act();
    }

    fn shut_down(&mut self) {
        self.close(CloseCause::ShutDown);
        self.act();
    }
}

impl<P: Segment<BytesMut, W>, W: 'static> Drop for TcpChannel<P, W> {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            let _ = self.readiness.deregister(socket);
        }
    }
}

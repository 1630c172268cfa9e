//! The simulated network as loops see it: in place of the system's, behind the same addresses.

use super::{
    acceptor::{SimListener, UnixEntry},
    connection::SimConnection,
    net::{Failure, HostId, Keepalive, Listen, LookupFailure, LookupId, Net, StreamId, Time},
    universe::{HostIndex, Owner, Subject, Universe},
};
use netwright_core::Address;
use netwright_transport::{
    StreamOptions,
    open::{
        Arrival, Connecting, DatagramSocket, Listener, LookingUp, Network, NetworkConnect, NetworkDatagrams,
        NetworkListen,
    },
};
use std::{
    collections::BTreeMap,
    future, io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
};

/// Unix sockets of a host: each name stands for a port that nobody outside reaches.
pub(super) type UnixNames = Mutex<BTreeMap<String, SocketAddr>>;

/// The network of one host.
pub(super) struct SimNetwork {
    universe: Arc<Universe>,
    host: HostIndex,
    id: HostId,
    unix: Arc<UnixNames>,
}

impl SimNetwork {
    pub(super) fn new(universe: Arc<Universe>, host: HostIndex, id: HostId) -> Arc<Self> {
        Arc::new(Self { universe, host, id, unix: Arc::default() })
    }

    /// Where an address of a program leads.
    fn target(&self, address: &Address) -> io::Result<SocketAddr> {
        match address {
            Address::Ip(address) => Ok(*address),
            #[cfg(unix)]
            Address::Unix(_) => {
                let names = self.unix.lock().unwrap_or_else(PoisonError::into_inner);
                names.get(&address.to_string()).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
            }
            other => Err(unsupported(other)),
        }
    }
}

fn unsupported(address: &Address) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("a simulated network has no {address}"))
}

/// What a program asks of a socket, as far as a simulated one has it.
pub(super) fn set_options(net: &mut Net, now: Time, id: StreamId, options: &StreamOptions) {
    let (send, receive) = options.buffer_sizes();
    let keepalive =
        options.keepalive_probes().map(|(idle, interval, probes)| Keepalive { idle, interval, probes });
    // It exists: it was made a moment ago.
    let _ = net.set_buffers(id, send, receive);
    if keepalive.is_some() {
        let _ = net.set_keepalive(now, id, keepalive);
    }
    if let Some(limit) = options.unacknowledged_max() {
        let _ = net.set_give_up(id, limit);
    }
}

fn words(failure: LookupFailure) -> &'static str {
    match failure {
        LookupFailure::NoSuchName => "no such name",
        LookupFailure::ServerFails => "the server that knows names failed",
        LookupFailure::TimedOut => "the server that knows names did not answer",
    }
}

impl Network for SimNetwork {
    fn listen(&self, how: &NetworkListen<'_>) -> io::Result<Arc<dyn Listener>> {
        let address = match how.address {
            Address::Ip(address) => *address,
            #[cfg(unix)]
            Address::Unix(_) => (Ipv4Addr::LOCALHOST, 0).into(),
            other => return Err(unsupported(other)),
        };
        let listen = Listen { shared: how.shared, backlog: Some(how.backlog), ..Listen::at(address) };
        let (id, taken) = self.universe.with_net(|net, now| {
            let id = net.listen(now, self.id, listen)?;
            Ok::<_, Failure>((id, net.listens_at(id)))
        })?;
        let mut shown = taken.map_or_else(|| how.address.clone(), Address::Ip);
        let mut name = None;
        #[cfg(unix)]
        if let (Address::Unix(_), Some(taken)) = (how.address, taken) {
            shown = how.address.clone();
            let mut names = self.unix.lock().unwrap_or_else(PoisonError::into_inner);
            names.insert(shown.to_string(), taken);
            name = Some(UnixEntry { names: self.unix.clone(), name: shown.to_string() });
        }
        Ok(Arc::new(SimListener::new(self.universe.clone(), id, shown, name, how.options.clone())))
    }

    fn connect(&self, how: &NetworkConnect<'_>) -> Connecting {
        let begun = self.target(how.to).and_then(|to| {
            let id = self.universe.with_net(|net, now| {
                let id = net.connect(now, self.id, to, how.from)?;
                set_options(net, now, id, how.options);
                Ok::<_, Failure>(id)
            })?;
            Ok(Attempt { universe: self.universe.clone(), id: Some(id) })
        });
        let (mut begun, peer) = (Some(begun), how.to.clone());
        let mut attempt = None;
        Box::pin(future::poll_fn(move |cx| {
            let attempt = match begun.take() {
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(new)) => attempt.insert(new),
                None => match &mut attempt {
                    Some(attempt) => attempt,
                    None => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
                },
            };
            let Some(id) = attempt.id else {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            };
            let mut state = attempt.universe.lock();
            match state.net.outcome(id) {
                None => {
                    state.own(Subject::Stream(id), Owner::Task(cx.waker().clone()));
                    Poll::Pending
                }
                Some(Err(failure)) => Poll::Ready(Err(failure.into())),
                Some(Ok(())) => {
                    state.disown(Subject::Stream(id));
                    let local = state.net.local_address(id);
                    drop(state);
                    let universe = attempt.universe.clone();
                    attempt.id = None; // it is the connection's now
                    let connection = SimConnection::new(universe, id, peer.clone(), local.map(Address::Ip));
                    Poll::Ready(Ok(Arrival::from(connection)))
                }
            }
        }))
    }

    fn datagrams(&self, how: &NetworkDatagrams<'_>) -> io::Result<Box<dyn DatagramSocket>> {
        super::datagram::open(&self.universe, self.id, how)
    }

    fn look_up(&self, host: &str, port: u16) -> LookingUp {
        let id = self.universe.with_net(|net, now| net.look_up(now, self.id, host));
        let lookup = Lookup { universe: self.universe.clone(), id };
        let name = host.to_owned();
        Box::pin(future::poll_fn(move |cx| {
            let mut state = lookup.universe.lock();
            match state.net.found(lookup.id) {
                None => {
                    state.own(Subject::Lookup(lookup.id), Owner::Task(cx.waker().clone()));
                    Poll::Pending
                }
                Some(Ok(found)) => {
                    Poll::Ready(Ok(found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()))
                }
                Some(Err(failure)) => {
                    Poll::Ready(Err(io::Error::other(format!("{name}: {}", words(failure)))))
                }
            }
        }))
    }

    fn scope(&self) -> u64 {
        // Of this host, in this simulation, of all in the process.
        (Arc::as_ptr(&self.universe) as usize as u64) ^ ((self.host as u64 + 1) << 48)
    }
}

/// A connection that is being opened: given up when it is dropped.
struct Attempt {
    universe: Arc<Universe>,
    id: Option<StreamId>,
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.universe.lock().disown(Subject::Stream(id));
            self.universe.with_net(|net, now| _ = net.close(now, id, true));
        }
    }
}

/// A name that is being looked up.
struct Lookup {
    universe: Arc<Universe>,
    id: LookupId,
}

impl Drop for Lookup {
    fn drop(&mut self) {
        let mut state = self.universe.lock();
        state.disown(Subject::Lookup(self.id));
        state.net.forget_lookup(self.id);
    }
}

//! A network in memory, which is as fast as its loops: who listens where, who is called what, and who never answers.
//!
//! Not here: streams (`stream`), datagrams (`mail`), the driver that brings it along (`driver`).

mod driver;
mod mail;
mod stream;

pub(crate) use mail::ROOM;
use netwright_core::{Address, EventLoopGroup, EventLoopGroupBuilder, LocalLoop, ManualClock, driver::Token};
use netwright_transport::open::{
    Acceptor, Backlog, Connecting, DatagramSocket, Listener, LookingUp, Network, NetworkConnect,
    NetworkDatagrams, NetworkListen,
};
use std::{
    collections::{BTreeMap, HashMap},
    future, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard},
};
use stream::End;

/// A handle: clones are the same network.
#[derive(Clone, Default)]
pub(crate) struct Toy(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    names: BTreeMap<String, Vec<IpAddr>>,
    /// Whoever connects there hears nothing.
    silent: Vec<IpAddr>,
    listeners: HashMap<Address, Port>,
    mail: BTreeMap<SocketAddr, mail::Letterbox>,
    last_port: u16,
    /// Each connection goes to the next listener of a port, instead of the first.
    spreads: bool,
    scope: u64,
    /// What it was asked for, in order.
    asked: Vec<String>,
    /// Attempts that were dropped before they came to an end.
    given_up: usize,
    /// Loops that are to die.
    condemned: Vec<usize>,
}

/// Those who listen at one address.
#[derive(Default)]
struct Port {
    shared: bool,
    connections: usize,
    listeners: Vec<(u64, Backlog<End>)>,
}

impl Toy {
    pub(crate) fn new() -> Self {
        Self::default().with(|state| state.spreads = true)
    }

    fn with(self, change: impl FnOnce(&mut State)) -> Self {
        change(&mut self.lock());
        self
    }

    pub(crate) fn scope(self, scope: u64) -> Self {
        self.with(|state| state.scope = scope)
    }

    /// All connections go to the first who listens.
    pub(crate) fn favouring(self) -> Self {
        self.with(|state| state.spreads = false)
    }

    pub(crate) fn name(self, name: &str, addresses: &[[u8; 4]]) -> Self {
        let addresses = addresses.iter().map(|&address| address.into()).collect();
        self.with(|state| drop(state.names.insert(name.to_owned(), addresses)))
    }

    pub(crate) fn silent(self, address: [u8; 4]) -> Self {
        self.with(|state| state.silent.push(address.into()))
    }

    /// Loops of this network.
    pub(crate) fn builder(&self, loops: usize) -> EventLoopGroupBuilder {
        let network = self.clone();
        EventLoopGroup::builder().loops(loops).driver(move |_| Ok(driver::Seed::new(network.clone(), None)))
    }

    /// Loops of this network that can be [condemned](Self::condemn).
    pub(crate) fn mortals(&self, loops: usize) -> EventLoopGroupBuilder {
        let network = self.clone();
        let seed = move |index| Ok(driver::Seed::new(network.clone(), Some(index)));
        EventLoopGroup::builder().loops(loops).driver(seed)
    }

    pub(crate) fn loops(&self, loops: usize) -> EventLoopGroup {
        self.builder(loops).build().unwrap()
    }

    /// A loop of this network whose time stands still.
    pub(crate) fn slow_loop(&self) -> (EventLoopGroup, ManualClock) {
        let clock = ManualClock::new();
        (self.builder(1).clock(clock.clone()).build().unwrap(), clock)
    }

    /// How many listen there.
    pub(crate) fn listeners(&self, address: &Address) -> usize {
        self.lock().listeners.get(address).map_or(0, |port| port.listeners.len())
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.lock().asked.clone()
    }

    pub(crate) fn given_up(&self) -> usize {
        self.lock().given_up
    }

    /// The mortal loop of this index panics in its driver when it polls next.
    pub(crate) fn condemn(&self, index: usize) {
        self.lock().condemned.push(index);
    }

    fn is_condemned(&self, index: usize) -> bool {
        let mut state = self.lock();
        let found = state.condemned.iter().position(|condemned| *condemned == index);
        found.map(|at| state.condemned.remove(at)).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

impl State {
    fn free_port(&mut self) -> u16 {
        self.last_port += 1;
        40_000 + self.last_port
    }

    /// An address whose port is a real one.
    fn settle(&mut self, address: &Address) -> Address {
        match address.ip() {
            Some(ip) if ip.port() == 0 => SocketAddr::new(ip.ip(), self.free_port()).into(),
            _ => address.clone(),
        }
    }

    fn listener(&mut self, to: &Address) -> Option<Backlog<End>> {
        let anywhere = |to: SocketAddr| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), to.port()).into();
        let known = [Some(to.clone()), to.ip().map(anywhere)].into_iter().flatten();
        let known = known.into_iter().find(|address| self.listeners.contains_key(address))?;
        let port = self.listeners.get_mut(&known)?;
        let turn = if self.spreads { port.connections % port.listeners.len() } else { 0 };
        port.connections += 1;
        Some(port.listeners[turn].1.clone())
    }
}

impl Network for Toy {
    fn listen(&self, how: &NetworkListen<'_>) -> io::Result<Arc<dyn Listener>> {
        let mut state = self.lock();
        let address = state.settle(how.address);
        state.last_port += 1;
        let number = u64::from(state.last_port);
        let port = state.listeners.entry(address.clone()).or_default();
        if !(port.listeners.is_empty() || (how.shared && port.shared)) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        port.shared = how.shared;
        let backlog = Backlog::new(how.backlog);
        port.listeners.push((number, backlog.clone()));
        Ok(Arc::new(Place { toy: self.clone(), address, number, backlog }))
    }

    fn connect(&self, how: &NetworkConnect<'_>) -> Connecting {
        let to = how.to.clone();
        let mut state = self.lock();
        state.asked.push(format!("connect {to}"));
        assert_ne!(to.to_string(), "10.6.6.6:6", "on purpose");
        if to.ip().is_some_and(|to| state.silent.contains(&to.ip())) {
            let given_up = GivenUp(self.clone());
            return Box::pin(async move {
                let _given_up = given_up;
                future::pending().await
            });
        }
        let from = how.from.unwrap_or(SocketAddr::from(([10, 0, 0, 99], 0))).into();
        let from = state.settle(&from);
        let listener = state.listener(&to);
        drop(state);
        let answer = listener.ok_or(io::ErrorKind::ConnectionRefused).and_then(|listener| {
            let (ours, theirs) = End::pair(from, to);
            listener.push(theirs).map_err(|_| io::ErrorKind::ConnectionRefused)?;
            Ok(ours.into())
        });
        Box::pin(future::ready(answer.map_err(Into::into)))
    }

    fn datagrams(&self, how: &NetworkDatagrams<'_>) -> io::Result<Box<dyn DatagramSocket>> {
        mail::open(self, how)
    }

    fn look_up(&self, host: &str, port: u16) -> LookingUp {
        let mut state = self.lock();
        state.asked.push(format!("name {host}"));
        assert_ne!(host, "panics", "on purpose");
        let found = state.names.get(host).cloned();
        let found = found.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "nobody of that name"));
        let with_port = |found: Vec<IpAddr>| found.into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        Box::pin(future::ready(found.map(with_port)))
    }

    fn scope(&self) -> u64 {
        self.lock().scope
    }
}

/// Counted when it is dropped.
struct GivenUp(Toy);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.lock().given_up += 1;
    }
}

/// A listener's place at an address.
struct Place {
    toy: Toy,
    address: Address,
    number: u64,
    backlog: Backlog<End>,
}

impl Listener for Place {
    fn address(&self) -> Address {
        self.address.clone()
    }

    fn attend(self: Arc<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>> {
        Ok(self.backlog.attend(self.clone(), local, token))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.toy.lock();
        let port = state.listeners.get_mut(&self.address).expect("it is listened at");
        port.listeners.retain(|(number, _)| *number != self.number);
        if port.listeners.is_empty() {
            state.listeners.remove(&self.address);
        }
        drop(state);
        self.backlog.close();
    }
}

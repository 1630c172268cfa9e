//! Connections that wait to be accepted, for transports that make both ends themselves.

use super::{Acceptor, Arrival, Connection};
use netwright_core::{LocalLoop, SourceCaller, driver::Token};
use std::{
    collections::VecDeque,
    fmt, io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Connections that wait to be accepted, and the loops that accept them: most of a [`Listener`](super::Listener) whose connections come
/// from nowhere but this process, such as those of a simulation, or streams of a connection. A handle: clones are the same.
///
/// ```
/// # #[cfg(unix)] fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use netwright_core::{Address, LocalLoop, driver::Token, pipeline};
/// use netwright_transport::{Client, Pipes, Server, open::*};
/// use std::{future, io, sync::{Arc, mpsc}};
///
/// /// One place, and pipes that lead to it.
/// #[derive(Clone)]
/// struct Pneumatic(Backlog<Pipes>);
///
/// impl Transport for Pneumatic {
///     fn listen(&self, how: &Listen<'_>) -> io::Result<Arc<dyn Listener>> {
///         Ok(Arc::new(Desk { address: how.address.clone(), backlog: self.0.clone() }))
///     }
///     fn connect(&self, _: &Connect<'_>) -> Connecting {
///         let dial = || -> io::Result<Arrival> {
///             let (ours, theirs) = Pipes::pair().map_err(io::Error::other)?;
///             self.0.push(theirs).map_err(|_| io::ErrorKind::ConnectionRefused)?;
///             Ok(ours.into())
///         };
///         Box::pin(future::ready(dial()))
///     }
/// }
///
/// struct Desk { address: Address, backlog: Backlog<Pipes> }
///
/// impl Listener for Desk {
///     fn address(&self) -> Address {
///         self.address.clone()
///     }
///     fn attend(self: Arc<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>> {
///         Ok(self.backlog.attend(self.clone(), local, token))
///     }
/// }
///
/// impl Drop for Desk {
///     fn drop(&mut self) {
///         self.backlog.close(); // nobody listens any more
///     }
/// }
///
/// let pneumatic = Pneumatic(Backlog::new(16));
/// let server = Server::builder()
///     .scheme("post", pneumatic.clone())
///     .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
///     .bind("post:desk")
///     .wait()?;
/// let (tell, told) = mpsc::channel();
/// let client = Client::builder().scheme("post", pneumatic).pipeline(move || {
///     let tell = tell.clone();
///     pipeline().handle(move |_, bytes| tell.send(bytes).unwrap())
/// })?;
/// let channel = client.connect(server.address()).wait()?;
/// channel.write_and_flush("a capsule");
/// assert_eq!(told.recv()?, "a capsule");
/// # Ok(())
/// # }
/// # #[cfg(not(unix))] fn main() {}
/// ```
pub struct Backlog<C> {
    inner: Arc<Inner<C>>,
}

struct Inner<C> {
    max: usize,
    state: Mutex<State<C>>,
}

struct State<C> {
    waiting: VecDeque<C>,
    /// Who accepts, each with a number of its own.
    acceptors: Vec<(u64, SourceCaller)>,
    last_acceptor: u64,
    /// How many connections there have been.
    connections: u64,
    closed: bool,
}

impl<C: Connection> Backlog<C> {
    /// As many may wait.
    pub fn new(max: usize) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            acceptors: Vec::new(),
            last_acceptor: 0,
            connections: 0,
            closed: false,
        };
        Self { inner: Arc::new(Inner { max, state: Mutex::new(state) }) }
    }

    /// A connection has come: the server's end of it. One of the loops that accept is called, each in turn.
    ///
    /// # Errors
    /// The connection: too many wait, or it is closed.
    pub fn push(&self, connection: C) -> Result<(), C> {
        let mut state = self.lock();
        if state.closed || state.waiting.len() >= self.inner.max {
            drop(state);
            return Err(connection);
        }
        state.connections += 1;
        state.waiting.push_back(connection);
        // The one that is called takes it, unless another is faster.
        let turn = state.connections as usize % state.acceptors.len().max(1);
        let bell = state.acceptors.get(turn).map(|(_, caller)| caller.clone());
        drop(state);
        if let Some(bell) = bell {
            bell.call();
        }
        Ok(())
    }

    /// A loop accepts from now on, until the acceptor is dropped. `holds` is kept until then: the listener, which is open as long. A
    /// backlog that was [closed](Self::close) is open again.
    pub fn attend(
        &self,
        holds: Arc<impl Send + Sync + 'static>,
        local: &LocalLoop,
        token: Token,
    ) -> Box<dyn Acceptor> {
        let mut state = self.lock();
        state.closed = false;
        state.last_acceptor += 1;
        let number = state.last_acceptor;
        state.acceptors.push((number, local.caller(token)));
        drop(state);
        Box::new(Attendant { backlog: self.clone(), number, _holds: holds })
    }

    /// Nobody listens any more: those that wait are refused, and so is whoever comes before a loop [accepts](Self::attend) again.
    pub fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        for connection in waiting {
            Box::new(connection).refuse();
        }
    }

    /// How many connections may wait.
    pub fn max(&self) -> usize {
        self.inner.max
    }

    /// Whether nobody listens any more.
    pub fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Some loop accepts no more; what waits is left to the others.
    fn leave(&self, number: u64) {
        let mut state = self.lock();
        state.acceptors.retain(|(known, _)| *known != number);
        let others = if state.waiting.is_empty() { Vec::new() } else { state.acceptors.clone() };
        drop(state);
        for (_, caller) in others {
            caller.call();
        }
    }
}

impl<C> Backlog<C> {
    fn lock(&self) -> MutexGuard<'_, State<C>> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One loop's place.
struct Attendant<C: Connection, H> {
    backlog: Backlog<C>,
    number: u64,
    _holds: Arc<H>,
}

impl<C: Connection, H: 'static> Acceptor for Attendant<C, H> {
    fn accept(&mut self) -> io::Result<Arrival> {
        let first = self.backlog.lock().waiting.pop_front();
        first.map(Arrival::from).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl<C: Connection, H> Drop for Attendant<C, H> {
    fn drop(&mut self) {
        self.backlog.leave(self.number);
    }
}

impl<C> Clone for Backlog<C> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<C> fmt::Debug for Backlog<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (waiting, closed) = {
            let state = self.lock();
            (state.waiting.len(), state.closed)
        };
        f.debug_struct("Backlog").field("waiting", &waiting).field("closed", &closed).finish_non_exhaustive()
    }
}

//! The life of a client that reconnects: one task on a loop, and what its handles share with it.

use super::{Backoff, Handle, Reconnect, ReconnectError, ReconnectEvent};
use netwright_core::{
    Channel, ChannelState, EventLoop, Fault, JoinHandle, Promise, Promised, WriteError, WritePromise,
    Written, internal::catch, promise, time,
};
use netwright_transport::ConnectError;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub(super) type Connect<W> = Box<dyn Fn(&str) -> Promised<Channel<W>, ConnectError> + Send + Sync>;
pub(super) type Observer = Box<dyn FnMut(&ReconnectEvent<'_>) + Send>;

/// Whoever else wants to know: of ours, so it does not panic.
pub(crate) trait Hook: Send + Sync + 'static {
    /// There is a connection, which handles have by now.
    fn connected(&self);
    /// There will be no other one.
    fn over(&self, error: &ReconnectError);
}

pub(super) struct Settings<W> {
    pub(super) addresses: Vec<String>,
    pub(super) connect: Connect<W>,
    pub(super) event_loop: EventLoop,
    pub(super) backoff: Backoff,
    pub(super) stable_after: Duration,
    pub(super) give_up_after: Option<u32>,
    pub(super) max_waiting: usize,
    pub(super) observer: Option<Observer>,
    pub(super) hook: Option<Box<dyn Hook>>,
}

pub(super) struct Inner<W: Send + 'static> {
    state: Mutex<State<W>>,
    max_waiting: usize,
    pub(super) event_loop: EventLoop,
    hook: Option<Box<dyn Hook>>,
}

struct State<W> {
    channel: Option<Channel<W>>,
    /// Messages that wait for a connection.
    messages: VecDeque<(W, WritePromise)>,
    /// Those that waited are being handed to a connection: others wait until that is done.
    handing: bool,
    /// Whoever waits to be told of a connection.
    waiters: Vec<Promise<Channel<W>, ReconnectError>>,
    /// No other connection will come.
    over: Option<ReconnectError>,
    task: Option<JoinHandle<()>>,
}

impl<W: 'static> State<W> {
    /// The connection, if there is one of which nobody has asked the end.
    fn channel(&self) -> Option<Channel<W>> {
        let usable = |channel: &&Channel<W>| channel.state() != ChannelState::Closed && !channel.is_closing();
        self.channel.as_ref().filter(usable).cloned()
    }
}

impl<W: Send + 'static> Inner<W> {
    pub(super) fn start(settings: Settings<W>) -> Result<Reconnect<W>, ConnectError> {
        let Settings { event_loop, max_waiting, hook, .. } = settings;
        let state = State {
            channel: None,
            messages: VecDeque::new(),
            handing: false,
            waiters: Vec::new(),
            over: None,
            task: None,
        };
        let inner = Arc::new(Self { state: Mutex::new(state), max_waiting, event_loop, hook });
        let run = Run {
            inner: inner.clone(),
            addresses: settings.addresses,
            connect: settings.connect,
            backoff: settings.backoff,
            stable_after: settings.stable_after,
            give_up_after: settings.give_up_after,
            observer: settings.observer,
            error: ReconnectError::LoopEnded,
        };
        match inner.event_loop.spawn(run.run()) {
            Ok(task) => {
                inner.lock().task = Some(task);
                Ok(Reconnect { handle: Arc::new(Handle { inner }) })
            }
            Err(refused) => Err(refused.why.into()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- what handles ask ----

    pub(super) fn channel(&self) -> Option<Channel<W>> {
        self.lock().channel()
    }

    pub(super) fn connected(&self) -> Promised<Channel<W>, ReconnectError> {
        let mut state = self.lock();
        let known = match (&state.over, state.channel()) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(channel)) => Ok(channel),
            (None, None) => {
                let (promise, promised) = promise();
                if state.waiters.len() == state.waiters.capacity() {
                    state.waiters.retain(|waiter| !waiter.is_cancelled()); // who gave up does not stay
                }
                state.waiters.push(promise);
                return promised;
            }
        };
        drop(state);
        Promised::ready(known)
    }

    pub(super) fn send(&self, message: W) -> Written {
        let (done, written) = WritePromise::tracked();
        let mut state = self.lock();
        let channel = state.channel();
        if let Some(channel) = channel.filter(|_| state.messages.is_empty() && !state.handing) {
            drop(state);
            channel.write_with(message, done);
            channel.flush();
            return written;
        }
        let error = match (&state.over, self.max_waiting) {
            (Some(error), _) => error.clone(),
            (None, 0) => ReconnectError::NotConnected,
            (None, max_waiting) => {
                let given_up = self.make_room(&mut state);
                let taken = state.messages.len() < max_waiting;
                let refused = match taken {
                    true => {
                        state.messages.push_back((message, done));
                        None
                    }
                    false => Some((message, done)),
                };
                drop(state);
                drop(given_up); // messages are a user's: not under the lock
                let Some((message, done)) = refused else {
                    self.hand_over(); // if those before it have just gone
                    return written;
                };
                drop(message);
                done.fail(WriteError::Fault(Fault::new(ReconnectError::TooManyWaiting { max_waiting })));
                return written;
            }
        };
        drop(state);
        drop(message);
        done.fail(WriteError::Fault(Fault::new(error)));
        written
    }

    /// Takes messages out that were cancelled, if their places are needed.
    fn make_room(&self, state: &mut State<W>) -> VecDeque<(W, WritePromise)> {
        if state.messages.len() < self.max_waiting {
            return VecDeque::new();
        }
        let (given_up, stay) =
            std::mem::take(&mut state.messages).into_iter().partition(|(_, done)| done.is_cancelled());
        state.messages = stay;
        given_up
    }

    /// Hands the messages that waited to the connection. Whoever comes meanwhile waits behind them.
    fn hand_over(&self) {
        let mut state = self.lock();
        if state.handing {
            return; // by somebody who goes on until nothing is left
        }
        while let Some(channel) = state.channel().filter(|_| !state.messages.is_empty()) {
            state.handing = true;
            let batch = std::mem::take(&mut state.messages);
            drop(state);
            for (message, done) in batch {
                if !done.is_cancelled() {
                    channel.write_with(message, done);
                }
            }
            channel.flush();
            state = self.lock();
            state.handing = false;
        }
    }

    /// No other connection is to come. The one that is there is ended by `end`, and returned.
    pub(super) fn stop(&self, end: impl FnOnce(&Channel<W>)) -> Option<Channel<W>> {
        let task = self.lock().task.take();
        if let Some(task) = task {
            task.abort();
        }
        self.end(ReconnectError::Stopped);
        let channel = self.lock().channel.take();
        if let Some(channel) = &channel {
            end(channel);
        }
        channel
    }

    /// Tells everybody that no other connection will come.
    fn end(&self, error: ReconnectError) -> bool {
        let mut state = self.lock();
        if state.over.is_some() {
            return false;
        }
        state.over = Some(error.clone());
        let waiters = std::mem::take(&mut state.waiters);
        let messages = std::mem::take(&mut state.messages);
        drop(state);
        for waiter in waiters {
            waiter.fail(error.clone());
        }
        for (message, done) in messages {
            drop(message);
            done.fail(WriteError::Fault(Fault::new(error.clone())));
        }
        if let Some(hook) = &self.hook {
            hook.over(&error);
        }
        true
    }

    // ---- what the task tells ----

    /// False: it was stopped meanwhile.
    fn has_connected(&self, channel: &Channel<W>) -> bool {
        let mut state = self.lock();
        if state.over.is_some() {
            return false;
        }
        state.channel = Some(channel.clone());
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        for waiter in waiters {
            waiter.succeed(channel.clone());
        }
        self.hand_over();
        if let Some(hook) = &self.hook {
            hook.connected();
        }
        true
    }

    fn has_lost(&self) {
        let channel = self.lock().channel.take();
        drop(channel); // not under the lock
    }
}

/// The task: connects, waits for the end, connects again. Dropped, it tells that it is over.
struct Run<W: Send + 'static> {
    inner: Arc<Inner<W>>,
    addresses: Vec<String>,
    connect: Connect<W>,
    backoff: Backoff,
    stable_after: Duration,
    give_up_after: Option<u32>,
    observer: Option<Observer>,
    /// Why it is over.
    error: ReconnectError,
}

impl<W: Send + 'static> Run<W> {
    async fn run(mut self) {
        // Failures in a row, rounds without a connection that stood, and the address at which the next round begins.
        let (mut failures, mut rounds, mut first) = (0_u32, 0_u32, 0_usize);
        loop {
            for turn in 0..self.addresses.len() {
                let at = (first + turn) % self.addresses.len();
                let last = match self.attempt(at, failures).await {
                    Ok(stood) if stood >= self.stable_after => {
                        (failures, rounds, first) = (0, 0, at);
                        break;
                    }
                    Ok(_) => None,
                    Err(error) => Some(error),
                };
                failures = failures.saturating_add(1);
                let hopeless = last.as_ref().is_some_and(is_hopeless);
                if hopeless || self.give_up_after.is_some_and(|most| failures >= most) {
                    self.error = ReconnectError::GaveUp { failures, last };
                    return;
                }
                if turn + 1 == self.addresses.len() {
                    first = (at + 1) % self.addresses.len();
                    rounds = rounds.saturating_add(1);
                }
            }
            let pause = self.backoff.pause(rounds.saturating_sub(1));
            self.tell(&ReconnectEvent::Waiting { pause });
            time::sleep(pause).await;
        }
    }

    /// One connection, and how long it stood.
    async fn attempt(&mut self, at: usize, failures: u32) -> Result<Duration, ConnectError> {
        let address = self.addresses[at].clone();
        self.tell(&ReconnectEvent::Connecting { address: &address });
        let attempt = match catch(|| (self.connect)(&address)) {
            Ok(promised) => Attempt(Some(promised)).await,
            Err(panic) => Err(ConnectError::Panicked(panic)),
        };
        let channel = match attempt {
            Ok(channel) => channel,
            Err(error) => {
                let failures = failures.saturating_add(1);
                self.tell(&ReconnectEvent::Failed { address: &address, error: error.clone(), failures });
                return Err(error);
            }
        };
        let since = time::now();
        if !self.inner.has_connected(&channel) {
            channel.close();
            return Err(ConnectError::Cancelled);
        }
        self.tell(&ReconnectEvent::Connected { address: &address });
        let closed = channel.closed();
        drop(channel);
        let cause = closed.await;
        self.inner.has_lost();
        let stood = time::now().saturating_duration_since(since);
        self.tell(&ReconnectEvent::Lost { address: &address, cause, stood });
        Ok(stood)
    }

    fn tell(&mut self, event: &ReconnectEvent<'_>) {
        let Some(observer) = &mut self.observer else { return };
        if let Err(panic) = catch(|| observer(event)) {
            tracing::error!(%panic, "the observer of a client that reconnects panicked");
        }
    }
}

impl<W: Send + 'static> Drop for Run<W> {
    fn drop(&mut self) {
        self.inner.end(self.error.clone());
        let error = self.inner.lock().over.clone().unwrap_or(ReconnectError::LoopEnded);
        self.tell(&ReconnectEvent::Over { error });
    }
}

/// Trying again cannot help.
fn is_hopeless(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Setup(_) | ConnectError::Scheme(_) | ConnectError::LoopEnded)
}

/// A connect that is given up if nobody waits for it any more: then its connection is closed.
struct Attempt<W: Send + 'static>(Option<Promised<Channel<W>, ConnectError>>);

impl<W: Send + 'static> Future for Attempt<W> {
    type Output = Result<Channel<W>, ConnectError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let Some(promised) = &mut self.0 else { return std::task::Poll::Pending };
        let result = std::task::ready!(std::pin::Pin::new(promised).poll(cx));
        self.0 = None;
        std::task::Poll::Ready(result)
    }
}

impl<W: Send + 'static> Drop for Attempt<W> {
    fn drop(&mut self) {
        let Some(promised) = self.0.take() else { return };
        if !promised.cancel() {
            // It came in the last moment, or is about to: nobody else would close it.
            promised.listen(|result| {
                if let Ok(channel) = result {
                    drop(channel.close());
                }
            });
        }
    }
}

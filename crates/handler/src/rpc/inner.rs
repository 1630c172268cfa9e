//! Where requests wait for a connection, and which of them are sent again.

use super::{
    RpcFigures,
    budget::{Account, RetryBudget},
};
use crate::{
    ReconnectError, RequestError,
    reconnect::{Hook, Reconnect},
    requests::{Ask, Requester, Teller, Unanswered, contain},
};
use netwright_core::{
    Channel, ChannelId, CloseCause, EventLoop, Fault, Promise, PromiseError, Promised, Scheduled,
};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

/// A request until it is answered.
pub(super) struct Call<Q, R> {
    /// Empty while it is on a connection.
    pub(super) request: Option<Q>,
    /// How to keep one for another attempt, if it may be done twice.
    pub(super) copy: Option<fn(&Q) -> Q>,
    pub(super) promise: Promise<R, RequestError>,
    pub(super) deadline: Option<Instant>,
    pub(super) limit: Duration,
    /// The last connection that it was on: not on that again.
    pub(super) avoid: Option<ChannelId>,
    /// How often it was sent again though it may have been written.
    pub(super) retries: u32,
    /// What happened to the last attempt that may have been written.
    pub(super) before: Option<RequestError>,
}

impl<Q, R> Call<Q, R> {
    /// There will be no reply. An attempt that may have been written counts more than one that was not, and the limit is that of the whole.
    fn fail(self, error: RequestError) {
        let Self { request, promise, limit, before, .. } = self;
        let error = match (error, before) {
            (RequestError::TimedOut { written, .. }, before) => {
                RequestError::TimedOut { limit, written: written || before.is_some() }
            }
            (RequestError::Closed { cause, .. }, Some(_)) => RequestError::Closed { cause, written: true },
            (error, Some(before)) if !error.may_have_been_written() => before,
            (error, _) => error,
        };
        promise.fail(error);
        contain(|| drop(request));
    }

    fn is_due(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

pub(super) struct Inner<Q: Send + 'static, R: Send + 'static> {
    pub(super) event_loop: EventLoop,
    pub(super) deadline: Duration,
    max_waiting: usize,
    reconnect: OnceLock<Reconnect<Ask<Q, R>>>,
    state: Mutex<State<Q, R>>,
}

struct State<Q, R> {
    waiting: VecDeque<Call<Q, R>>,
    /// For the first deadline of those who wait, or before it.
    timer: Option<(Scheduled<()>, Instant)>,
    account: Account,
    retried: u64,
    over: Option<ReconnectError>,
}

impl<Q: Send + 'static, R: Send + 'static> Inner<Q, R> {
    pub(super) fn new(
        event_loop: EventLoop,
        deadline: Duration,
        max_waiting: usize,
        budget: RetryBudget,
    ) -> Arc<Self> {
        let state = State {
            waiting: VecDeque::new(),
            timer: None,
            account: Account::new(budget),
            retried: 0,
            over: None,
        };
        Arc::new(Self {
            event_loop,
            deadline,
            max_waiting,
            reconnect: OnceLock::new(),
            state: Mutex::new(state),
        })
    }

    pub(super) fn set_reconnect(self: &Arc<Self>, reconnect: Reconnect<Ask<Q, R>>) {
        let _ = self.reconnect.set(reconnect);
        self.send_waiting(); // nobody could ask before, so this is for the future
    }

    fn lock(&self) -> MutexGuard<'_, State<Q, R>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn channel(&self) -> Option<Channel<Ask<Q, R>>> {
        self.reconnect.get().and_then(Reconnect::channel)
    }

    pub(super) fn figures(&self) -> RpcFigures {
        let state = self.lock();
        RpcFigures { waiting: state.waiting.len(), retried: state.retried }
    }

    /// A request comes from its user.
    pub(super) fn begin(self: &Arc<Self>, call: Call<Q, R>) {
        self.lock().account.pay_in();
        self.go_on(call);
    }

    /// Sends a request if there is a connection for it; else it waits.
    fn go_on(self: &Arc<Self>, call: Call<Q, R>) {
        if call.promise.is_cancelled() {
            return;
        }
        match self.channel().filter(|channel| Some(channel.id()) != call.avoid) {
            Some(channel) => self.send(channel, call),
            None => self.wait(call),
        }
    }

    fn send(self: &Arc<Self>, channel: Channel<Ask<Q, R>>, mut call: Call<Q, R>) {
        // Zero is no limit there, so what is due is told here.
        let left =
            match call.deadline.map(|deadline| deadline.saturating_duration_since(self.event_loop.now())) {
                Some(Duration::ZERO) => {
                    let limit = call.limit;
                    return call.fail(RequestError::TimedOut { limit, written: false });
                }
                left => left.unwrap_or(Duration::ZERO),
            };
        let Some(request) = call.request.take() else { return };
        call.request = call.copy.map(|copy| copy(&request));
        call.avoid = Some(channel.id());
        let teller = Box::new(UnderWay { call: Some(call), inner: self.clone() });
        Requester::new(channel).send(Ask::telling(request, teller).within(left));
    }

    /// Keeps a request until there is a connection.
    fn wait(self: &Arc<Self>, call: Call<Q, R>) {
        let mut state = self.lock();
        let error = match &state.over {
            Some(error) => Some(gone(error)),
            None if self.max_waiting == 0 => Some(RequestError::NotConnected),
            None => None,
        };
        if let Some(error) = error {
            drop(state);
            return call.fail(error);
        }
        let mut cancelled = Vec::new();
        if state.waiting.len() >= self.max_waiting {
            let (gone, stay) =
                state.waiting.drain(..).partition::<Vec<_>, _>(|call| call.promise.is_cancelled());
            (cancelled, state.waiting) = (gone, stay.into());
        }
        if state.waiting.len() >= self.max_waiting {
            drop(state);
            return call.fail(RequestError::TooManyWaiting { max_waiting: self.max_waiting });
        }
        let deadline = call.deadline;
        state.waiting.push_back(call);
        drop(state);
        drop(cancelled); // requests are a user's: not under the lock
        self.watch(deadline);
        self.send_waiting(); // if a connection has come meanwhile
    }

    /// Sends those who wait on the connection, if there is one, but for those who have been on it.
    fn send_waiting(self: &Arc<Self>) {
        while let Some(channel) = self.channel() {
            let mut state = self.lock();
            let (stay, go): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut state.waiting)
                .into_iter()
                .partition(|call| call.avoid == Some(channel.id()));
            state.waiting = stay;
            drop(state);
            if go.is_empty() {
                return;
            }
            for call in go {
                if !call.promise.is_cancelled() {
                    self.send(channel.clone(), call);
                }
            }
        }
    }

    /// An attempt has failed.
    fn try_again(self: &Arc<Self>, mut call: Call<Q, R>, unanswered: Unanswered<Q>) {
        let Unanswered { error, request } = unanswered;
        if !matches!(error, RequestError::Closed { .. } | RequestError::Abandoned) {
            return call.fail(error);
        }
        if request.is_some() {
            call.request = request; // it was never written: nothing can happen twice
            return self.go_on(call);
        }
        let mut state = self.lock();
        let again = call.request.is_some() && state.over.is_none() && state.account.take(call.retries);
        state.retried += u64::from(again);
        drop(state);
        if !again {
            return call.fail(error);
        }
        call.retries += 1;
        call.before = Some(error);
        self.go_on(call);
    }

    // ---- time ----

    /// Sees to it that somebody looks at this moment, or before.
    fn watch(self: &Arc<Self>, moment: Option<Instant>) {
        let Some(moment) = moment else { return };
        let mut state = self.lock();
        if state.timer.as_ref().is_some_and(|(_, at)| *at <= moment) {
            return;
        }
        let inner = Arc::downgrade(self);
        let look = move || {
            if let Some(inner) = inner.upgrade() {
                inner.look(moment);
            }
        };
        let armed = self.event_loop.schedule_at(moment, look).ok().map(|timer| (timer, moment));
        let before = std::mem::replace(&mut state.timer, armed);
        drop(state);
        if let Some((timer, _)) = before {
            timer.cancel();
        }
    }

    fn look(self: &Arc<Self>, armed_for: Instant) {
        let now = self.event_loop.now().max(armed_for);
        let mut state = self.lock();
        if state.timer.as_ref().is_some_and(|(_, at)| *at == armed_for) {
            state.timer = None;
        }
        let (late, stay): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut state.waiting).into_iter().partition(|call| call.is_due(now));
        let next = stay.iter().filter_map(|call| call.deadline).min();
        state.waiting = stay;
        drop(state);
        for call in late {
            let limit = call.limit;
            call.fail(RequestError::TimedOut { limit, written: false });
        }
        self.watch(next);
    }

    // ---- the end ----

    /// No connection will come any more.
    fn end(&self, error: &ReconnectError) {
        let mut state = self.lock();
        state.over.get_or_insert_with(|| error.clone());
        let waiting = std::mem::take(&mut state.waiting);
        let timer = state.timer.take();
        drop(state);
        if let Some((timer, _)) = timer {
            timer.cancel();
        }
        for call in waiting {
            call.fail(gone(error));
        }
    }

    pub(super) fn stop(&self) -> Promised<(), PromiseError> {
        self.end(&ReconnectError::Stopped);
        match self.reconnect.get() {
            Some(reconnect) => reconnect.stop_by(|channel| drop(Requester::new(channel.clone()).finish())),
            None => Promised::ready(Ok(())),
        }
    }
}

/// Why no connection will come, as a request is told.
fn gone(error: &ReconnectError) -> RequestError {
    let cause = match error {
        ReconnectError::Stopped => CloseCause::Requested,
        ReconnectError::LoopEnded => CloseCause::ShutDown,
        error => CloseCause::Fault(Fault::new(error.clone())),
    };
    RequestError::Closed { cause, written: false }
}

/// A request that is on a connection.
struct UnderWay<Q: Send + 'static, R: Send + 'static> {
    call: Option<Call<Q, R>>,
    inner: Arc<Inner<Q, R>>,
}

impl<Q: Send + 'static, R: Send + 'static> Teller<Q, R> for UnderWay<Q, R> {
    fn tell(mut self: Box<Self>, result: Result<R, Unanswered<Q>>) {
        let Some(call) = self.call.take() else { return };
        match result {
            Ok(reply) => call.promise.succeed(reply),
            Err(unanswered) => self.inner.try_again(call, unanswered),
        }
    }

    fn is_cancelled(&self) -> bool {
        self.call.as_ref().is_none_or(|call| call.promise.is_cancelled())
    }
}

/// What the client that reconnects tells.
pub(super) struct News<Q: Send + 'static, R: Send + 'static>(pub(super) Weak<Inner<Q, R>>);

impl<Q: Send + 'static, R: Send + 'static> Hook for News<Q, R> {
    fn connected(&self) {
        if let Some(inner) = self.0.upgrade() {
            inner.send_waiting();
        }
    }

    fn over(&self, error: &ReconnectError) {
        if let Some(inner) = self.0.upgrade() {
            inner.end(error);
        }
    }
}

//! Requests and their replies on one connection: the base of clients.
//!
//! ```text
//!   Ask { request, promise } ─▶ [ waiting ] ─ room, fewer than the most in flight ─▶ [ awaited ]     request ─▶ codec ─▶ wire
//!                   promise  ◀────────────── in order, or by id ◀──────────────────── reply   ◀─ codec ◀─ wire
//! ```
//! Always true between calls:
//! 1. Every request that came is told exactly once: by its reply, its deadline, a refusal, or the end.
//! 2. Nobody waits while there is room for one more in flight and to write, but for the time until the end of what is being read.
//! 3. One timer at the most, for all deadlines, armed for a moment that is never after the next of them. A reply does not touch it.
//! 4. What was not handed to the codec is told as not written, whatever happened.
//!
//! | file | what it is |
//! | --- | --- |
//! | `ask` | [`Ask`], a request on its way; [`Requester`], the handle |
//! | `awaited` | who waits for which reply: a plain state machine |
//! | `error` | [`RequestError`], why there is no reply; [`UnmatchedReply`] |
//! | `figures` | [`RequestFigures`] |
//!
//! A request that cannot be encoded ends the connection, as any error does that reaches this stage: which of the requests it was shows only if each
//! write is tracked, which costs an allocation more for every one of them.
//!
//! Not here: where the connection comes from ([`Reconnect`](crate::Reconnect)), and whether to try again ([`RpcClient`](crate::RpcClient)).

mod ask;
mod awaited;
mod error;
mod figures;

#[cfg(test)]
mod tests;

pub(crate) use self::ask::Teller;
pub use self::{
    ask::{Ask, Requester, Unanswered},
    error::{NumbersUsedUp, RequestError, UnmatchedReply},
    figures::RequestFigures,
};

use self::{
    ask::{Answer, Finish, Taken},
    awaited::{Awaited, ById, Found, InOrder, NoId, Waiting},
};
use netwright_core::{CloseCause, Context, Event, Fault, Handler, StageTimer, Weight, WritePromise};
use std::{
    collections::VecDeque,
    convert::Infallible,
    fmt,
    hash::Hash,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

/// How long a reply may take, unless it is said otherwise.
const DEADLINE: Duration = Duration::from_secs(30);
/// How many requests may be in flight, and wait, unless it is said otherwise.
const IN_FLIGHT: usize = 256;
const WAITING: usize = 1024;
/// How long the reply to a request that was given up may hold all those behind it up.
const STUCK_AFTER: Duration = Duration::from_secs(60);

/// The last stage of a client's pipeline: sends requests of type `Q` and matches replies of type `R` to them.
///
/// | how replies are matched | made by |
/// | --- | --- |
/// | by their order (pipelining) | [`in_order`](Self::in_order) |
/// | by an id that whoever asks has put into the request | [`by_id`](Self::by_id) |
/// | by a number that this stage puts into the request | [`numbered`](Self::numbered) |
///
/// What is written to its channel is an [`Ask`]; [`Requester`] is the handle that makes them. A reply that no request waits for is a fault
/// ([`UnmatchedReply`]) and ends the connection; one that comes when its request was given up is dropped.
///
/// ```
/// use netwright_codec::{LineFrames, Utf8};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Requester, Requests};
///
/// // "7 what?" is answered by "7 that"
/// let number = |line: &String| line.split(' ').next()?.parse().ok();
/// let requests = Requests::numbered(1..=u64::MAX, |line: &mut String, id| line.insert_str(0, &format!("{id} ")), number);
/// let mut channel = EmbeddedChannel::of(pipeline().add(LineFrames::max(100)).add(Utf8::strict()).last(requests));
///
/// let requester = Requester::new(channel.channel().clone());
/// let (mut who, mut what) = (requester.ask("who?".into()), requester.ask("what?".into()));
/// assert_eq!(channel.outbound_bytes(), b"1 who?\n2 what?\n");
/// channel.write_inbound("2 a sheep\n1 Dolly\n");
/// assert_eq!((who.wait()?, what.wait()?), ("1 Dolly".into(), "2 a sheep".into()));
/// # Ok::<(), netwright_handler::RequestError>(())
/// ```
#[doc(alias = "pipelining")]
#[doc(alias = "correlation id")]
#[doc(alias = "multiplexing")]
pub struct Requests<Q: 'static, R: 'static, X = Infallible> {
    awaited: Box<dyn Awaited<Q, R>>,
    waiting: VecDeque<Request<Q, R>>,
    pushes: Option<Sort<R, X>>,
    /// Which messages are parts of replies whose last part is still to come.
    is_part: Option<IsPart<R>>,
    limits: Limits,
    figures: RequestFigures,
    /// Armed for that moment; no deadline is before it.
    timer: Option<(StageTimer, Instant)>,
    /// So many have come to wait since somebody looked whether others have cancelled.
    since_look: usize,
    /// No more are taken, for this reason.
    over: Option<CloseCause>,
    /// The channel is to be closed when nothing is left.
    finishing: bool,
}

/// Which messages are replies, and what becomes of those that are none.
type Sort<R, X> = Box<dyn FnMut(R) -> Result<R, X>>;

type IsPart<R> = Box<dyn FnMut(&R) -> bool>;

/// A request that waits to be sent.
struct Request<Q, R> {
    request: Q,
    waiting: Waiting<Q, R>,
}

impl<Q, R> Request<Q, R> {
    /// It was never written, and will not be.
    fn fail(mut self, error: RequestError) {
        if let Some(answer) = self.waiting.answer.take() {
            answer.fail(error, Some(self.request));
        }
    }
}

#[derive(Debug, Clone)]
struct Limits {
    deadline: Duration,
    in_flight: usize,
    waiting: usize,
    stuck_after: Duration,
}

impl<Q: 'static, R: 'static> Requests<Q, R> {
    /// Replies come in the order of their requests. The slot of a request that was given up stays until its reply has come, which is dropped.
    pub fn in_order() -> Self {
        Self::with(Box::new(InOrder::new()))
    }

    /// Replies name the request that they answer. A request whose id is in use is refused; one that was given up is forgotten, and its reply is
    /// dropped if it comes.
    ///
    /// A reply without an id (`None`) is one to no request; see [`pushes`](Self::pushes) for messages that are no replies.
    pub fn by_id<K: Eq + Hash + Clone + 'static>(
        mut of_request: impl FnMut(&Q) -> K + 'static,
        of_reply: impl FnMut(&R) -> Option<K> + 'static,
    ) -> Self {
        let of_request = move |request: &mut Q, _: &dyn Fn(&K) -> bool| Some(of_request(request));
        Self::with(Box::new(ById::new(Box::new(of_request), Box::new(of_reply))))
    }

    /// The same by numbers of this range, which are given to requests in turn, but for those that are in use. If none is free, a request is
    /// refused ([`RequestError::IdInUse`]); if that is because replies to requests that were given up never came, the connection is closed
    /// ([`NumbersUsedUp`]).
    pub fn numbered(
        numbers: RangeInclusive<u64>,
        mut number: impl FnMut(&mut Q, u64) + 'static,
        of_reply: impl FnMut(&R) -> Option<u64> + 'static,
    ) -> Self {
        let (first, last) = numbers.into_inner();
        let mut next = first;
        let of_request = move |request: &mut Q, is_used: &dyn Fn(&u64) -> bool| {
            let begun_at = next;
            if first > last {
                return None;
            }
            loop {
                let id = next;
                next = if id >= last { first } else { id + 1 };
                if !is_used(&id) {
                    number(request, id);
                    return Some(id);
                }
                if next == begun_at {
                    return None;
                }
            }
        };
        Self::with(Box::new(ById::new(Box::new(of_request), Box::new(of_reply))))
    }

    fn with(awaited: Box<dyn Awaited<Q, R>>) -> Self {
        let limits =
            Limits { deadline: DEADLINE, in_flight: IN_FLIGHT, waiting: WAITING, stuck_after: STUCK_AFTER };
        Self::new(awaited, None, limits, RequestFigures::default())
    }

    /// Messages for which this is true are no replies, but sent by the server by itself (a push, a notification): they go on to the next stage.
    ///
    /// ```
    /// use netwright_codec::{LineFrames, Utf8};
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_handler::{Ask, Requests};
    ///
    /// let requests = Requests::<String, String>::in_order().pushes(|line| line.starts_with('>'));
    /// let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
    /// let mut channel = EmbeddedChannel::new(lines.add(requests)); // `.handle(|_, push| …)` in a program
    /// let (ask, mut reply) = Ask::new("time?".to_owned());
    /// channel.write_outbound(ask).write_inbound(">it rains\n12:00\n");
    /// assert_eq!(reply.wait().unwrap(), "12:00");
    /// assert_eq!(channel.read_inbound().unwrap(), ">it rains");
    /// ```
    pub fn pushes(mut self, mut is_push: impl FnMut(&R) -> bool + 'static) -> Requests<Q, R, R> {
        let awaited = std::mem::replace(&mut self.awaited, Box::new(InOrder::new()));
        let sort = move |message: R| if is_push(&message) { Err(message) } else { Ok(message) };
        let mut requests =
            Requests::new(awaited, Some(Box::new(sort)), self.limits.clone(), self.figures.clone());
        requests.is_part = self.is_part.take();
        requests
    }
}

impl<Q: 'static, R: 'static, X: 'static> Requests<Q, R, X> {
    fn new(
        awaited: Box<dyn Awaited<Q, R>>,
        pushes: Option<Sort<R, X>>,
        limits: Limits,
        figures: RequestFigures,
    ) -> Self {
        Self {
            awaited,
            waiting: VecDeque::new(),
            pushes,
            is_part: None,
            limits,
            figures,
            timer: None,
            since_look: 0,
            over: None,
            finishing: false,
        }
    }

    /// How long a reply may take, the time in which its request waits to be sent included. Zero: no limit. Default: 30 s.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.limits.deadline = limit;
        self
    }

    /// How many requests may be in flight; further ones wait. At least one. Default: 256.
    pub fn max_in_flight(mut self, most: usize) -> Self {
        self.limits.in_flight = most.max(1);
        self
    }

    /// How many requests may wait, because too many are in flight or too much waits to be sent; further ones are refused. Default: 1,024.
    pub fn max_waiting(mut self, most: usize) -> Self {
        self.limits.waiting = most;
        self
    }

    /// How long the reply to a request that was given up may be missing, where replies come in order and so all others wait behind it. Then the
    /// connection is closed as [timed out](CloseCause::TimedOut). Zero: for ever. Default: 60 s.
    pub fn stuck_after(mut self, limit: Duration) -> Self {
        self.limits.stuck_after = limit;
        self
    }

    /// Messages for which this is true are parts of a reply that goes on, and those for which it is not are last parts, or replies that have only one. Each part goes
    /// to the [closure](Ask::each) of whoever asked; the last is the reply. The deadline counts anew with each of them.
    ///
    /// ```
    /// use netwright_codec::{LineFrames, Utf8};
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_handler::{Ask, Requests};
    /// use std::sync::mpsc;
    ///
    /// // As in SMTP: "250-" goes on, "250 " is the end.
    /// let requests = Requests::<String, String>::in_order().parts(|line| line.as_bytes().get(3) == Some(&b'-'));
    /// let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
    /// let mut channel = EmbeddedChannel::of(lines.last(requests));
    ///
    /// let (tell, told) = mpsc::channel();
    /// let (ask, mut reply) = Ask::new("EHLO me".to_owned());
    /// channel.write_outbound(ask.each(move |part| tell.send(part).unwrap()));
    /// channel.write_inbound("250-SIZE\n250-STARTTLS\n250 HELP\n");
    /// assert_eq!(told.try_iter().collect::<Vec<_>>(), ["250-SIZE", "250-STARTTLS"]);
    /// assert_eq!(reply.wait().unwrap(), "250 HELP");
    /// ```
    pub fn parts(mut self, is_part: impl FnMut(&R) -> bool + 'static) -> Self {
        self.is_part = Some(Box::new(is_part));
        self
    }

    /// Counts there what goes wrong.
    pub fn counting(mut self, figures: &RequestFigures) -> Self {
        self.figures = figures.clone();
        self
    }

    // ---- what comes from the application ----

    fn begin(&mut self, cx: &mut Context<'_, Self>, ask: Ask<Q, R>) {
        let Some(Taken { request, answer, limit, parts }) = ask.take() else { return };
        let limit = limit.unwrap_or(self.limits.deadline);
        let deadline = if limit.is_zero() { None } else { cx.now().checked_add(limit) };
        let request = Request { request, waiting: Waiting { answer: Some(answer), deadline, limit, parts } };
        if let Some(cause) = self.over.as_ref().or(cx.view().close_cause()).cloned() {
            return request.fail(RequestError::Closed { cause, written: false });
        }
        if is_cancelled(&request) {
            return;
        }
        if self.waiting.is_empty() && self.has_room(cx) {
            self.send(cx, request);
        } else if !self.has_place() {
            self.figures.count_refused();
            return request.fail(RequestError::TooManyWaiting { max_waiting: self.limits.waiting });
        } else {
            self.waiting.push_back(request);
            self.look_for_cancelled(cx);
        }
        self.watch(cx, deadline);
    }

    fn has_room(&self, cx: &Context<'_, Self>) -> bool {
        self.awaited.len() < self.limits.in_flight && cx.is_writable()
    }

    /// Whether one more may wait, if need be in the place of somebody who has given up.
    fn has_place(&mut self) -> bool {
        if self.waiting.len() >= self.limits.waiting {
            self.waiting.retain(|request| !is_cancelled(request));
        }
        self.waiting.len() < self.limits.waiting
    }

    /// Who cancels is not heard of: now and then, while others wait, those in flight are asked. Each look is paid for by those who came since.
    fn look_for_cancelled(&mut self, cx: &mut Context<'_, Self>) {
        self.since_look += 1;
        if self.since_look * 4 >= self.limits.in_flight {
            self.since_look = 0;
            self.awaited.forget_cancelled();
            self.go_on(cx);
        }
    }

    /// Writes a request, and waits for its reply.
    fn send(&mut self, cx: &mut Context<'_, Self>, request: Request<Q, R>) {
        let Request { mut request, waiting } = request;
        match self.awaited.add(&mut request, waiting) {
            Ok(()) => cx.write(request),
            Err((waiting, NoId::InUse)) => {
                self.figures.count_refused();
                Request { request, waiting }.fail(RequestError::IdInUse);
            }
            Err((waiting, NoId::Unanswered(requests))) => {
                // It would be so for ever: the next connection has all numbers.
                let cause = CloseCause::Fault(NumbersUsedUp { unanswered: requests }.into());
                Request { request, waiting }
                    .fail(RequestError::Closed { cause: cause.clone(), written: false });
                self.break_off(cx, cause);
            }
        }
    }

    /// Sends what waits, as far as there is room.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(cause) = cx.view().close_cause().cloned() {
            return self.fail_waiting(&cause); // there is room now, for nothing is sent any more
        }
        let mut sent = false;
        while !self.waiting.is_empty() && self.has_room(cx) {
            let Some(request) = self.waiting.pop_front() else { break };
            if !is_cancelled(&request) {
                sent = true;
                self.send(cx, request);
            }
        }
        if sent {
            cx.flush();
        }
        if self.finishing && self.waiting.is_empty() && !self.awaited.is_anybody_waiting() {
            self.finishing = false;
            cx.close();
        }
    }

    /// A part of a reply whose last part is still to come.
    fn part(&mut self, cx: &mut Context<'_, Self>, part: R) {
        let (now, stuck_after) = (cx.now(), self.limits.stuck_after);
        match self.awaited.find(&part) {
            None => self.unmatched(cx),
            Some(waiting) => {
                if !waiting.part(part, now, stuck_after) {
                    self.figures.count_late();
                }
            }
        }
    }

    fn unmatched(&mut self, cx: &mut Context<'_, Self>) {
        let fault = UnmatchedReply { in_flight: self.awaited.len() };
        self.break_off(cx, CloseCause::Fault(fault.into()));
    }

    // ---- time ----

    /// Sees to it that somebody looks at this moment, or before.
    fn watch(&mut self, cx: &mut Context<'_, Self>, moment: Option<Instant>) {
        let Some(moment) = moment else { return };
        match self.timer {
            Some((_, at)) if at <= moment => return,
            Some((timer, _)) => drop(cx.disarm(timer)),
            None => {}
        }
        self.timer = Some((cx.arm(moment.saturating_duration_since(cx.now())), moment));
    }

    fn look_at_deadlines(&mut self, cx: &mut Context<'_, Self>, now: Instant) {
        let look = self.awaited.look(now, self.limits.stuck_after);
        let mut next = look.next;
        let mut late = Vec::new();
        for _ in 0..self.waiting.len() {
            let Some(request) = self.waiting.pop_front() else { break };
            match request.waiting.deadline {
                Some(deadline) if deadline <= now => late.push(request),
                deadline => {
                    next = next.into_iter().chain(deadline).min();
                    self.waiting.push_back(request);
                }
            }
        }
        for (answer, limit) in look.late {
            self.figures.count_timed_out();
            answer.fail(RequestError::TimedOut { limit, written: true }, None);
        }
        for request in late {
            self.figures.count_timed_out();
            let limit = request.waiting.limit;
            request.fail(RequestError::TimedOut { limit, written: false });
        }
        if look.stuck {
            return self.break_off(cx, CloseCause::TimedOut(self.limits.stuck_after));
        }
        self.go_on(cx);
        self.watch(cx, next);
    }

    // ---- the end ----

    /// Tells those who have not been written that they will not be.
    fn fail_waiting(&mut self, cause: &CloseCause) {
        self.over.get_or_insert_with(|| cause.clone());
        for request in std::mem::take(&mut self.waiting) {
            request.fail(RequestError::Closed { cause: cause.clone(), written: false });
        }
    }

    /// Tells everybody that no reply will come.
    fn fail_all(&mut self, cause: &CloseCause) {
        self.fail_waiting(cause);
        for waiting in self.awaited.take_all() {
            waiting.fail(RequestError::Closed { cause: cause.clone(), written: true });
        }
    }

    fn break_off(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.fail_all(&cause);
        cx.close_because(cause);
    }
}

fn is_cancelled<Q, R>(request: &Request<Q, R>) -> bool {
    request.waiting.answer.as_ref().is_none_or(Answer::is_cancelled)
}

impl<Q: 'static, R: 'static, X: 'static> Handler for Requests<Q, R, X> {
    type Read = R;
    type ReadOut = X;
    type Write = Ask<Q, R>;
    type WriteOut = Q;
    const WEIGHT: Weight<Ask<Q, R>> = Ask::<Q, R>::WEIGHT;

    fn read(&mut self, cx: &mut Context<'_, Self>, message: R) {
        let reply = match &mut self.pushes {
            None => message,
            Some(sort) => match sort(message) {
                Ok(reply) => reply,
                Err(push) => return cx.fire_read(push),
            },
        };
        if self.is_part.as_mut().is_some_and(|is_part| is_part(&reply)) {
            return self.part(cx, reply);
        }
        match self.awaited.take(&reply) {
            Found::Of(answer) => answer.succeed(reply),
            Found::Late => self.figures.count_late(),
            Found::Unmatched => self.unmatched(cx),
        }
    }

    // What waits is sent here and not in `read`: there it would count as an answer, and a peer that does not read would not be read from either. Servers
    // stop reading while nobody takes their replies.
    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.go_on(cx);
        cx.fire_read_complete();
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, ask: Ask<Q, R>, done: WritePromise) {
        self.begin(cx, ask);
        done.succeed(); // what became of it, the reply tells
    }

    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        if writable {
            self.go_on(cx);
        }
        cx.fire_writability(writable);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        match event.get::<Finish>() {
            Some(Finish) => {
                self.over.get_or_insert(CloseCause::Requested);
                self.finishing = true;
                self.go_on(cx);
            }
            None => cx.fire_event(event),
        }
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        if let Some((armed, at)) = self.timer
            && armed == timer
        {
            self.timer = None;
            let now = cx.now().max(at);
            self.look_at_deadlines(cx, now);
        }
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.fail_all(&CloseCause::PeerClosed); // no reply can come any more
        cx.fire_input_closed();
        cx.close_because(CloseCause::PeerClosed);
    }

    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        self.break_off(cx, CloseCause::Fault(fault));
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.fail_waiting(&cause);
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.fail_waiting(&CloseCause::Requested);
        cx.shut_down_output_with(done);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.fail_all(&cause);
        cx.fire_inactive(cause);
    }

    fn name(&self) -> &'static str {
        "Requests"
    }
}

/// Its promises are broken by the drop of who waits; those that were never written are told so.
impl<Q: 'static, R: 'static, X> Drop for Requests<Q, R, X> {
    fn drop(&mut self) {
        for request in std::mem::take(&mut self.waiting) {
            let cause = self.over.clone().unwrap_or(CloseCause::ShutDown);
            request.fail(RequestError::Closed { cause, written: false });
        }
    }
}

impl<Q: 'static, R: 'static, X> fmt::Debug for Requests<Q, R, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests")
            .field("in_flight", &self.awaited.len())
            .field("waiting", &self.waiting.len())
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

//! Requests and their replies on one connection: the base of clients.
//!
//! ```text
//!   Ask { request, promise } ─▶ [ waiting ] ─ room, fewer than the most in flight ─▶ [ awaited ]     request ─▶ codec ─▶ wire
//!                   promise  ◀────────────── in order, or by id ◀──────────────────── reply   ◀─ codec ◀─ wire
//! ```
//! Always true between calls:
//! 1. Every request that came is told exactly once: by its reply, its deadline, a refusal, or the end.
//! 2. Nothing is sent before `active`. From then on nobody waits while there is room for one more in flight and to write, but for the time until the end
//!    of what is being read.
//! 3. One timer at the most, for all deadlines, armed for a moment that is never after the next of them. A reply does not touch it.
//! 4. What was not handed to the codec is told as not written, whatever happened.
//!
//! | file | what it is |
//! | --- | --- |
//! | `ask` | [`Ask`], a request on its way; [`Requester`], the handle |
//! | `awaited` | who waits for which reply: a plain state machine |
//! | `error` | [`RequestError`], why there is no reply; [`UnmatchedReply`] |
//! | `figures` | [`RequestFigures`] |
//! | `stage` | what the stage does when something happens |
//!
//! A request that cannot be encoded ends the connection, as any error does that reaches this stage: which of the requests it was shows only if each
//! write is tracked, which costs an allocation more for every one of them.
//!
//! Not here: where the connection comes from ([`Reconnect`](crate::Reconnect)), and whether to try again ([`RpcClient`](crate::RpcClient)).

mod ask;
mod awaited;
mod error;
mod figures;
mod stage;

#[cfg(test)]
mod tests;

pub(crate) use self::ask::{Teller, contain};
pub use self::{
    ask::{Ask, Requester, Unanswered},
    error::{NumbersUsedUp, RequestError, UnmatchedReply},
    figures::RequestFigures,
};

use self::awaited::{Awaited, ById, InOrder, Waiting};
use netwright_core::{CloseCause, StageTimer};
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
/// What is written to its channel is an [`Ask`]; [`Requester`] is the handle that makes them. Requests wait until the channel is active, so a stage in front
/// that logs in first holds [`active`](netwright_core::Handler::active) back until then; their deadlines count meanwhile. A reply that no request waits for is a fault
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
    /// Requests may be sent: the stages in front of this one have said so.
    active: bool,
    /// No more are taken, for this reason.
    over: Option<CloseCause>,
    /// The channel is to be closed when nothing is left.
    finishing: bool,
}

/// Which messages are replies, and what becomes of those that are none.
type Sort<R, X> = Box<dyn FnMut(R) -> Result<R, X>>;

type IsPart<R> = Box<dyn FnMut(&R) -> bool>;

/// A request that waits to be sent.
struct Request<Q: 'static, R: 'static> {
    request: Q,
    waiting: Waiting<Q, R>,
}

impl<Q: 'static, R: 'static> Request<Q, R> {
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
            active: false,
            over: None,
            finishing: false,
        }
    }

    /// How long a reply may take, the time in which its request waits to be sent included. Zero: no limit, and then nobody notices either that the reply to a
    /// request that was cancelled never comes: its number stays in use, and where replies come in order all others wait behind it. Default: 30 s.
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

    /// How long the reply to a request that was given up may be missing, or go on in [parts](Self::parts), where replies come in order and so all others
    /// wait behind it. Then the connection is closed as [timed out](CloseCause::TimedOut). Zero: for ever. Default: 60 s.
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

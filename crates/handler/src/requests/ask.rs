//! A request on its way to the stage that waits for its reply, and whoever is told of that.

use super::RequestError;
use netwright_core::{
    Channel, CloseCause, Closed, Event, Promise, Promised, Weight, internal::catch, promise,
};
use std::{cell::RefCell, collections::VecDeque, fmt, time::Duration};

/// A request, and whom to tell of its reply: what is written to a channel whose last stage is [`Requests`](super::Requests).
///
/// It is answered in any case: one that is dropped on its way, because the channel has ended, says so.
///
/// ```
/// use netwright_codec::{LineFrames, Utf8};
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Ask, Requests};
///
/// let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
/// let mut channel = EmbeddedChannel::of(lines.last(Requests::<String, String>::in_order()));
/// let (ask, mut reply) = Ask::new("2 + 2".to_owned());
/// channel.write_outbound(ask).write_inbound("4\n");
/// assert_eq!(reply.wait().unwrap(), "4");
/// ```
pub struct Ask<Q: 'static, R: 'static> {
    /// Taken by the stage, both at once.
    inner: Option<(Q, Answer<Q, R>)>,
    limit: Option<Duration>,
    /// Who gets the parts of a reply but for the last.
    parts: Option<Parts<R>>,
    /// Whose end it is if the message is dropped on its way.
    to: Option<Channel<Self>>,
}

/// What became of a request that got no reply.
#[derive(Debug)]
#[non_exhaustive]
pub struct Unanswered<Q> {
    /// Why there is no reply.
    pub error: RequestError,
    /// The request, if it was not handed to the connection: it can be asked again, somewhere else.
    pub request: Option<Q>,
}

/// Takes the parts of a reply.
pub(super) type Parts<R> = Box<dyn FnMut(R) + Send>;

/// What the stage takes of an [`Ask`].
pub(super) struct Taken<Q: 'static, R: 'static> {
    pub(super) request: Q,
    pub(super) answer: Answer<Q, R>,
    pub(super) limit: Option<Duration>,
    pub(super) parts: Option<Parts<R>>,
}

/// Whom to tell.
pub(super) enum Answer<Q: 'static, R: 'static> {
    Promise(Promise<R, RequestError>),
    Teller(Box<dyn Teller<Q, R>>),
}

/// Somebody who is told of the reply, and gets the request back if it was never written.
pub(crate) trait Teller<Q, R>: Send {
    fn tell(self: Box<Self>, result: Result<R, Unanswered<Q>>);
    /// Whether nobody wants to know any more.
    fn is_cancelled(&self) -> bool;
}

struct Closure<F>(F);

impl<Q, R, F: FnOnce(Result<R, Unanswered<Q>>) + Send> Teller<Q, R> for Closure<F> {
    fn tell(self: Box<Self>, result: Result<R, Unanswered<Q>>) {
        // Others are told behind this one, perhaps by the drop of what holds them: a second panic would end the process there.
        if let Err(panic) = catch(|| (self.0)(result)) {
            drop(catch(|| tracing::error!(%panic, "a closure that was told of a reply panicked")));
        }
    }
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl<Q: 'static, R: 'static> Answer<Q, R> {
    pub(super) fn succeed(self, reply: R) {
        match self {
            Self::Promise(promise) => promise.succeed(reply),
            Self::Teller(teller) => contain(|| teller.tell(Ok(reply))),
        }
    }

    /// The request, if there is one, was never written.
    pub(super) fn fail(self, error: RequestError, request: Option<Q>) {
        match self {
            Self::Promise(promise) => {
                contain(|| promise.fail(error));
                contain(|| drop(request));
            }
            Self::Teller(teller) => in_turn(move || teller.tell(Err(Unanswered { error, request }))),
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        match self {
            Self::Promise(promise) => promise.is_cancelled(),
            Self::Teller(teller) => teller.is_cancelled(),
        }
    }
}

impl<Q: 'static, R: 'static> Ask<Q, R> {
    /// A request, and the promise of its reply. Cancelling that gives the reply up.
    pub fn new(request: Q) -> (Self, Promised<R, RequestError>) {
        let (promise, reply) = promise();
        (Self::of(request, Answer::Promise(promise)), reply)
    }

    /// A request whose reply is handed to a closure, with the request itself if that was never written: for whoever tries again. The closure runs
    /// on the loop of the channel, or wherever the request is dropped: where it is asked on a channel that has ended. One that asks again there is told again when
    /// it has returned, so it has to wait, or to count, or it does that for ever.
    /// What panics in it is told in the log.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_handler::{Ask, Requests};
    /// use bytes::{Bytes, BytesMut};
    /// use std::sync::mpsc;
    ///
    /// let mut channel = EmbeddedChannel::of(pipeline().last(Requests::<Bytes, BytesMut>::in_order()));
    /// channel.close_by_peer();
    /// let (tell, told) = mpsc::channel();
    /// let ask = Ask::then(Bytes::from("ping"), move |result| tell.send(result).unwrap());
    /// channel.write_outbound(ask);
    /// assert_eq!(told.recv()?.unwrap_err().request.unwrap(), "ping"); // for another connection
    /// # Ok::<(), std::sync::mpsc::RecvError>(())
    /// ```
    pub fn then(request: Q, call: impl FnOnce(Result<R, Unanswered<Q>>) + Send + 'static) -> Self {
        Self::of(request, Answer::Teller(Box::new(Closure(call))))
    }

    pub(crate) fn telling(request: Q, teller: Box<dyn Teller<Q, R>>) -> Self {
        Self::of(request, Answer::Teller(teller))
    }

    fn of(request: Q, answer: Answer<Q, R>) -> Self {
        Self { inner: Some((request, answer)), limit: None, parts: None, to: None }
    }

    /// How long the reply may take, counted from when the channel's loop has the request; zero: no limit. Default: that of the stage.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Hands the parts of the reply to a closure, but for the last, which is the reply that is promised; see
    /// [`Requests::parts`](super::Requests::parts). It runs on the loop of the channel. Without it parts are dropped.
    pub fn each(mut self, part: impl FnMut(R) + Send + 'static) -> Self {
        self.parts = Some(Box::new(part));
        self
    }

    pub(super) fn take(mut self) -> Option<Taken<Q, R>> {
        let (request, answer) = self.inner.take()?;
        Some(Taken { request, answer, limit: self.limit, parts: self.parts.take() })
    }

    /// The bytes that it holds, as far as that is known of its request.
    fn held(&self) -> usize {
        self.inner.as_ref().map_or(0, |(request, _)| Weight::unsaid().held(request))
    }

    pub(super) const WEIGHT: Weight<Self> = Weight::of(Self::held);
}

impl<Q, R> Drop for Ask<Q, R> {
    fn drop(&mut self) {
        if let Some((request, answer)) = self.inner.take() {
            let cause = self.to.as_ref().and_then(Channel::close_cause).unwrap_or(CloseCause::ShutDown);
            answer.fail(RequestError::Closed { cause, written: false }, Some(request));
        }
    }
}

impl<Q, R> fmt::Debug for Ask<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ask").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Runs a user's code, and the drop of what is a user's: others wait to be told, some of them in a drop, where a second panic would end the process.
pub(crate) fn contain(tell: impl FnOnce()) {
    if let Err(panic) = catch(tell) {
        tracing::error!(%panic, "whoever was told what became of a request panicked");
    }
}

type Later = Box<dyn FnOnce()>;

thread_local! {
    /// Whoever is to be told when the one has been who is being told further out on this thread. None: nobody is.
    static TELLING: RefCell<Option<VecDeque<Later>>> = const { RefCell::new(None) };
}

/// Tells somebody that there is no reply, as [`contain`] does, but not within another one who is being told: one who asks again on a connection that has
/// ended is told at once, and would need more stack each time.
fn in_turn(tell: impl FnOnce() + 'static) {
    let mut tell = Some(tell);
    let is_first = TELLING.try_with(|telling| match &mut *telling.borrow_mut() {
        Some(later) => {
            later.extend(tell.take().map(|tell| Box::new(tell) as Later));
            false
        }
        none => {
            *none = Some(VecDeque::new());
            true
        }
    });
    tell.into_iter().for_each(contain); // also where the thread ends, and there is no queue any more
    if is_first != Ok(true) {
        return;
    }
    let next = || TELLING.with_borrow_mut(|telling| telling.as_mut().and_then(VecDeque::pop_front));
    while let Some(next) = next() {
        contain(next);
    }
    TELLING.set(None);
}

/// Asks on one connection: the handle of a channel whose last stage is [`Requests`](super::Requests). Cheap to clone, for any thread.
///
/// ```
/// use netwright_codec::{LineFrames, Utf8};
/// use netwright_core::pipeline;
/// use netwright_handler::{Requester, Requests};
/// use netwright_transport::{Client, Server};
///
/// let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
/// let server = Server::builder()
///     .pipeline(move |_| lines().handle(|cx, line: String| cx.write_and_flush(line.to_uppercase())))
///     .bind("127.0.0.1:0")
///     .wait()?;
///
/// let client = Client::builder().pipeline(move || lines().last(Requests::<String, String>::in_order()))?;
/// let requests = Requester::new(client.connect(server.address()).wait()?);
/// let (mut one, mut two) = (requests.ask("one".to_owned()), requests.ask("two".to_owned())); // neither waits for the other
/// assert_eq!((one.wait()?, two.wait()?), ("ONE".to_owned(), "TWO".to_owned())); // or `.await`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Requester<Q: 'static, R: 'static> {
    channel: Channel<Ask<Q, R>>,
}

impl<Q: Send + 'static, R: Send + 'static> Requester<Q, R> {
    /// One for this channel.
    pub fn new(channel: Channel<Ask<Q, R>>) -> Self {
        Self { channel }
    }

    /// Sends a request. A future of its reply, and a blocking wait. Cancelling it gives the reply up; the request may be sent anyway.
    pub fn ask(&self, request: Q) -> Promised<R, RequestError> {
        let (ask, reply) = Ask::new(request);
        self.send(ask);
        reply
    }

    /// The same with a deadline of its own, counted from when the channel's loop has the request; zero: none.
    pub fn ask_within(&self, limit: Duration, request: Q) -> Promised<R, RequestError> {
        let (ask, reply) = Ask::new(request);
        self.send(ask.within(limit));
        reply
    }

    /// Sends what was put together by hand.
    pub fn send(&self, mut ask: Ask<Q, R>) {
        ask.to = Some(self.channel.clone());
        self.channel.write_and_flush(ask);
    }

    /// Takes no more requests, and closes the connection when all are answered or have failed, at the latest by their deadlines.
    pub fn finish(&self) -> Closed<Ask<Q, R>> {
        self.channel.fire_event(Event::new(Finish));
        self.channel.closed()
    }

    /// The channel.
    pub fn channel(&self) -> &Channel<Ask<Q, R>> {
        &self.channel
    }
}

/// No more requests are to come.
pub(super) struct Finish;

impl<Q, R> Clone for Requester<Q, R> {
    fn clone(&self) -> Self {
        Self { channel: self.channel.clone() }
    }
}

impl<Q, R> fmt::Debug for Requester<Q, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requester").field("channel", &self.channel.id()).finish()
    }
}

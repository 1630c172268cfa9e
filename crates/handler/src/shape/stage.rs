//! The stage that lets messages pass at a rate.
//!
//! ```text
//!   wire ──▶ [ reads ] ── lane ──▶ application         while something waits here, the channel is held: nothing is read from the wire
//!   wire ◀── lane ── [ writes ] ◀── application        what waits here is kept: it counts as pending, so writers hear of it
//! ```
//! Always true:
//! 1. Messages, and the news behind them, pass in the order in which they came.
//! 2. What was not flushed does not pass by itself, and asks for no turn.
//! 3. A promise is handed on with the last piece of its message, or failed with what ended the channel.
//! 4. Once the channel has ended, nothing is held back: what was read is delivered, and what was written fails.

use super::{
    bucket::{Bucket, Waker},
    keyed::{Buckets, KeyBucket},
    lane::{Answer, Lane, Width},
    measure::{Measure, Pieces},
    rate::Rate,
};
use crate::inbound::{Inbound, fire_all};
use netwright_core::{
    ChannelView, CloseCause, Event, Fault, Filter, FilterContext, Hold, Kept, Leftover, StageTimer,
    WriteError, WritePromise,
};
use std::{collections::VecDeque, hash::Hash, net::IpAddr, sync::Arc, time::Duration};

/// What is still kept when the channel closes is sent if it is no more than this, and dropped otherwise: so much is the goodbye of a protocol.
const LAST_WORDS_MAX: u64 = 4 << 10;

/// Lets messages pass at a rate: for a channel, for all channels of a key, for a group of channels, for all of them.
///
/// Each direction has as many limits as are named, and everything passes all of them. A [`Rate`] is the channel's own, and a [`Bucket`] is shared by whoever has a clone of it; a
/// [`Buckets`] has one for each key.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Shape, shape::{Bucket, Rate}};
/// use std::time::Duration;
///
/// let everybody = Bucket::new("100m".parse::<Rate>()?);
/// let shape = Shape::bytes()
///     .read("1k".parse::<Rate>()?) // this channel alone
///     .write("1m".parse::<Rate>()?)
///     .write(&everybody);
/// let mut channel = EmbeddedChannel::new(pipeline().filter(shape));
/// channel.write_inbound(vec![b'x'; 5_000]);
/// let mut read = 0;
/// for _ in 0..30 {
///     channel.advance(Duration::from_millis(100));
///     read += std::iter::from_fn(|| channel.read_inbound()).map(|bytes| bytes.len()).sum::<usize>();
/// }
/// assert!((3_000..3_090).contains(&read), "{read}");
/// # Ok::<(), netwright_handler::shape::RateError>(())
/// ```
///
/// - **Reading**: while something waits for its turn, the channel is [held](netwright_core::Context::hold), so that nothing more is read from the wire, and the peer feels it as by any slow
///   reader.
/// - **Writing**: what waits for its turn is [kept](netwright_core::Context::keep): it counts as pending, so writers see whether there is room. Promises are fulfilled when
///   the message has really been sent. [`close_when_flushed`](netwright_core::Context::close_when_flushed) and the end of the output wait for what was flushed. A plain close does not, but
///   for a goodbye of up to 4 KiB; what is dropped, its promise reports.
/// - **A peer that sends no more** gets the answers that wait, also when no stage asked to hear of such an end; in that case for a minute at most, or for as long as
///   [`forsaken_after`](netwright_core::HostSettings::forsaken_after) says.
/// - **A message that is longer than all that is saved** passes, and those behind it wait the longer. [`bytes`](Self::bytes) are passed on in pieces.
/// - **Cost**: a message takes a short lock for each limit, and a channel that waits one timer, however many channels there are.
///
/// To let nothing pass for a while, [pause](netwright_core::Channel::pause) the channel: a rate of nothing does not exist.
#[doc(alias = "TrafficShapingHandler")]
#[doc(alias = "ChannelTrafficShapingHandler")]
#[doc(alias = "GlobalTrafficShapingHandler")]
#[doc(alias = "rate limit")]
#[doc(alias = "throttle")]
pub struct Shape<R, W> {
    reading: Reading<R>,
    writing: Writing<W>,
    keys: Vec<FindsKey<R>>,
    /// The channel is connected, so that its end will be heard of.
    live: bool,
    /// It has ended, or is about to be closed: nothing is held back any more.
    over: bool,
}

/// Finds the bucket of a channel's key.
type FindsKey<R> = (Direction, Box<dyn Fn(&ChannelView<'_, R>) -> Option<KeyBucket> + Send>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Read,
    Write,
}

struct Reading<R> {
    lane: Lane,
    measure: Measure<R>,
    queue: VecDeque<Inbound<R>>,
    /// How much the messages among it are.
    amount: u64,
    hold: Option<Hold>,
    timer: Option<StageTimer>,
    /// Something was delivered because its turn had come, and not because something was read.
    owes_complete: bool,
}

struct Writing<W> {
    lane: Lane,
    measure: Measure<W>,
    queue: VecDeque<Written<W>>,
    amount: u64,
    /// So many of the queue may pass.
    flushed: usize,
    kept: Option<Kept>,
    timer: Option<StageTimer>,
    /// Those who wait for the end of the output, once it was asked for.
    ends: Option<Vec<WritePromise>>,
}

/// A message that waits, or what is left of it.
struct Written<W> {
    msg: W,
    done: WritePromise,
    amount: u64,
    /// It counts as pending for so much.
    weight: usize,
}

/// A limit of a [`Shape`]: a [`Rate`] of its own, a [`Bucket`] that is shared, or the bucket of a [key](Buckets::of).
#[derive(Debug, Clone)]
pub struct Limit(Bucket, Width);

impl From<Rate> for Limit {
    fn from(rate: Rate) -> Self {
        Self(Bucket::new(rate), Width::Channel)
    }
}

impl From<Bucket> for Limit {
    fn from(bucket: Bucket) -> Self {
        Self(bucket, Width::Shared)
    }
}

impl From<&Bucket> for Limit {
    fn from(bucket: &Bucket) -> Self {
        bucket.clone().into()
    }
}

impl From<KeyBucket> for Limit {
    fn from(bucket: KeyBucket) -> Self {
        Self(bucket.0, Width::Key)
    }
}

impl<R: Pieces, W: Pieces> Shape<R, W> {
    /// Counts bytes, and passes them on in pieces. Nothing is limited until a limit is named.
    pub fn bytes() -> Self {
        Self::of(Measure::bytes(), Measure::bytes())
    }
}

impl<R: 'static, W: 'static> Shape<R, W> {
    /// Counts messages: rates are messages a second.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_codec::{LineFrames, Utf8};
    /// use netwright_handler::{Shape, shape::Rate};
    /// use std::time::Duration;
    ///
    /// let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
    /// let shape = Shape::messages().read(Rate::try_from(2)?); // two a second
    /// let mut channel = EmbeddedChannel::new(lines.filter(shape).handle(|cx, line: String| cx.write_and_flush(line)));
    /// channel.write_inbound("one\ntwo\nthree\n");
    /// assert_eq!(channel.outbound_bytes(), b"one\n");
    /// channel.advance(Duration::from_secs(1));
    /// assert_eq!(channel.outbound_bytes(), b"two\nthree\n");
    /// # Ok::<(), netwright_handler::shape::RateError>(())
    /// ```
    pub fn messages() -> Self {
        Self::weighed(|_| 1, |_| 1)
    }

    /// Counts messages for as much as the functions say, and passes them on whole. No message counts for more than 2⁴⁰.
    pub fn weighed(read: fn(&R) -> u64, write: fn(&W) -> u64) -> Self {
        Self::of(Measure::whole(read), Measure::whole(write))
    }

    fn of(read: Measure<R>, write: Measure<W>) -> Self {
        let reading = Reading {
            lane: Lane::default(),
            measure: read,
            queue: VecDeque::new(),
            amount: 0,
            hold: None,
            timer: None,
            owes_complete: false,
        };
        let writing = Writing {
            lane: Lane::default(),
            measure: write,
            queue: VecDeque::new(),
            amount: 0,
            flushed: 0,
            kept: None,
            timer: None,
            ends: None,
        };
        Self { reading, writing, keys: Vec::new(), live: false, over: false }
    }

    /// What is read passes this as well.
    #[must_use]
    pub fn read(mut self, limit: impl Into<Limit>) -> Self {
        let Limit(bucket, width) = limit.into();
        self.reading.lane.add(bucket, width);
        self
    }

    /// What is written passes this as well.
    #[must_use]
    pub fn write(mut self, limit: impl Into<Limit>) -> Self {
        let Limit(bucket, width) = limit.into();
        self.writing.lane.add(bucket, width);
        self
    }

    /// What is read passes the bucket of a key, which is found when the channel is connected. Nothing is limited for a channel without one.
    #[must_use]
    pub fn read_by<K: Hash + Eq + Clone + Send + 'static>(
        self,
        buckets: &Buckets<K>,
        key: impl Fn(&ChannelView<'_, R>) -> Option<K> + Send + 'static,
    ) -> Self {
        self.by(Direction::Read, buckets, key)
    }

    /// What is written passes the bucket of a key, which is found when the channel is connected. Nothing is limited for a channel without one.
    #[must_use]
    pub fn write_by<K: Hash + Eq + Clone + Send + 'static>(
        self,
        buckets: &Buckets<K>,
        key: impl Fn(&ChannelView<'_, R>) -> Option<K> + Send + 'static,
    ) -> Self {
        self.by(Direction::Write, buckets, key)
    }

    /// What is read passes the bucket of the peer's address: all connections of a client together.
    #[must_use]
    pub fn read_per_address(self, buckets: &Buckets<IpAddr>) -> Self {
        self.read_by(buckets, peer_address)
    }

    /// What is written passes the bucket of the peer's address: all connections of a client together.
    #[must_use]
    pub fn write_per_address(self, buckets: &Buckets<IpAddr>) -> Self {
        self.write_by(buckets, peer_address)
    }

    fn by<K: Hash + Eq + Clone + Send + 'static>(
        mut self,
        direction: Direction,
        buckets: &Buckets<K>,
        key: impl Fn(&ChannelView<'_, R>) -> Option<K> + Send + 'static,
    ) -> Self {
        let buckets = buckets.clone();
        self.keys.push((direction, Box::new(move |view| Some(buckets.of(key(view)?)))));
        self
    }

    /// The channel's key is known.
    fn find_keys(&mut self, view: &ChannelView<'_, R>) {
        for (direction, find) in std::mem::take(&mut self.keys) {
            let lane = match direction {
                Direction::Read => &mut self.reading.lane,
                Direction::Write => &mut self.writing.lane,
            };
            if let Some(KeyBucket(bucket)) = find(view) {
                lane.add(bucket, Width::Key);
            }
        }
    }
}

/// An IPv4 address that is written as one of IPv6 is the same client.
fn peer_address<R>(view: &ChannelView<'_, R>) -> Option<IpAddr> {
    Some(view.peer_addr()?.ip().to_canonical())
}

type Cx<'a, R, W> = FilterContext<'a, Shape<R, W>, R, W>;

/// Has the stage called when a rate changes.
fn waker<R: 'static, W: 'static>(cx: &Cx<'_, R, W>) -> Waker {
    let caller = cx.caller();
    Arc::new(move || caller.call(|stage, cx| stage.rate_changed(cx)))
}

fn rearm<R: 'static, W: 'static>(timer: &mut Option<StageTimer>, cx: &mut Cx<'_, R, W>, wait: Duration) {
    if let Some(timer) = timer.replace(cx.arm(wait)) {
        cx.disarm(timer);
    }
}

// Reading.
impl<R: 'static, W: 'static> Shape<R, W> {
    /// The next message whose turn has come. News in front of it are passed on.
    fn next_read(&mut self, cx: &mut Cx<'_, R, W>) -> Option<R> {
        loop {
            let msg = match self.reading.queue.front_mut()? {
                Inbound::Message(msg) => msg,
                _ => {
                    let news = self.reading.queue.pop_front()?;
                    news.fire(cx);
                    continue;
                }
            };
            let all = (self.reading.measure.amount)(msg);
            let divisible = self.reading.measure.is_divisible(msg);
            let waiting = self.reading.amount;
            return match self.reading.lane.ask(cx.now(), all, divisible, waiting, || waker(cx)) {
                Answer::Go(amount) => {
                    self.reading.amount = waiting.saturating_sub(amount);
                    match self.reading.measure.take(msg, amount, all) {
                        None => {
                            let msg = self.reading.queue.pop_front()?.into_message();
                            if self.is_news_next() {
                                // They go on also if the application pauses with this message.
                                rearm(&mut self.reading.timer, cx, Duration::ZERO);
                            }
                            msg
                        }
                        piece => piece,
                    }
                }
                Answer::Wait(wait) => {
                    self.reading.hold.get_or_insert_with(|| cx.hold());
                    rearm(&mut self.reading.timer, cx, wait);
                    None
                }
            };
        }
    }

    fn is_news_next(&self) -> bool {
        self.reading.queue.front().is_some_and(|next| !matches!(next, Inbound::Message(_)))
    }

    /// News wait for the messages in front of them, and not for an application that has paused.
    fn fire_news(&mut self, cx: &mut Cx<'_, R, W>) {
        while self.is_news_next() {
            if let Some(news) = self.reading.queue.pop_front() {
                news.fire(cx);
            }
        }
    }

    /// It may be the turn of what was read: it is asked for when the channel is not held.
    fn let_read_go_on(&mut self, cx: &mut Cx<'_, R, W>) {
        if let Some(timer) = self.reading.timer.take() {
            cx.disarm(timer);
        }
        if let Some(hold) = self.reading.hold.take() {
            self.reading.owes_complete = true;
            hold.release(cx);
        }
    }

    /// The channel ends: what was read is delivered, in order, and nothing waits any more.
    fn deliver_all(&mut self, cx: &mut Cx<'_, R, W>) {
        self.let_read_go_on(cx);
        self.reading.owes_complete = false;
        self.reading.lane.give_up();
        self.reading.amount = 0;
        fire_all(std::mem::take(&mut self.reading.queue), cx);
    }

    /// News on their way to the application stay behind the messages that came before them.
    fn tell(&mut self, cx: &mut Cx<'_, R, W>, news: Inbound<R>) {
        if self.reading.queue.is_empty() { news.fire(cx) } else { self.reading.queue.push_back(news) }
    }
}

// Writing.
impl<R: 'static, W: 'static> Shape<R, W> {
    /// Keeps a message that waits.
    fn keep(&mut self, cx: &mut Cx<'_, R, W>, msg: W, done: WritePromise, amount: u64) {
        let weight = cx.weigh(&msg);
        self.writing.kept.get_or_insert_with(|| cx.keep(0)).add(cx, weight);
        self.writing.amount = self.writing.amount.saturating_add(amount);
        self.writing.lane.more(amount);
        self.writing.queue.push_back(Written { msg, done, amount, weight });
    }

    /// Passes on what was flushed, as far as its turn has come.
    fn pass_writes(&mut self, cx: &mut Cx<'_, R, W>) {
        let mut passed = false;
        while self.writing.flushed > 0 {
            let Some(first) = self.writing.queue.front() else { break };
            let (all, divisible) = (first.amount, self.writing.measure.is_divisible(&first.msg));
            match self.writing.lane.ask(cx.now(), all, divisible, self.writing.amount, || waker(cx)) {
                Answer::Go(amount) => {
                    self.pass_first(cx, amount);
                    passed = true;
                }
                Answer::Wait(wait) => {
                    rearm(&mut self.writing.timer, cx, wait);
                    break;
                }
            }
        }
        if passed {
            cx.flush();
        }
        self.end_output_if_due(cx);
    }

    /// Passes on so much of the first message that waits.
    fn pass_first(&mut self, cx: &mut Cx<'_, R, W>, amount: u64) {
        let Some(first) = self.writing.queue.front_mut() else { return };
        self.writing.amount = self.writing.amount.saturating_sub(amount);
        match self.writing.measure.take(&mut first.msg, amount, first.amount) {
            Some(piece) => {
                first.amount -= amount;
                let weight = cx.weigh(&first.msg).min(first.weight);
                let released = std::mem::replace(&mut first.weight, weight) - weight;
                self.release(cx, released);
                cx.write(piece);
            }
            None => {
                let Some(Written { msg, done, weight, .. }) = self.writing.queue.pop_front() else { return };
                self.writing.flushed = self.writing.flushed.saturating_sub(1);
                self.release(cx, weight);
                cx.write_with(msg, done);
            }
        }
    }

    fn release(&mut self, cx: &mut Cx<'_, R, W>, weight: usize) {
        if let Some(kept) = &mut self.writing.kept {
            kept.sub(cx, weight);
        }
    }

    /// Passes on all that was flushed, without waiting for its turn.
    fn pass_all_writes(&mut self, cx: &mut Cx<'_, R, W>) {
        let mut passed = false;
        while self.writing.flushed > 0 {
            let Some(first) = self.writing.queue.front() else { break };
            let amount = self.writing.lane.force(cx.now(), first.amount, false).min(first.amount);
            self.pass_first(cx, amount);
            passed = true;
        }
        if passed {
            cx.flush();
        }
        self.end_output_if_due(cx);
    }

    /// The end of the output comes behind all that was flushed before it. What was not flushed is not sent.
    fn end_output_if_due(&mut self, cx: &mut Cx<'_, R, W>) {
        if self.writing.flushed > 0 {
            return;
        }
        let Some(ends) = self.writing.ends.take() else { return };
        self.fail_writes(cx, &WriteError::OutputShutDown);
        self.over = true;
        let mut ends = ends.into_iter();
        cx.shut_down_output_with(ends.next().unwrap_or_else(WritePromise::untracked));
        ends.for_each(|done| cx.shut_down_output_with(done));
    }

    fn fail_writes(&mut self, cx: &mut Cx<'_, R, W>, error: &WriteError) {
        self.writing.lane.give_up();
        self.writing.amount = 0;
        self.writing.flushed = 0;
        if let Some(timer) = self.writing.timer.take() {
            cx.disarm(timer);
        }
        if let Some(kept) = &mut self.writing.kept {
            kept.sub(cx, kept.bytes());
        }
        for Written { msg, done, .. } in std::mem::take(&mut self.writing.queue) {
            drop(msg); // released when somebody hears of it
            done.fail(error.clone());
        }
    }

    /// The channel closes: a goodbye is sent, much else is not waited for.
    fn end_writing(&mut self, cx: &mut Cx<'_, R, W>, error: &WriteError) {
        let flushed: u64 =
            self.writing.queue.iter().take(self.writing.flushed).map(|first| first.amount).sum();
        if flushed <= LAST_WORDS_MAX {
            self.pass_all_writes(cx);
        }
        self.fail_writes(cx, error);
        if let Some(ends) = self.writing.ends.take() {
            ends.into_iter().for_each(|done| done.fail(error.clone()));
        }
    }
}

impl<R: 'static, W: 'static> Shape<R, W> {
    fn rate_changed(&mut self, cx: &mut Cx<'_, R, W>) {
        self.let_read_go_on(cx);
        self.pass_writes(cx);
    }
}

impl<R: 'static, W: 'static> Filter<R, W> for Shape<R, W> {
    fn active(&mut self, cx: &mut Cx<'_, R, W>) {
        self.live = true;
        self.find_keys(&cx.view());
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Cx<'_, R, W>, msg: R) {
        if self.reading.queue.is_empty() && self.reading.lane.is_free() {
            return cx.fire_read(msg);
        }
        let amount = (self.reading.measure.amount)(&msg);
        self.reading.amount = self.reading.amount.saturating_add(amount);
        self.reading.lane.more(amount);
        self.reading.queue.push_back(Inbound::Message(msg)); // given out by `pull`
    }

    fn pull(&mut self, cx: &mut Cx<'_, R, W>) -> Option<R> {
        // Asked while the channel is paused, it is asked because of an event: that comes here next, and waits in the queue.
        if cx.view().is_paused() {
            return None;
        }
        let msg = self.next_read(cx);
        if msg.is_none() && std::mem::take(&mut self.reading.owes_complete) {
            cx.fire_read_complete();
        }
        msg
    }

    fn event(&mut self, cx: &mut Cx<'_, R, W>, event: Event) {
        self.tell(cx, Inbound::Event(event));
    }

    fn error(&mut self, cx: &mut Cx<'_, R, W>, fault: Fault) {
        self.tell(cx, Inbound::Error(fault));
    }

    fn input_closed(&mut self, cx: &mut Cx<'_, R, W>) {
        self.tell(cx, Inbound::InputClosed);
    }

    fn inactive(&mut self, cx: &mut Cx<'_, R, W>, cause: CloseCause) {
        self.over = true;
        self.deliver_all(cx);
        let error = WriteError::Closed(cause.clone());
        self.fail_writes(cx, &error);
        if let Some(ends) = self.writing.ends.take() {
            ends.into_iter().for_each(|done| done.fail(error.clone()));
        }
        cx.fire_inactive(cause);
    }

    fn write(&mut self, cx: &mut Cx<'_, R, W>, mut msg: W, done: WritePromise) {
        if self.over || self.writing.lane.is_free() && self.writing.queue.is_empty() {
            return cx.write_with(msg, done);
        }
        if self.writing.ends.is_some() {
            drop(msg);
            return done.fail(WriteError::OutputShutDown);
        }
        let mut all = (self.writing.measure.amount)(&msg);
        let mut waits = !self.writing.queue.is_empty();
        while !waits {
            let divisible = self.writing.measure.is_divisible(&msg);
            match self.writing.lane.ask(cx.now(), all, divisible, all, || waker(cx)) {
                Answer::Go(amount) => match self.writing.measure.take(&mut msg, amount, all) {
                    Some(piece) => {
                        all -= amount;
                        cx.write(piece);
                    }
                    None => return cx.write_with(msg, done),
                },
                Answer::Wait(_) => {
                    // Its turn is asked for again when it is flushed.
                    self.writing.lane.give_up();
                    waits = true;
                }
            }
        }
        self.keep(cx, msg, done, all);
    }

    fn flush(&mut self, cx: &mut Cx<'_, R, W>) {
        cx.flush();
        // What is flushed behind the end of the output comes too late.
        if !self.writing.queue.is_empty() && self.writing.ends.is_none() {
            self.writing.flushed = self.writing.queue.len();
            if !self.writing.lane.is_waiting() {
                self.pass_writes(cx);
            }
        }
    }

    fn close(&mut self, cx: &mut Cx<'_, R, W>, cause: CloseCause, done: WritePromise) {
        self.end_writing(cx, &WriteError::Closed(cause.clone()));
        self.over = true;
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Cx<'_, R, W>, done: WritePromise) {
        if self.over {
            return cx.shut_down_output_with(done);
        }
        self.writing.ends.get_or_insert_default().push(done);
        self.end_output_if_due(cx);
    }

    fn timer(&mut self, cx: &mut Cx<'_, R, W>, timer: StageTimer) {
        if self.reading.timer == Some(timer) {
            self.reading.timer = None;
            self.let_read_go_on(cx);
            self.fire_news(cx);
        } else if self.writing.timer == Some(timer) {
            self.writing.timer = None;
            self.pass_writes(cx);
        }
    }

    /// The application gets something later by itself, which it may answer.
    fn owes(&self) -> bool {
        self.reading.hold.is_some()
    }

    fn is_busy(&self) -> bool {
        self.live && !self.over && (self.writing.flushed > 0 || self.writing.ends.is_some())
    }

    fn leaving(&mut self, cx: &mut Cx<'_, R, W>) {
        self.writing.flushed = self.writing.queue.len();
        self.pass_all_writes(cx);
    }

    fn panicked(&mut self, cx: &mut Cx<'_, R, W>) {
        let error = WriteError::Closed(CloseCause::Requested);
        self.end_writing(cx, &error);
        self.over = true;
    }

    fn start_over(&mut self) -> bool {
        let clean = self.reading.queue.is_empty() && self.writing.queue.is_empty() && self.keys.is_empty();
        (self.live, self.over) = (false, false);
        (self.reading.hold, self.reading.timer, self.writing.timer) = (None, None, None);
        (self.writing.kept, self.writing.ends) = (None, None);
        clean
    }

    fn leftover(&mut self) -> Leftover<R> {
        self.reading.lane.give_up();
        Leftover::many(
            std::mem::take(&mut self.reading.queue).into_iter().filter_map(Inbound::into_message).collect(),
        )
    }
}

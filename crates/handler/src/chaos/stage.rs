//! The stage that plays a bad network.
//!
//! ```text
//!   wire ──▶ [ piece, due at … ][ piece ][ news ] ──▶ application       what is under way: at most `buffer`, then no more is read
//!   wire ◀── [ piece ][ piece ][ end of output ] ◀── application        the same, kept: it counts as pending
//! ```
//! Each piece is due when the link has had the time for it (`rate`), and as much later as was drawn, but never before the one in front of it.
//!
//! Always true:
//! 1. The order stays: of pieces, of news behind them, and of the end of the output.
//! 2. A promise is handed on with the last piece of its message, or failed with what ended the channel.
//! 3. What was read is delivered at once when the channel ends, but for a cut, which loses it.

use super::{config::Faults, draw::Draw};
use crate::{
    inbound::{Inbound, fire_all},
    shape::Pieces,
};
use netwright_core::{
    CloseCause, Event, Fault, Filter, FilterContext, Hold, Kept, Leftover, StageTimer, WriteError,
    WritePromise,
};
use std::{
    collections::VecDeque,
    fmt, io,
    time::{Duration, Instant},
};

/// What each piece counts for beside its bytes, so that the smallest take no room without end.
const PIECE: u64 = 64;

/// A [`Chaos`](super::Chaos) has cut this connection.
///
/// ```
/// use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
/// use netwright_handler::{Chaos, chaos::ChaosCut};
///
/// let chaos: Chaos = "read.cut=100%".parse()?;
/// let mut channel = EmbeddedChannel::new(pipeline().filter(chaos.stage(1)));
/// channel.write_inbound("hello");
/// let Some(CloseCause::Fault(fault)) = channel.finish().cause else { panic!("it goes on") };
/// assert!(fault.downcast_ref::<ChaosCut>().is_some());
/// # Ok::<(), netwright_handler::chaos::ChaosError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChaosCut;

impl fmt::Display for ChaosCut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was cut on purpose, by chaos")
    }
}

impl std::error::Error for ChaosCut {}

/// The stage of a [`Chaos`](super::Chaos) for one connection. Made by [`Chaos::stage`](super::Chaos::stage).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_handler::{Chaos, Shape, shape::Rate};
///
/// let chaos: Chaos = "split=3,seed=1".parse()?;
/// let shape = Shape::bytes().read("1m".parse::<Rate>()?);
/// let mut channel = EmbeddedChannel::new(pipeline().filter(chaos.stage(1)).filter(shape));
/// channel.write_inbound("hello, world");
/// let pieces: Vec<_> = std::iter::from_fn(|| channel.read_inbound()).collect();
/// assert!(pieces.len() >= 4 && pieces.concat() == b"hello, world");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ChaosStage<R, W> {
    reading: Reading<R>,
    writing: Writing<W>,
    /// The channel is connected, so that its end will be heard of.
    live: bool,
    /// It has ended, or is about to be closed.
    over: bool,
}

/// One direction of a link.
struct Link {
    faults: Faults,
    draw: Draw,
    /// When it has had the time for all that was given to it.
    free_at: Option<Instant>,
    /// When the last piece is due.
    last_due: Option<Instant>,
}

/// What becomes of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passes,
    Corrupt(u64),
    Cut,
    Reset,
}

struct Reading<R> {
    link: Link,
    queue: VecDeque<(Instant, Inbound<R>, Fate)>,
    amount: u64,
    hold: Option<Hold>,
    timer: Option<StageTimer>,
    owes_complete: bool,
}

struct Writing<W> {
    link: Link,
    /// Written, and not flushed.
    gathered: Vec<Written<W>>,
    queue: VecDeque<(Instant, Out<W>)>,
    kept: Option<Kept>,
    timer: Option<StageTimer>,
    ends: bool,
}

struct Written<W> {
    msg: W,
    done: WritePromise,
    /// It counts as pending for so much.
    weight: usize,
}

enum Out<W> {
    Piece(Written<W>, Fate),
    End(WritePromise),
}

impl Link {
    fn new((faults, draw): (Faults, Draw)) -> Self {
        Self { faults, draw, free_at: None, last_due: None }
    }

    /// How long the next piece is at most.
    fn piece(&mut self) -> u64 {
        self.faults.split.map_or(u64::MAX, |most| 1 + self.draw.below(u64::from(most)))
    }

    /// When a piece of this length is due, and what becomes of it.
    fn take(&mut self, now: Instant, len: u64) -> (Instant, Fate) {
        let begins = self.free_at.map_or(now, |free| free.max(now));
        let takes = match self.faults.rate.limit() {
            Some(rate) => u128::from(len) * 1_000_000_000 / u128::from(rate.get()),
            None => 0,
        };
        let sent = later(begins, Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX)));
        self.free_at = Some(sent);
        let delay = self.faults.latency + self.draw.up_to(self.faults.jitter);
        let due = later(sent, delay).max(self.last_due.unwrap_or(now));
        self.last_due = Some(due);
        let (cut, reset) = (self.draw.happens(self.faults.cut), self.draw.happens(self.faults.reset));
        let corrupt = self.draw.happens(self.faults.corrupt);
        let fate = match (cut, reset, corrupt) {
            (true, _, _) => Fate::Cut,
            (_, true, _) => Fate::Reset,
            (_, _, true) => Fate::Corrupt(self.draw.below(len.saturating_mul(8))),
            _ => Fate::Passes,
        };
        (due, fate)
    }

    /// When what has no length, and no faults, is due.
    fn behind(&self, now: Instant) -> Instant {
        let due = later(self.free_at.map_or(now, |free| free.max(now)), self.faults.latency);
        due.max(self.last_due.unwrap_or(now))
    }
}

/// A century is late enough.
fn later(moment: Instant, by: Duration) -> Instant {
    moment.checked_add(by.min(Duration::from_secs(100 * 365 * 86_400))).unwrap_or(moment)
}

type Cx<'a, R, W> = FilterContext<'a, ChaosStage<R, W>, R, W>;

fn cause_of(fate: Fate) -> Option<CloseCause> {
    match fate {
        Fate::Cut => Some(CloseCause::Fault(Fault::from(ChaosCut))),
        Fate::Reset => Some(CloseCause::io(io::ErrorKind::ConnectionReset.into())),
        Fate::Passes | Fate::Corrupt(_) => None,
    }
}

impl<R: Pieces, W: Pieces> ChaosStage<R, W> {
    pub(super) fn new(read: (Faults, Draw), write: (Faults, Draw)) -> Self {
        let reading = Reading {
            link: Link::new(read),
            queue: VecDeque::new(),
            amount: 0,
            hold: None,
            timer: None,
            owes_complete: false,
        };
        let writing = Writing {
            link: Link::new(write),
            gathered: Vec::new(),
            queue: VecDeque::new(),
            kept: None,
            timer: None,
            ends: false,
        };
        Self { reading, writing, live: false, over: false }
    }

    /// The connection is gone, and what was under way with it.
    fn cut(&mut self, cx: &mut Cx<'_, R, W>, cause: CloseCause) {
        tracing::debug!(channel = %cx.view().id(), %cause, "chaos ends a connection");
        self.over = true;
        self.forget_reads(cx);
        self.fail_writes(cx, &WriteError::Closed(cause.clone()));
        cx.close_because(cause);
    }

    // ---- reading ----

    fn next_read(&mut self, cx: &mut Cx<'_, R, W>) -> Option<R> {
        loop {
            let due = self.reading.queue.front()?.0;
            let wait = due.saturating_duration_since(cx.now());
            if !wait.is_zero() {
                if self.reading.timer.is_none() {
                    self.reading.timer = Some(cx.arm(wait));
                }
                return None;
            }
            let (_, inbound, fate) = self.reading.queue.pop_front()?;
            if let Some(cause) = cause_of(fate) {
                self.cut(cx, cause);
                return None;
            }
            match inbound {
                Inbound::Message(mut msg) => {
                    self.take_off(cx, msg.amount() + PIECE);
                    if let Fate::Corrupt(bit) = fate {
                        msg.flip_bit(bit);
                    }
                    self.see_to_news(cx);
                    return Some(msg);
                }
                news => news.fire(cx),
            }
        }
    }

    /// What comes next may be news: they go on also if the application pauses with this message.
    fn see_to_news(&mut self, cx: &mut Cx<'_, R, W>) {
        if let Some((due, inbound, _)) = self.reading.queue.front()
            && !matches!(inbound, Inbound::Message(_))
        {
            let wait = due.saturating_duration_since(cx.now());
            self.reading.timer.get_or_insert_with(|| cx.arm(wait));
        }
    }

    /// News wait for the messages in front of them, and not for an application that has paused.
    fn fire_due_news(&mut self, cx: &mut Cx<'_, R, W>) {
        while let Some((due, inbound, _)) = self.reading.queue.front()
            && !matches!(inbound, Inbound::Message(_))
        {
            let wait = due.saturating_duration_since(cx.now());
            if !wait.is_zero() {
                self.reading.timer.get_or_insert_with(|| cx.arm(wait));
                return;
            }
            if let Some((_, news, _)) = self.reading.queue.pop_front() {
                news.fire(cx);
            }
        }
    }

    fn take_off(&mut self, cx: &mut Cx<'_, R, W>, amount: u64) {
        self.reading.amount = self.reading.amount.saturating_sub(amount);
        if self.reading.amount < self.reading.link.faults.buffer
            && let Some(hold) = self.reading.hold.take()
        {
            hold.release(cx);
        }
    }

    fn tell(&mut self, cx: &mut Cx<'_, R, W>, news: Inbound<R>) {
        if self.reading.queue.is_empty() && self.reading.link.faults.latency.is_zero() {
            return news.fire(cx);
        }
        let due = self.reading.link.behind(cx.now());
        self.reading.queue.push_back((due, news, Fate::Passes));
        if self.reading.timer.is_none() {
            self.reading.timer = Some(cx.arm(due.saturating_duration_since(cx.now())));
        }
    }

    fn stop_reading(&mut self, cx: &mut Cx<'_, R, W>) {
        self.reading.amount = 0;
        self.reading.owes_complete = false;
        if let Some(timer) = self.reading.timer.take() {
            cx.disarm(timer);
        }
        if let Some(hold) = self.reading.hold.take() {
            hold.release(cx);
        }
    }

    fn forget_reads(&mut self, cx: &mut Cx<'_, R, W>) {
        self.reading.queue.clear();
        self.stop_reading(cx);
    }

    fn deliver_all(&mut self, cx: &mut Cx<'_, R, W>) {
        self.stop_reading(cx);
        let all = std::mem::take(&mut self.reading.queue);
        fire_all(all.into_iter().map(|(_, inbound, _)| inbound).collect(), cx);
    }

    // ---- writing ----

    /// What was flushed sets out.
    fn send_off(&mut self, cx: &mut Cx<'_, R, W>) {
        let now = cx.now();
        for Written { mut msg, done, mut weight } in std::mem::take(&mut self.writing.gathered) {
            loop {
                let (all, len) = (msg.amount(), self.writing.link.piece());
                let piece = if len < all { msg.take_piece(len) } else { None };
                let Some(piece) = piece else { break };
                let left = cx.weigh(&msg).min(weight);
                let written = Written { msg: piece, done: WritePromise::untracked(), weight: weight - left };
                weight = left;
                let (due, fate) = self.writing.link.take(now, len);
                self.writing.queue.push_back((due, Out::Piece(written, fate)));
            }
            let (due, fate) = self.writing.link.take(now, msg.amount());
            self.writing.queue.push_back((due, Out::Piece(Written { msg, done, weight }, fate)));
        }
    }

    /// Passes on what is due; or everything, when the channel is about to close.
    fn pass_writes(&mut self, cx: &mut Cx<'_, R, W>, all: bool) {
        let mut passed = false;
        while let Some((due, _)) = self.writing.queue.front() {
            let wait = due.saturating_duration_since(cx.now());
            if !all && !wait.is_zero() {
                if self.writing.timer.is_none() {
                    self.writing.timer = Some(cx.arm(wait));
                }
                break;
            }
            match self.writing.queue.pop_front() {
                Some((_, Out::Piece(Written { mut msg, done, weight }, fate))) => {
                    if let Some(cause) = cause_of(fate).filter(|_| !all) {
                        done.fail(WriteError::Closed(cause.clone()));
                        cx.flush();
                        return self.cut(cx, cause);
                    }
                    if let Fate::Corrupt(bit) = fate {
                        msg.flip_bit(bit);
                    }
                    if let Some(kept) = &mut self.writing.kept {
                        kept.sub(cx, weight);
                    }
                    cx.write_with(msg, done);
                    passed = true;
                }
                Some((_, Out::End(done))) => {
                    if std::mem::take(&mut passed) {
                        cx.flush();
                    }
                    cx.shut_down_output_with(done);
                }
                None => break,
            }
        }
        if passed {
            cx.flush();
        }
    }

    fn fail_writes(&mut self, cx: &mut Cx<'_, R, W>, error: &WriteError) {
        if let Some(timer) = self.writing.timer.take() {
            cx.disarm(timer);
        }
        if let Some(kept) = &mut self.writing.kept {
            kept.sub(cx, kept.bytes());
        }
        let queue = std::mem::take(&mut self.writing.queue);
        let gathered = std::mem::take(&mut self.writing.gathered);
        let queue = queue.into_iter().map(|(_, out)| out);
        for out in queue.chain(gathered.into_iter().map(|written| Out::Piece(written, Fate::Passes))) {
            match out {
                Out::Piece(Written { msg, done, .. }, _) => {
                    drop(msg); // released when somebody hears of it
                    done.fail(error.clone());
                }
                Out::End(done) => done.fail(error.clone()),
            }
        }
    }
}

impl<R: Pieces, W: Pieces> Filter<R, W> for ChaosStage<R, W> {
    fn active(&mut self, cx: &mut Cx<'_, R, W>) {
        self.live = true;
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Cx<'_, R, W>, mut msg: R) {
        if self.over {
            return; // it was cut
        }
        let now = cx.now();
        loop {
            let (all, len) = (msg.amount(), self.reading.link.piece());
            let piece = if len < all { msg.take_piece(len) } else { None };
            let Some(piece) = piece else { break };
            let (due, fate) = self.reading.link.take(now, len);
            self.reading.amount = self.reading.amount.saturating_add(len + PIECE);
            self.reading.queue.push_back((due, Inbound::Message(piece), fate));
        }
        let (due, fate) = self.reading.link.take(now, msg.amount());
        self.reading.amount = self.reading.amount.saturating_add(msg.amount() + PIECE);
        self.reading.queue.push_back((due, Inbound::Message(msg), fate)); // given out by `pull`
        if self.reading.amount >= self.reading.link.faults.buffer && self.reading.hold.is_none() {
            self.reading.hold = Some(cx.hold_input());
        }
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

    fn read_complete(&mut self, cx: &mut Cx<'_, R, W>) {
        if self.reading.queue.is_empty() {
            cx.fire_read_complete();
        }
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
        self.deliver_all(cx);
        self.over = true;
        self.fail_writes(cx, &WriteError::Closed(cause.clone()));
        cx.fire_inactive(cause);
    }

    fn write(&mut self, cx: &mut Cx<'_, R, W>, msg: W, done: WritePromise) {
        if self.over {
            return cx.write_with(msg, done);
        }
        if self.writing.ends {
            drop(msg);
            return done.fail(WriteError::OutputShutDown);
        }
        let weight = cx.weigh(&msg);
        self.writing.kept.get_or_insert_with(|| cx.keep(0)).add(cx, weight);
        self.writing.gathered.push(Written { msg, done, weight });
    }

    fn flush(&mut self, cx: &mut Cx<'_, R, W>) {
        if self.over {
            return cx.flush();
        }
        if !self.writing.ends {
            self.send_off(cx);
            self.pass_writes(cx, false);
        }
    }

    /// What was flushed would have been taken by the system long ago, if the network was as fast as it is: it goes.
    fn close(&mut self, cx: &mut Cx<'_, R, W>, cause: CloseCause, done: WritePromise) {
        self.pass_writes(cx, true);
        self.over = true;
        self.fail_writes(cx, &WriteError::Closed(cause.clone()));
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Cx<'_, R, W>, done: WritePromise) {
        if self.over {
            return cx.shut_down_output_with(done);
        }
        self.writing.ends = true;
        let due = self.writing.link.behind(cx.now());
        self.writing.queue.push_back((due, Out::End(done)));
        self.pass_writes(cx, false);
        // What was not flushed before is not sent.
        for Written { msg, done, weight } in std::mem::take(&mut self.writing.gathered) {
            if let Some(kept) = &mut self.writing.kept {
                kept.sub(cx, weight);
            }
            drop(msg);
            done.fail(WriteError::OutputShutDown);
        }
    }

    fn timer(&mut self, cx: &mut Cx<'_, R, W>, timer: StageTimer) {
        if self.reading.timer == Some(timer) {
            self.reading.timer = None;
            self.reading.owes_complete = true; // and `pull` is asked, unless the channel is paused
            self.fire_due_news(cx);
        } else if self.writing.timer == Some(timer) {
            self.writing.timer = None;
            self.pass_writes(cx, false);
        }
    }

    fn owes(&self) -> bool {
        self.reading.timer.is_some()
    }

    fn is_busy(&self) -> bool {
        self.live && !self.over && !self.writing.queue.is_empty()
    }

    fn leaving(&mut self, cx: &mut Cx<'_, R, W>) {
        self.send_off(cx);
        self.pass_writes(cx, true);
    }

    fn panicked(&mut self, cx: &mut Cx<'_, R, W>) {
        self.pass_writes(cx, true);
        self.over = true;
        self.fail_writes(cx, &WriteError::Closed(CloseCause::Requested));
    }

    fn leftover(&mut self) -> Leftover<R> {
        let queue = std::mem::take(&mut self.reading.queue);
        Leftover::many(queue.into_iter().filter_map(|(_, inbound, _)| inbound.into_message()).collect())
    }
}

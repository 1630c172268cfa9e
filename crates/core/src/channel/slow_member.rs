//! What a group does with a member that does not take its messages as fast as others do.
//!
//! ```text
//!                        room ──▶ written, as to every member
//!   message for one  ──▶ none ──▶ waits with the channel while no more than so many bytes do; then the member is closed, or
//!                                 the message is left out
//!                            └──▶ conflate: the latest of each key waits here ── room ──▶ written
//! ```
//! Always true:
//! 1. What waits for one member is bounded, whatever the policy is: by bytes beyond its high water mark, or by the number of keys.
//! 2. While something waits here for a member, what is written next to it waits behind it: its messages keep their order.
//! 3. Keys are plain data, so nobody else's code runs under the lock; messages are dropped and promises kept outside of it.

use super::{Channel, CloseCause, Fault, WriteError, WritePromise};
use std::{
    collections::{HashMap, VecDeque},
    error::Error,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// What may wait for a member beyond its high water mark by default: a burst for a slow line, and no more than a few of them can hurt.
const BEYOND_MARK: usize = 16 << 20;
/// Keys that may wait for one member.
const KEYS_MAX: usize = 1024;

/// What a [`ChannelGroup`](super::ChannelGroup) does with members that do not read as fast as it writes:
/// [`ChannelGroup::slow_members`](super::ChannelGroup::slow_members).
///
/// A member is slow while its channel is not [writable](Channel::is_writable), which is decided by its water marks. Others never wait for it.
///
/// | policy | a slow member | use it for |
/// | --- | --- | --- |
/// | [`close`](Self::close), the default with 16 MiB | is closed with [`SlowMember::Closed`] when more waits for it | what must be seen whole: a log, a chat |
/// | [`drop_newest`](Self::drop_newest) | does not get what comes when so much waits for it | samples, of which a burst is to survive |
/// | [`skip`](Self::skip) | is left out until it is fast again | presence, ticks |
/// | [`conflate`](Self::conflate) | gets the latest message of each key when it is fast again | prices, positions, the state of things |
///
/// ```
/// use netwright_core::{ChannelGroup, EmbeddedChannel, SlowMembers, pipeline};
/// use bytes::Bytes;
///
/// let mut slow = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let prices = ChannelGroup::<netwright_core::Outgoing>::new().slow_members(SlowMembers::skip());
/// prices.add(slow.channel().clone());
///
/// slow.block_output(true);
/// prices.write_and_flush(vec![b'.'; 100_000]); // fills it up
/// slow.run();
/// prices.write_and_flush("missed");
/// assert_eq!(prices.slow_figures().left_out, 1);
///
/// slow.block_output(false).run();
/// prices.write_and_flush("seen");
/// assert!(slow.run().outbound_bytes().ends_with(b".seen"));
/// ```
#[doc(alias = "slow consumer")]
#[doc(alias = "backpressure")]
pub struct SlowMembers<W> {
    pub(super) kind: Kind<W>,
}

pub(super) enum Kind<W> {
    Close { above: usize },
    Drop { above: usize },
    Conflate { key: Arc<KeyOf<W>>, keys_max: usize },
}

type KeyOf<W> = dyn Fn(&W) -> ConflationKey + Send + Sync;

impl<W> SlowMembers<W> {
    /// Closes a member for which more than so many bytes would wait beyond its high water mark.
    pub fn close(above: usize) -> Self {
        Self { kind: Kind::Close { above } }
    }

    /// Drops what comes for a member while so many bytes wait beyond its high water mark, and more would with it.
    pub fn drop_newest(above: usize) -> Self {
        Self { kind: Kind::Drop { above } }
    }

    /// Leaves a member out of what is written while it has no room.
    pub fn skip() -> Self {
        Self::drop_newest(0)
    }

    /// Keeps the latest message of each key for a member that has no room. At most 1,024 keys wait for one member; of more,
    /// the message that has waited longest is left out.
    ///
    /// The key is asked for once for each slow member, on the thread that writes.
    ///
    /// ```
    /// use netwright_core::{ChannelGroup, EmbeddedChannel, Outgoing, SlowMembers, pipeline};
    /// use std::time::Duration;
    ///
    /// // Messages are like `ACME 12`.
    /// let symbol = |message: &Outgoing| match message {
    ///     Outgoing::Bytes(bytes) => String::from_utf8_lossy(bytes.split(|byte| *byte == b' ').next().unwrap()).into_owned(),
    ///     _ => String::new(),
    /// };
    /// let prices = ChannelGroup::new().slow_members(SlowMembers::conflate(symbol));
    /// let mut slow = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
    /// prices.add(slow.channel().clone());
    /// slow.block_output(true);
    /// prices.write_and_flush(vec![b'.'; 100_000]);
    /// slow.run();
    /// for price in ["ACME 12 ", "INCA 7 ", "ACME 13 ", "ACME 14 "] {
    ///     prices.write_and_flush(price);
    /// }
    /// assert_eq!(prices.slow_figures().superseded, 2);
    /// slow.block_output(false).run();
    /// assert!(slow.run().outbound_bytes().ends_with(b".ACME 14 INCA 7 "));
    /// ```
    pub fn conflate<K: Into<ConflationKey>>(key: impl Fn(&W) -> K + Send + Sync + 'static) -> Self {
        Self { kind: Kind::Conflate { key: Arc::new(move |msg| key(msg).into()), keys_max: KEYS_MAX } }
    }

    /// As many keys may wait for one member of a group that [conflates](Self::conflate), at least one. Of no effect for other policies.
    #[must_use]
    pub fn keys_max(mut self, keys: usize) -> Self {
        if let Kind::Conflate { keys_max, .. } = &mut self.kind {
            *keys_max = keys.max(1);
        }
        self
    }
}

impl<W> Default for SlowMembers<W> {
    fn default() -> Self {
        Self::close(BEYOND_MARK)
    }
}

impl<W> fmt::Debug for SlowMembers<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Close { above } => f.debug_struct("Close").field("above", above).finish(),
            Kind::Drop { above } => f.debug_struct("DropNewest").field("above", above).finish(),
            Kind::Conflate { keys_max, .. } => {
                f.debug_struct("Conflate").field("keys_max", keys_max).finish()
            }
        }
    }
}

/// What messages of one subject have in common, for [`SlowMembers::conflate`]: a number or text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ConflationKey {
    /// A number.
    Number(u64),
    /// Text.
    Text(Box<str>),
}

impl From<u64> for ConflationKey {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for ConflationKey {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<String> for ConflationKey {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&str> for ConflationKey {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

/// What became of a message for a slow member, or of the member: in the [`Fault`] of a tracked write, or of the channel's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlowMember {
    /// More than so many bytes would have waited for it beyond its high water mark: it was closed.
    Closed {
        /// The limit.
        above: usize,
        /// What would have waited.
        waiting: usize,
    },
    /// More than so many bytes would have waited for it: the message was dropped.
    LeftOut {
        /// The limit.
        above: usize,
        /// What would have waited.
        waiting: usize,
    },
    /// More than so many keys would have waited for it: the message was dropped, as the one that had waited longest.
    TooManyKeys {
        /// The limit.
        max: usize,
    },
    /// A later message of the same key took its place.
    Superseded,
}

impl fmt::Display for SlowMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { above, waiting } => {
                write!(f, "the member was too slow: {waiting} bytes would wait for it, more than {above}")
            }
            Self::LeftOut { above, waiting } => {
                write!(f, "left out for a slow member: {waiting} bytes would wait for it, more than {above}")
            }
            Self::TooManyKeys { max } => {
                write!(f, "left out for a slow member: more than {max} keys would wait for it")
            }
            Self::Superseded => f.write_str("a later message of its key took its place"),
        }
    }
}

impl Error for SlowMember {}

/// What slow members have cost: of a whole group ([`ChannelGroup::slow_figures`](super::ChannelGroup::slow_figures)), or of one member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowFigures {
    /// Messages that members were not given.
    pub left_out: u64,
    /// Messages in whose place a later one of their key was written.
    pub superseded: u64,
    /// Members that were closed.
    pub closed: u64,
}

#[derive(Default)]
pub(super) struct Counts {
    left_out: AtomicU64,
    superseded: AtomicU64,
    closed: AtomicU64,
}

impl Counts {
    pub(super) fn read(&self) -> SlowFigures {
        SlowFigures {
            left_out: self.left_out.load(Ordering::Relaxed),
            superseded: self.superseded.load(Ordering::Relaxed),
            closed: self.closed.load(Ordering::Relaxed),
        }
    }

    fn count(&self, what: SlowMember) {
        let count = match what {
            SlowMember::Closed { .. } => &self.closed,
            SlowMember::Superseded => &self.superseded,
            SlowMember::LeftOut { .. } | SlowMember::TooManyKeys { .. } => &self.left_out,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A channel as its group sees it.
pub(super) struct Member<W> {
    pub(super) channel: Channel<W>,
    /// Bytes written since it was slow. Nobody counts while it is not.
    beyond: AtomicUsize,
    pub(super) counts: Counts,
    /// The latest of each key: one pointer until something has to wait here.
    latest: Mutex<Option<Box<Latest<W>>>>,
}

struct Latest<W> {
    /// In the order in which they came to wait.
    order: VecDeque<ConflationKey>,
    messages: HashMap<ConflationKey, (W, WritePromise)>,
}

impl<W: Send + 'static> Member<W> {
    pub(super) fn new(channel: Channel<W>) -> Arc<Self> {
        let (beyond, counts) = (AtomicUsize::new(0), Counts::default());
        Arc::new(Self { channel, beyond, counts, latest: Mutex::new(None) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<Latest<W>>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a message to it, as far as the policy lets it.
    pub(super) fn give(
        self: &Arc<Self>,
        msg: W,
        done: WritePromise,
        flush: bool,
        policy: &Kind<W>,
        group: &Counts,
    ) {
        let room = self.channel.is_writable();
        let lost = match policy {
            Kind::Conflate { key, keys_max } => {
                if room && self.lock().is_none() {
                    None
                } else {
                    return self.keep(key(&msg), (msg, done), *keys_max, group);
                }
            }
            Kind::Close { above } => {
                self.too_much(&msg, *above, room).map(|waiting| SlowMember::Closed { above: *above, waiting })
            }
            Kind::Drop { above } => self
                .too_much(&msg, *above, room)
                .map(|waiting| SlowMember::LeftOut { above: *above, waiting }),
        };
        let Some(lost) = lost else {
            self.channel.write_with::<W>(msg, done);
            if flush {
                self.channel.flush();
            }
            return;
        };
        if matches!(lost, SlowMember::Closed { .. }) {
            if self.channel.is_closing() {
                return done.fail(WriteError::Fault(lost.into()));
            }
            drop(self.channel.close_because(CloseCause::Fault(Fault::from(lost))));
        }
        self.lose(lost, done, group);
    }

    fn lose(&self, why: SlowMember, done: WritePromise, group: &Counts) {
        self.counts.count(why);
        group.count(why);
        done.fail(WriteError::Fault(why.into()));
    }

    /// How many bytes would wait with this message beyond the mark, if that is too much. If not, they do.
    fn too_much(&self, msg: &W, above: usize, room: bool) -> Option<usize> {
        if room {
            if self.beyond.load(Ordering::Relaxed) > 0 {
                self.beyond.store(0, Ordering::Relaxed);
            }
            return None;
        }
        let size = self.channel.size(msg);
        let more = |waiting: usize| waiting.checked_add(size).filter(|waiting| *waiting <= above);
        match self.beyond.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => None,
            Err(waiting) => Some(waiting.saturating_add(size)),
        }
    }

    /// Keeps a message until there is room.
    fn keep(self: &Arc<Self>, key: ConflationKey, msg: (W, WritePromise), max: usize, group: &Counts) {
        let mut latest = self.lock();
        let begins = latest.is_none();
        let waiting = latest
            .get_or_insert_with(|| Box::new(Latest { order: VecDeque::new(), messages: HashMap::new() }));
        let (lost, why) = match waiting.messages.insert(key.clone(), msg) {
            Some(earlier) => (Some(earlier), SlowMember::Superseded),
            None => {
                waiting.order.push_back(key);
                let oldest = if waiting.order.len() > max { waiting.order.pop_front() } else { None };
                let oldest = oldest.and_then(|key| waiting.messages.remove(&key));
                (oldest, SlowMember::TooManyKeys { max })
            }
        };
        drop(latest);
        if let Some((msg, done)) = lost {
            drop(msg);
            self.lose(why, done, group);
        }
        if begins {
            let member = self.clone();
            let writing = async move { member.write_latest().await };
            if self.channel.event_loop().spawn(writing).is_err() {
                self.forget(); // the loop ends, and the channel with it
            }
        }
    }

    /// Writes what waits here as there is room, until nothing does.
    async fn write_latest(self: Arc<Self>) {
        let mut guard = Forgets(Some(self.clone()));
        let member = &self;
        while member.channel.writable().await.is_ok() {
            let next = {
                let mut latest = member.lock();
                let next = latest.as_mut().and_then(|waiting| {
                    let key = waiting.order.pop_front()?;
                    waiting.messages.remove(&key)
                });
                if next.is_none() {
                    // In the same step: what comes now is written by whoever brings it, or begins anew.
                    let empty = latest.take();
                    drop(latest);
                    drop((empty, guard.0.take())); // what waits from now on is not ours to forget
                    return;
                }
                next
            };
            if let Some((msg, done)) = next {
                member.channel.write_with::<W>(msg, done);
                member.channel.flush();
            }
        }
    }

    /// Nothing more will be written: those who wait for it are told.
    fn forget(&self) {
        let latest = self.lock().take();
        let Some(latest) = latest else { return };
        let cause = self.channel.close_cause();
        for (_, (msg, done)) in latest.messages {
            drop(msg);
            done.fail(cause.clone().map_or(WriteError::Abandoned, WriteError::Closed));
        }
    }
}

/// Tells those who wait, if the future that writes ends before it has written all: with the channel, or with its loop.
struct Forgets<W: Send + 'static>(Option<Arc<Member<W>>>);

impl<W: Send + 'static> Drop for Forgets<W> {
    fn drop(&mut self) {
        if let Some(member) = &self.0 {
            member.forget();
        }
    }
}

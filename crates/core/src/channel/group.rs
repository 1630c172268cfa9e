//! Several channels of one kind, as one.
//!
//! ```text
//!   add ──▶ ┌ ChannelGroup ─────────────┐ ── write, flush, send, close ──▶ every member, or those that a filter picks
//!           │ #1  #2  #5  …  (by number)│ ◀─ the end of a member: it leaves by itself
//!           └───────────────────────────┘
//! ```
//! Always true:
//! 1. A member that has ended is told to the group by its channel, before its pipeline hears of it: nobody has to remove
//!    members, and the group keeps no thread and no timer for it.
//! 2. No lock is held while a message is cloned, a filter runs or a member is dropped. Broadcasts go over a list that is
//!    made anew only after the membership has changed.
//! 3. A channel holds one listener for each group that it is in, and none for groups that it has left or that are gone.
//!
//! Not here: what becomes of members that are slow (`slow_member.rs`); which channels belong together (users), servers' own lists of connections (`transport`).

use super::{
    Carries, Channel, ChannelId, CloseCause, Outgoing, SlowFigures, SlowMembers, WriteError, WritePromise,
    slow_member::{Counts, Member},
};
use crate::promise::{Promise, PromiseError, Promised, promise};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Channels that take the same messages: the members of a chat, the subscribers of a topic.
///
/// Cheap to clone, and any thread may use it. Its verbs are those of a [`Channel`] (`docs/verbs.md`), for each member; with `_if` for
/// those that a closure picks. A member leaves when its channel ends. Messages of one thread reach every
/// member in the same order; two threads that broadcast at once may reach different members in different orders.
///
/// Nobody waits for a member that does not read. One for which more than 16 MiB would wait beyond its high water mark is closed;
/// [`slow_members`](Self::slow_members) takes other policies.
///
/// ```
/// use netwright_core::{ChannelGroup, EmbeddedChannel, pipeline};
/// use bytes::Bytes;
///
/// let member = || EmbeddedChannel::new(pipeline().handle(|_, _| ()));
/// let (mut ann, mut bob) = (member(), member());
/// let room = ChannelGroup::new();
/// room.add(ann.channel().clone());
/// room.add(bob.channel().clone());
///
/// room.write_and_flush(Bytes::from("hello, all"));
/// room.write_and_flush_if(Bytes::from("psst"), |channel| channel != bob.channel());
/// assert_eq!(ann.outbound_bytes(), b"hello, allpsst");
/// assert_eq!(bob.outbound_bytes(), b"hello, all");
///
/// bob.close_by_peer();
/// assert_eq!(room.len(), 1);
/// ```
pub struct ChannelGroup<W = Outgoing> {
    inner: Arc<Inner<W>>,
}

struct Inner<W> {
    state: Mutex<State<W>>,
    counts: Counts,
}

struct State<W> {
    members: BTreeMap<ChannelId, Arc<Member<W>>>,
    /// The members as broadcasts see them; made when it is needed, forgotten when somebody comes or goes.
    list: Option<Receivers<W>>,
    /// And as everybody else does.
    channels: Option<Arc<[Channel<W>]>>,
    slow: Arc<SlowMembers<W>>,
    stays_closed: bool,
    closed: bool,
}

impl<W: Send + 'static> ChannelGroup<W> {
    /// A group without members.
    pub fn new() -> Self {
        let state = State {
            members: BTreeMap::new(),
            list: None,
            channels: None,
            slow: Arc::default(),
            stays_closed: false,
            closed: false,
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), counts: Counts::default() }) }
    }

    /// What becomes of members that do not read as fast as the group writes, from now on. Default: [`SlowMembers::close`] above 16 MiB.
    #[must_use]
    pub fn slow_members(self, policy: SlowMembers<W>) -> Self {
        let before = std::mem::replace(&mut self.inner.lock().slow, Arc::new(policy));
        drop(before); // with no lock held: it may have a closure
        self
    }

    /// What slow members have cost since the group was made, those that have left included.
    pub fn slow_figures(&self) -> SlowFigures {
        self.inner.counts.read()
    }

    /// What a member was not given because it was slow, since it came.
    pub fn slow_figures_of(&self, id: ChannelId) -> Option<SlowFigures> {
        self.inner.lock().members.get(&id).map(|member| member.counts.read())
    }

    /// Once [`close`](Self::close) was called, the group takes no member any more: a late one is closed at once. For
    /// shutdowns, so that nobody slips in behind them.
    #[must_use]
    pub fn stay_closed(self) -> Self {
        self.inner.lock().stays_closed = true;
        self
    }

    // ---- members ----

    /// Takes a channel in. False if it is a member already or has ended, or if the group was closed for good: then the
    /// channel is closed.
    pub fn add(&self, channel: Channel<W>) -> bool {
        let (id, group) = (channel.id(), Arc::downgrade(&self.inner));
        let leave = Box::new(move |_: &_| {
            if let Some(inner) = group.upgrade() {
                inner.leave(id);
            }
        });
        let mut state = self.inner.lock();
        if state.closed {
            drop(state);
            channel.close();
            return false;
        }
        if state.members.contains_key(&id) {
            return false;
        }
        // Under the lock, so that an end or a removal that comes now waits until the channel is a member.
        if let Err(leave) = channel.listen_for(self.inner.owner(), leave) {
            drop(state);
            drop(leave);
            return false;
        }
        let before = (state.members.insert(id, Member::new(channel)), state.changed());
        drop(state);
        drop(before);
        true
    }

    /// Lets a channel go, which stays open. False if it is no member.
    pub fn remove(&self, id: ChannelId) -> bool {
        let mut state = self.inner.lock();
        let Some(member) = state.members.remove(&id) else { return false };
        let gone = (member.channel.take_listener(self.inner.owner()), state.changed());
        drop(state);
        drop((gone, member));
        true
    }

    /// Whether a channel is a member.
    pub fn contains(&self, id: ChannelId) -> bool {
        self.inner.lock().members.contains_key(&id)
    }

    /// The member of this number.
    pub fn get(&self, id: ChannelId) -> Option<Channel<W>> {
        self.inner.lock().members.get(&id).map(|member| member.channel.clone())
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.inner.lock().members.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The members at this moment, by number. Costs nothing while nobody comes or goes.
    pub fn members(&self) -> Arc<[Channel<W>]> {
        let mut state = self.inner.lock();
        let State { members, channels, .. } = &mut *state;
        channels
            .get_or_insert_with(|| members.values().map(|member| member.channel.clone()).collect())
            .clone()
    }

    /// The members for a broadcast, and what becomes of the slow ones.
    fn receivers(&self) -> (Receivers<W>, Arc<SlowMembers<W>>) {
        let mut state = self.inner.lock();
        let State { members, list, slow, .. } = &mut *state;
        (list.get_or_insert_with(|| members.values().cloned().collect()).clone(), slow.clone())
    }

    // ---- untracked: nothing is allocated for a member but what the clone of the message needs ----

    /// Writes a message to every member; it is sent with the next flush.
    /// Until then it takes room of each of them: see [`Channel::write`].
    pub fn write<M>(&self, msg: M)
    where
        W: Carries<M> + Clone,
    {
        self.write_if(msg, |_| true);
    }

    /// Writes a message to the members that `filter` picks.
    pub fn write_if<M>(&self, msg: M, filter: impl FnMut(&Channel<W>) -> bool)
    where
        W: Carries<M> + Clone,
    {
        self.spread(W::carry(msg), filter, false, |_| WritePromise::untracked());
    }

    /// Sends what was written so far, on every member.
    pub fn flush(&self) {
        self.flush_if(|_| true);
    }

    /// Sends what was written so far, on the members that `filter` picks.
    pub fn flush_if(&self, mut filter: impl FnMut(&Channel<W>) -> bool) {
        for channel in self.members().iter() {
            if filter(channel) {
                channel.flush();
            }
        }
    }

    /// Writes a message to every member, and sends it.
    pub fn write_and_flush<M>(&self, msg: M)
    where
        W: Carries<M> + Clone,
    {
        self.write_and_flush_if(msg, |_| true);
    }

    /// Writes a message to the members that `filter` picks, and sends it.
    pub fn write_and_flush_if<M>(&self, msg: M, filter: impl FnMut(&Channel<W>) -> bool)
    where
        W: Carries<M> + Clone,
    {
        self.spread(W::carry(msg), filter, true, |_| WritePromise::untracked());
    }

    // ---- with a result for each member ----

    /// Writes a message to every member, and sends it. The future tells what became of it for each.
    pub fn send<M>(&self, msg: M) -> GroupWritten
    where
        W: Carries<M> + Clone,
    {
        self.send_if(msg, |_| true)
    }

    /// Writes a message to the members that `filter` picks, and sends it. The future tells what became of it for each.
    pub fn send_if<M>(&self, msg: M, filter: impl FnMut(&Channel<W>) -> bool) -> GroupWritten
    where
        W: Carries<M> + Clone,
    {
        let mut writes = Vec::new();
        self.spread(W::carry(msg), filter, true, |channel| {
            let (done, written) = WritePromise::tracked();
            writes.push((channel.id(), written));
            done
        });
        let (gather, written) = Gather::of(writes.iter().map(|(id, _)| *id));
        for (index, (_, write)) in writes.iter().enumerate() {
            let gather = gather.clone();
            write.listen(move |result| gather.put(index, result.clone()));
        }
        written
    }

    // ---- the end ----

    /// Closes every member. The future resolves when all of them are closed. Members may come again, unless the group
    /// [stays closed](Self::stay_closed).
    pub fn close(&self) -> GroupWritten {
        self.closes();
        self.close_if(|_| true)
    }

    /// Closes the members that `filter` picks. The future resolves when these are closed.
    pub fn close_if(&self, filter: impl FnMut(&Channel<W>) -> bool) -> GroupWritten {
        self.end(filter, |channel| drop(channel.close()))
    }

    /// [`close`](Self::close) for a reason that everybody will be told.
    pub fn close_because(&self, cause: CloseCause) -> GroupWritten {
        self.closes();
        self.end(|_| true, |channel| drop(channel.close_because(cause.clone())))
    }

    /// [`close`](Self::close) of each member once everything that was flushed to it is sent.
    pub fn close_when_flushed(&self) -> GroupWritten {
        self.closes();
        self.end(|_| true, |channel| drop(channel.close_when_flushed()))
    }

    /// All are asked to close: who comes from now on may not be taken.
    fn closes(&self) {
        let mut state = self.inner.lock();
        state.closed = state.stays_closed;
    }

    /// Has `close` end the members that `filter` picks.
    fn end(
        &self,
        mut filter: impl FnMut(&Channel<W>) -> bool,
        mut close: impl FnMut(&Channel<W>),
    ) -> GroupWritten {
        let members = self.members();
        let picked: Vec<&Channel<W>> = members.iter().filter(|channel| filter(channel)).collect();
        let (gather, closed) = Gather::of(picked.iter().map(|channel| channel.id()));
        for (index, channel) in picked.into_iter().enumerate() {
            let gather = gather.clone();
            channel.on_close(move |_| gather.put(index, Ok(())));
            close(channel);
        }
        closed
    }

    /// Gives every picked member a message with a promise: the last one the message itself, those before it clones.
    fn spread(
        &self,
        msg: W,
        mut filter: impl FnMut(&Channel<W>) -> bool,
        flush: bool,
        mut promise: impl FnMut(&Channel<W>) -> WritePromise,
    ) where
        W: Clone,
    {
        let (members, slow) = self.receivers();
        let counts = &self.inner.counts;
        let mut picked = members.iter().filter(|member| filter(&member.channel));
        let Some(mut last) = picked.next() else { return };
        for next in picked {
            last.give(msg.clone(), promise(&last.channel), flush, &slow.kind, counts);
            last = next;
        }
        last.give(msg, promise(&last.channel), flush, &slow.kind, counts);
    }
}

/// The members, as broadcasts go over them.
type Receivers<W> = Arc<[Arc<Member<W>>]>;

/// What was known of the members.
type Lists<W> = (Option<Receivers<W>>, Option<Arc<[Channel<W>]>>);

impl<W> State<W> {
    /// Somebody has come or gone. What was known is for the caller to drop, outside of the lock.
    fn changed(&mut self) -> Lists<W> {
        (self.list.take(), self.channels.take())
    }
}

impl<W> Inner<W> {
    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this group's listeners are known by. Nobody else can have it: a listener keeps the place in memory taken.
    fn owner(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The channel has ended.
    fn leave(&self, id: ChannelId) {
        let mut state = self.lock();
        let gone = (state.members.remove(&id), state.changed());
        drop(state);
        drop(gone);
    }
}

impl<W> Drop for Inner<W> {
    fn drop(&mut self) {
        let owner = self.owner();
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for member in state.members.values() {
            drop(member.channel.take_listener(owner));
        }
    }
}

impl<W: Send + 'static> Default for ChannelGroup<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<W> Clone for ChannelGroup<W> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<W: Send + 'static> fmt::Debug for ChannelGroup<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelGroup").field("members", &self.len()).finish_non_exhaustive()
    }
}

/// The results of a whole group, on their way. Giving it up does not take the operation back.
///
/// ```
/// use netwright_core::{ChannelGroup, EmbeddedChannel, GroupWritten, pipeline};
/// use bytes::Bytes;
///
/// let mut ann = EmbeddedChannel::new(pipeline().handle(|_, _| {}));
/// let room = ChannelGroup::new();
/// room.add(ann.channel().clone());
/// let mut written: GroupWritten = room.send(Bytes::from("hello"));
/// ann.run();
/// assert!(written.wait().unwrap().is_success());
/// ```
pub type GroupWritten = Promised<GroupResult, PromiseError>;

/// What became of an operation, for each member that it was for.
///
/// ```
/// use netwright_core::{ChannelGroup, EmbeddedChannel, pipeline};
/// use bytes::Bytes;
///
/// let (mut ann, mut bob) =
///     (EmbeddedChannel::new(pipeline().handle(|_, _| {})), EmbeddedChannel::new(pipeline().handle(|_, _| {})));
/// let room = ChannelGroup::new();
/// room.add(ann.channel().clone());
/// room.add(bob.channel().clone());
/// bob.block_output(true); // does not read, and leaves
/// let mut written = room.send(Bytes::from("hello"));
/// ann.run();
/// bob.run().close_by_peer();
/// let result = written.wait().unwrap();
/// assert_eq!((result.len(), result.failures().count()), (2, 1));
/// assert!(result.get(ann.channel().id()).unwrap().is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct GroupResult {
    results: Vec<(ChannelId, Result<(), WriteError>)>,
}

impl GroupResult {
    /// Whether it was carried out for all of them; true if there were none.
    pub fn is_success(&self) -> bool {
        self.failures().next().is_none()
    }

    /// The result of one member; `None` if the operation was not for it.
    pub fn get(&self, id: ChannelId) -> Option<&Result<(), WriteError>> {
        let index = self.results.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        Some(&self.results[index].1)
    }

    /// The members for which it was not carried out, and why.
    pub fn failures(&self) -> impl Iterator<Item = (ChannelId, &WriteError)> {
        self.results.iter().filter_map(|(id, result)| Some((*id, result.as_ref().err()?)))
    }

    /// All results, by number of the channel.
    pub fn iter(&self) -> std::slice::Iter<'_, (ChannelId, Result<(), WriteError>)> {
        self.results.iter()
    }

    /// For how many members the operation was.
    pub fn len(&self) -> usize {
        self.results.len()
    }

    /// Whether there was no member to carry it out for.
    pub fn is_empty(&self) -> bool {
        self.results.is_empty()
    }
}

impl<'a> IntoIterator for &'a GroupResult {
    type Item = &'a (ChannelId, Result<(), WriteError>);
    type IntoIter = std::slice::Iter<'a, (ChannelId, Result<(), WriteError>)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Waits for the results of all members.
struct Gather {
    state: Mutex<Gathering>,
}

struct Gathering {
    left: usize,
    results: Vec<(ChannelId, Result<(), WriteError>)>,
    promise: Option<Promise<GroupResult, PromiseError>>,
}

impl Gather {
    /// For members in the order of their numbers, each of which has to [`put`](Self::put) its result once.
    fn of(members: impl Iterator<Item = ChannelId>) -> (Arc<Self>, GroupWritten) {
        let results: Vec<_> = members.map(|id| (id, Ok(()))).collect();
        let (mut promise, written) = promise();
        let _ = promise.claim(); // a message that is on its way to some cannot be taken back for all
        let mut gathering = Gathering { left: results.len(), results, promise: Some(promise) };
        if gathering.left == 0 {
            gathering.finish();
        }
        (Arc::new(Self { state: Mutex::new(gathering) }), written)
    }

    fn put(&self, index: usize, result: Result<(), WriteError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.results[index].1 = result;
        state.left -= 1;
        if state.left == 0 {
            let mut last = Gathering {
                left: 0,
                results: std::mem::take(&mut state.results),
                promise: state.promise.take(),
            };
            drop(state);
            last.finish();
        }
    }
}

impl Gathering {
    fn finish(&mut self) {
        if let Some(promise) = self.promise.take() {
            promise.succeed(GroupResult { results: std::mem::take(&mut self.results) });
        }
    }
}

#[cfg(all(test, not(loom)))]
#[path = "group_tests.rs"]
mod tests;

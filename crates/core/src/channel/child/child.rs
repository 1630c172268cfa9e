//! One child, as its parent sees it.
//!
//! ```text
//!   received ─▶ inbox: [m, credit] … ─▶ the pipeline, as it asks          credit: given back for what has left the inbox
//!   first, take_first ◀─ line: what the pipeline has flushed
//! ```

use super::{
    super::{ChannelId, CloseCause, Fault, Host, HostSettings, Weighed, Weight, WritePromise},
    Family,
};
use crate::{
    driver::{Event as DriverEvent, Source, Token},
    pipeline::{Event, Segment},
    spill::Spill,
    task_error::discard_each,
};
use std::rc::Rc;

/// What a parent has to be told.
#[derive(Clone, Copy, PartialEq, Eq)]
struct News(u8);

impl News {
    const NONE: Self = Self(0);
    /// Something was flushed.
    const FLUSHED: Self = Self(1);
    /// Messages have left the inbox.
    const CREDIT: Self = Self(1 << 1);
    /// It writes no more.
    const OUTPUT_END: Self = Self(1 << 2);
    /// It wants to end.
    const CLOSE: Self = Self(1 << 3);
    /// It wants messages, which its parent has asked to be told.
    const WANTS: Self = Self(1 << 4);

    fn set(&mut self, what: Self, is_so: bool) {
        self.0 |= if is_so { what.0 } else { 0 };
    }

    fn forget(&mut self, what: Self) {
        self.0 &= !what.0;
    }

    fn is_more_than(self, known: Self) -> bool {
        self.0 & !known.0 != 0
    }
}

/// How a child has ended.
pub(super) struct Finish {
    /// Nothing is left to be done; otherwise it ends by itself.
    pub(super) finished: bool,
    /// The credit that nobody has taken back.
    pub(super) credit: usize,
}

/// A child of a stage: a channel that its parent drives, in place of a socket. Lent by [`Children::with`](super::Children::with).
///
/// Who drives it brings what the peer said ([`received`](Self::received), [`read_complete`](Self::read_complete),
/// [`input_closed`](Self::input_closed)) and looks what came of it: messages to send ([`take_first`](Self::take_first)), credit
/// to return ([`take_credit`](Self::take_credit)), ends ([`take_output_end`](Self::take_output_end),
/// [`take_close`](Self::take_close)).
pub struct Child<P: Segment<R, W>, R: 'static, W: 'static> {
    host: Host<P, W, R, Weighed<W>>,
    family: Rc<Family>,
    token: Token,
    /// Messages that nobody has asked for, and what each counts for.
    inbox: Spill<(R, usize)>,
    /// What the messages in the inbox count for.
    unread: usize,
    /// What those counted for that have left it since the parent asked last.
    credit: usize,
    /// What the parent knows, or will see when it looks.
    told: News,
    /// Its number on the list of those who have news, the last time that it was there.
    listed: u64,
    /// Something was delivered and `read_complete` has not been told yet.
    incomplete: bool,
    /// The peer sends no more: to be told behind the inbox.
    input_ends: bool,
    /// Messages were taken, and the pipeline has not been told of the room.
    taken: bool,
    /// Its parent has let it go: it ends by itself.
    alone: bool,
    /// Its parent waits until it wants something.
    awaited: bool,
    tag: u32,
    /// What is unread is dropped at its end.
    drops_unread: bool,
}

impl<P: Segment<R, W>, R: 'static, W: 'static> Child<P, R, W> {
    pub(super) fn new(
        family: &Rc<Family>,
        pipeline: P,
        settings: &HostSettings,
        weight: Weight<W>,
        token: Token,
    ) -> Self {
        family.enter(token);
        Self {
            host: Host::of_child(family, pipeline, settings, weight),
            family: family.clone(),
            token,
            inbox: Spill::new(),
            unread: 0,
            credit: 0,
            told: News::NONE,
            listed: family.news().looked_at(),
            incomplete: false,
            input_ends: false,
            taken: false,
            alone: false,
            awaited: false,
            tag: 0,
            drops_unread: false,
        }
    }

    // ---- whose it is ----

    /// What its parent has noted on it: 0 until it does.
    #[inline]
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// Notes a number on it, such as where its parent keeps what it knows of it: for whoever comes to it by
    /// [`next_ready`](super::Children::next_ready).
    pub fn set_tag(&mut self, tag: u32) {
        self.tag = tag;
    }

    // ---- what the peer said ----

    /// A message from the peer. If nobody has asked for it, it waits; `credit` is what it counts for meanwhile, and can be
    /// [taken](Self::take_credit) back when it has been delivered.
    pub fn received(&mut self, message: R, credit: usize) {
        if !self.inbox.is_empty() || !self.host.wants_read() {
            return self.keep(message, credit);
        }
        self.credit += credit;
        self.incomplete = true;
        self.host.received(message);
    }

    /// Has the last message that nobody has asked for yet take what came behind it, which counts for so much: small pieces that wait are one.
    /// False if there is none, or if `join` says that it takes no more.
    pub fn join_last(&mut self, credit: usize, join: impl FnOnce(&mut R) -> bool) -> bool {
        if self.host.is_closing() {
            return false;
        }
        let Some((message, counts)) = self.inbox.back_mut() else { return false };
        let joined = join(message);
        if joined {
            *counts += credit;
            self.unread += credit;
        }
        joined
    }

    #[cold]
    fn keep(&mut self, message: R, credit: usize) {
        if self.host.is_closing() {
            self.credit += credit; // nobody is left to read it
        } else {
            self.unread += credit;
            self.inbox.push_back((message, credit));
        }
    }

    /// Everything that was there for this child has been received. Need not be said: it is, when the parent comes to this child
    /// because of [`next_ready`](super::Children::next_ready).
    pub fn read_complete(&mut self) {
        if std::mem::take(&mut self.incomplete) {
            self.host.read_complete();
        }
    }

    /// The peer sends no more. What waits is delivered before.
    pub fn input_closed(&mut self) {
        self.read_complete();
        if self.inbox.is_empty() {
            self.tell_input_end();
        } else {
            self.input_ends = true;
        }
    }

    /// What handlers asked for by handles of their own, while they read what came last, comes before.
    fn tell_input_end(&mut self) {
        self.host.run_commands();
        self.host.input_closed();
    }

    /// Whether what nobody has asked for is dropped when the child ends, for whatever cause: while its peer is in the middle of something of which nobody
    /// can make anything once it is broken off. Otherwise that is delivered as it is asked for, as on every channel, but behind a
    /// [reset](CloseCause::Reset).
    pub fn drop_unread_at_end(&mut self, drop: bool) {
        self.drops_unread = drop;
    }

    /// Something has gone wrong that does not end the child by itself.
    pub fn raise(&mut self, fault: impl Into<Fault>) {
        self.host.raise(fault.into());
    }

    /// Tells the pipeline something, from its first stage on.
    pub fn tell(&mut self, event: Event) {
        self.host.tell(event);
    }

    /// Writes a message at the far end of its pipeline, and flushes: for a parent that opens a child in order to say something, and cheaper than
    /// by a handle.
    pub fn write_and_flush(&mut self, message: P::Tail, done: WritePromise) {
        self.host.write_and_flush(message, done);
    }

    // ---- what came of it ----

    /// How many messages the pipeline wants at most: none while it is paused, as many as there are while it flows.
    pub fn wanted(&self) -> usize {
        self.host.wanted()
    }

    /// Has the parent hear when the pipeline wants messages, by [`next_ready`](super::Children::next_ready), once: for a peer that waits to be
    /// asked. It is for a parent that has looked and seen that nothing is [`wanted`](Self::wanted); who asks again hears again.
    pub fn await_demand(&mut self) {
        self.awaited = true;
        self.told.forget(News::WANTS);
    }

    /// What the messages count for that nobody has asked for yet.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// What those messages counted for that have been delivered, or dropped, since this was asked last.
    pub fn take_credit(&mut self) -> usize {
        self.told.forget(News::CREDIT);
        std::mem::take(&mut self.credit)
    }

    /// Whether a message waits to be sent.
    pub fn has_flushed(&mut self) -> bool {
        self.host.outbound().has_flushed()
    }

    /// The first message that waits to be sent.
    pub fn first(&mut self) -> Option<&W> {
        self.host.first_message()
    }

    /// Takes the first message that waits to be sent, with the promise of its write: to be fulfilled when it is on its way. From
    /// here on it is no concern of the child.
    pub fn take_first(&mut self) -> Option<(W, WritePromise)> {
        let (Weighed { message, .. }, done) = self.host.outbound().take_first()?;
        self.taken = true;
        Some((message, done))
    }

    /// Takes a part of the first message, which stays what it is, only less: it is weighed anew.
    pub fn take_part<T>(&mut self, part: impl FnOnce(&mut W) -> T) -> Option<T> {
        self.taken = true;
        self.host.change_first(part)
    }

    /// Whether the pipeline has said, and everything that it flushed before has been taken, that it writes no more. Asked once:
    /// then the peer is to be told.
    pub fn take_output_end(&mut self) -> bool {
        let ends = self.host.take_output_shutdown();
        if ends {
            self.host.output_shut_down(Ok(()));
        }
        ends
    }

    /// Why the child is to end now, if it is: what was flushed before has been taken. To be followed by
    /// [`Children::end`](super::Children::end), with this cause or a better one.
    pub fn take_close(&mut self) -> Option<CloseCause> {
        self.host.take_close()
    }

    /// Whether a close was asked for, now or as soon as what was flushed has been taken.
    pub fn is_closing(&self) -> bool {
        self.host.is_closing()
    }
}

// For its siblings and its loop.
impl<P: Segment<R, W>, R: 'static, W: 'static> Child<P, R, W> {
    pub(super) fn host(&self) -> &Host<P, W, R, Weighed<W>> {
        &self.host
    }

    pub(super) fn id(&self) -> ChannelId {
        self.host.id()
    }

    /// Whether its parent has let it go.
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(super) fn belongs_to(&self, family: &Rc<Family>) -> bool {
        !self.alone && Rc::ptr_eq(&self.family, family)
    }

    /// Its stages are added. Then whoever wants to know it before anything happens to it has a moment.
    pub(super) fn link(&mut self) {
        self.host.register(self.token);
    }

    /// It becomes active.
    pub(super) fn begin(&mut self) {
        self.host.begin();
    }

    /// Another conversation, in another place.
    pub(super) fn begin_again(&mut self, token: Token) {
        self.token = token;
        self.family.enter(token);
        self.host.register_again(token);
    }

    /// Its parent calls it: what was told so far it is about to see.
    #[inline]
    pub(super) fn looked_at(&mut self) {
        if !self.family.news().is_listed(self.listed) {
            self.read_complete(); // it was, and that is why it is called
            self.host.take_flush();
            self.told.forget(News::FLUSHED);
        }
    }

    /// Its parent has called it. While it is on the list, it is looked at once more.
    #[inline]
    pub(super) fn settle(&mut self) {
        if !self.family.news().is_listed(self.listed) && (self.incomplete || self.has_more_news()) {
            self.listed = self.family.news().list(self.token);
        }
    }

    /// Does all that can be done without its parent. True if there is news for it since it was told last.
    #[inline]
    fn has_more_news(&mut self) -> bool {
        if std::mem::take(&mut self.taken) {
            self.host.wrote();
        }
        if !self.inbox.is_empty() {
            self.feed();
        }
        if self.credit == 0 && !self.awaited && !self.host.has_wishes() {
            self.told = News::NONE;
            return false;
        }
        self.look_for_news()
    }

    fn look_for_news(&mut self) -> bool {
        let mut news = News::NONE;
        news.set(News::CLOSE, self.host.is_close_due()); // first: there may be last words
        news.set(News::FLUSHED, self.host.has_flush());
        news.set(News::CREDIT, self.credit > 0);
        news.set(News::OUTPUT_END, self.host.is_output_end_due());
        if self.awaited && self.host.wanted() > 0 {
            self.awaited = false;
            news.set(News::WANTS, true);
        }
        let more = news.is_more_than(self.told);
        self.told = news;
        more
    }

    /// Delivers what is asked for.
    #[cold]
    fn feed(&mut self) {
        while self.host.wants_read() {
            let Some((message, credit)) = self.inbox.pop_front() else { break };
            (self.unread, self.credit) = (self.unread - credit, self.credit + credit);
            self.incomplete = true;
            self.host.received(message);
        }
        if self.host.is_closing() {
            self.drop_inbox();
        }
        self.read_complete();
        if self.inbox.is_empty() && std::mem::take(&mut self.input_ends) {
            self.tell_input_end();
        }
    }

    /// Nobody is left to read it.
    fn drop_inbox(&mut self) {
        self.credit += std::mem::take(&mut self.unread);
        discard_each(self.inbox.take());
    }

    // ---- the end ----

    /// The child has ended. What was not asked for is delivered as on every channel that has ended; but not if the conversation
    /// was broken off.
    pub(super) fn finish(&mut self, cause: CloseCause) -> Finish {
        self.alone = true;
        self.family.leave();
        self.read_complete();
        if self.drops_unread || matches!(cause, CloseCause::Reset(_)) {
            self.drop_inbox();
        }
        let credit = std::mem::take(&mut self.credit) + std::mem::take(&mut self.unread);
        while let Some((message, _)) = self.inbox.pop_front() {
            self.host.received(message); // it waits in the pipeline from here on
        }
        if std::mem::take(&mut self.input_ends) {
            self.host.input_closed();
        }
        let finished = self.host.closed(cause);
        if !finished {
            self.family.parts();
        }
        Finish { finished, credit }
    }

    /// Whether nothing is left to be done: it has ended, and its pipeline knows.
    pub(super) fn is_finished(&self) -> bool {
        self.host.is_finished()
    }

    /// Whether its stages are ready for another conversation.
    pub(super) fn start_over(&mut self, settings: &HostSettings) -> bool {
        if !self.host.start_over(settings) {
            return false;
        }
        (self.told, self.listed) = (News::NONE, self.family.news().looked_at());
        (self.incomplete, self.taken, self.alone, self.tag) = (false, false, false, 0);
        self.drops_unread = false;
        self.awaited = false;
        true
    }

    /// The last act.
    pub(super) fn remove(&mut self) {
        self.host.remove();
    }

    /// It has run by itself.
    fn ran(&mut self) {
        if !self.alone && self.family.is_over() {
            // Its parent has ended while it ran.
            let cause = self.family.parent().close_cause().unwrap_or(CloseCause::Requested);
            self.finish(cause);
        }
        if !self.alone {
            if self.has_more_news() {
                if !self.family.news().is_listed(self.listed) {
                    self.listed = self.family.news().list(self.token);
                }
                self.family.poke();
            }
        } else if self.is_finished() {
            self.family.parted();
            self.remove();
            self.family.local().deregister(self.token);
        }
    }
}

impl<P: Segment<R, W>, R: 'static, W: 'static> Source for Child<P, R, W> {
    fn ready(&mut self, _: DriverEvent) {
        self.host.run_commands();
        self.ran();
    }

    fn signal(&mut self, signal: u64) {
        self.host.signal(signal);
        self.ran();
    }

    /// Its parent is told as well, and ends it. Who has no parent any more is in nobody's way.
    fn shut_down(&mut self) {
        if self.alone {
            self.host.forsake();
            self.ran();
        }
    }
}

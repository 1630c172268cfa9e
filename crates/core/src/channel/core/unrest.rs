//! What waits inside of a pipeline: who sets it, and who reads it.
//!
//! | what | set by | read by |
//! | --- | --- | --- |
//! | something waits ([`waits`](Unrest::waits), [`may_wait`](Unrest::may_wait)) | boundaries and joints that keep a message or an event, stages whose handler may have one to give; whoever lets delivery go on: `resume`, `request`, what a stage gives back | the host, which walks through the stages only then ([`is_waiting`](Unrest::is_waiting)); its walk says what is left ([`looked`](Unrest::looked)) |
//! | the handler never has a message to give ([`never_pulls`](Unrest::never_pulls)) | `Handler::pull` as it is by default, or a wrapper with nobody inside, while it is asked | the stage, or the worker, that asks ([`asks`](Unrest::asks), [`is_never_asked_again`](Unrest::is_never_asked_again)) |
//! | a stage has read ([`Delivered`]) | the stage, before its handler; the host and a stage on workers for what comes later | the host: is a pause flushed, is an end looked after; `room`: is it an answer, is room told of again |
//! | messages that nobody took ([`lost`](Unrest::lost)) | whoever drops one | the host, for its log |

/// Since when a stage has read a message, as several look at it: one byte, which each message sets at once.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Delivered(u8);

impl Delivered {
    /// Since what was written was last flushed for a pause.
    pub(crate) const SINCE_FLUSH: u8 = 1;
    /// Since somebody was last told of room that there is after the end.
    pub(crate) const SINCE_ROOM: u8 = 2;
    /// Since somebody last looked whether a channel that has ended still goes on.
    pub(crate) const SINCE_LOOK: u8 = 4;
    /// In the call that is under way, so that what is written may be an answer.
    pub(crate) const IN_CALL: u8 = 8;

    #[inline]
    pub(crate) fn mark(&mut self) {
        self.0 = u8::MAX;
    }

    /// What is written in this call answers a message that came before it.
    pub(crate) fn mark_call(&mut self) {
        self.0 |= Self::IN_CALL;
    }

    pub(crate) fn is(self, since: u8) -> bool {
        self.0 & since != 0
    }

    pub(crate) fn take(&mut self, since: u8) -> bool {
        let was = self.is(since);
        self.0 &= !since;
        was
    }
}

/// What waits inside of a pipeline and keeps its channel from coming to rest.
#[derive(Debug, Default)]
pub(crate) struct Unrest {
    waiting: bool,
    never_pulls: bool,
    pub(crate) delivered: Delivered,
    lost: u32,
}

impl Unrest {
    // ---- something waits ----

    /// A message to be pulled, or one that was held, or an event behind it.
    #[inline]
    pub(crate) fn waits(&mut self) {
        self.waiting = true;
    }

    /// The same, if it is so.
    #[inline]
    pub(crate) fn may_wait(&mut self, so: bool) {
        self.waiting |= so;
    }

    /// Whether something may wait. If not, there is no need to walk through the stages and look.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// The stages were walked through, and one thing was delivered; or there was none.
    pub(crate) fn looked(&mut self, found: bool) {
        self.waiting = found;
    }

    // ---- a handler is asked for a message ----

    /// The handler is about to be asked.
    #[inline]
    pub(crate) fn asks(&mut self) {
        self.never_pulls = false;
    }

    /// The one that is asked never has any to give.
    #[inline]
    pub(crate) fn never_pulls(&mut self) {
        self.never_pulls = true;
    }

    /// Whether the one that was asked said so.
    #[inline]
    pub(crate) fn is_never_asked_again(&self) -> bool {
        self.never_pulls
    }

    // ---- what nobody took ----

    /// So many messages were dropped that nobody took.
    pub(crate) fn lost(&mut self, messages: usize) {
        self.lost = self.lost.saturating_add(u32::try_from(messages).unwrap_or(u32::MAX));
    }

    /// How many those were so far.
    pub(crate) fn lost_so_far(&self) -> u32 {
        self.lost
    }
}

//! Whether messages may be delivered, and how many.
//!
//! ```text
//!   the application   flowing | paused | so many messages        pause, resume, request
//!   single stages     hold, hold_input: not now                  insist: whoever has asked or not
//!   the channel       answers pile up: what flows stands still   too_many_answers, room
//! ```
//! | what | set by | read by |
//! | --- | --- | --- |
//! | `permits` | `pause`, `resume`, `request` of the application and of handles; each delivery (`delivered`) | boundaries, joints and stages (`is_paused`), transports (`takes_input`, `messages`) |
//! | `holds`, `insists`, `input_holds` | guards of single stages, by `core/taken.rs`; `holds` also guards of handles, by `host/commands.rs` | the same |
//! | `away` | stages on workers, by `core/taken.rs` | boundaries, and the host: nothing else may happen meanwhile (`is_away`, `is_stopped`) |
//! | `full`, `flows_with_room` | the host: answers pile up (`too_many_answers`), or there is room (`room`); `resume` and `pause` while they do | the host (`is_full`); views (`is_flowing`) |
//! | `changes` | whatever stops reading or lets it go on, `away` included | timeouts ([`Glance`](crate::Glance)) |
//! | `forsaken` | the host, when nobody will ask for what is left (`forsake`) | boundaries and stages, which drop what they hold (`is_forsaken`) |
//!
//! Always true:
//! 1. A hold stops everything; what a stage insists on passes a pause of the application, but no hold.
//! 2. Only what flows by itself is stopped because answers pile up. Who asks for messages one by one says when.
//! 3. `paused` follows from `permits`, `insists` and `holds`: each message asks for it at each boundary, and they change rarely.

const FLOWING: u32 = u32::MAX;

/// What the application, single stages and the channel itself say about delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    /// So many messages, then stop; `FLOWING` if there is no such limit.
    permits: u32,
    /// Stages that are full.
    holds: u32,
    /// Stages that have something to settle with the peer before anybody can be asked.
    insists: u32,
    /// Stages that want no more bytes read, while what is inside goes on.
    input_holds: u32,
    /// Stages that have something under way on workers; each of them is among `holds` as well.
    away: u32,
    /// Nothing may be delivered.
    paused: bool,
    /// More answers wait to be sent than the channel takes.
    full: bool,
    /// Delivery flows again as soon as they are sent.
    flows_with_room: bool,
    /// Nobody waits for what is still inside.
    forsaken: bool,
    /// How often reading was stopped or went on: who measures how long the peer says nothing sees by it whether anybody would have heard.
    changes: u32,
}

impl Demand {
    pub(crate) fn new(flowing: bool) -> Self {
        Self {
            permits: if flowing { FLOWING } else { 0 },
            holds: 0,
            insists: 0,
            input_holds: 0,
            away: 0,
            paused: !flowing,
            full: false,
            flows_with_room: false,
            forsaken: false,
            changes: 0,
        }
    }

    /// Whether no message may be delivered.
    #[inline]
    pub(crate) fn is_paused(self) -> bool {
        debug_assert_eq!(self.paused, self.stands_still());
        self.paused
    }

    fn stands_still(self) -> bool {
        (self.permits == 0 && self.insists == 0) || self.holds > 0
    }

    /// One of the fields has changed by which it is told.
    fn look_whether_paused(&mut self) {
        let paused = self.stands_still();
        self.changes = self.changes.wrapping_add(u32::from(paused != self.paused));
        self.paused = paused;
    }

    /// How often reading was stopped or went on, as a number that wraps.
    #[inline]
    pub(crate) fn changes(self) -> u32 {
        self.changes
    }

    /// Whether delivery is stopped by somebody's choice, and not only until a worker is done.
    pub(crate) fn is_stopped(self) -> bool {
        (self.permits == 0 && self.insists == 0) || self.holds > self.away
    }

    /// How many messages may be delivered before the next look.
    pub(crate) fn messages(self) -> usize {
        match self.permits {
            _ if self.holds > 0 => 0,
            FLOWING => usize::MAX,
            _ if self.insists > 0 => usize::MAX,
            permits => permits as usize,
        }
    }

    /// Whether the transport may read: nothing is paused, and no stage has enough bytes.
    pub(crate) fn takes_input(self) -> bool {
        !self.is_paused() && self.input_holds == 0
    }

    // ---- the application ----

    pub(crate) fn pause(&mut self) {
        self.permits = 0;
        self.flows_with_room = false;
        self.look_whether_paused();
    }

    pub(crate) fn resume(&mut self) {
        if self.full {
            self.flows_with_room = true;
        } else {
            self.permits = FLOWING;
            self.look_whether_paused();
        }
    }

    pub(crate) fn request(&mut self) {
        if self.permits < FLOWING - 1 {
            self.permits += 1;
            self.look_whether_paused();
        }
    }

    /// A message has reached the last stage.
    pub(crate) fn delivered(&mut self) {
        if self.permits != FLOWING {
            self.permits = self.permits.saturating_sub(1);
            self.look_whether_paused();
        }
    }

    /// Whether there is no limit to the messages that the application takes, once there is room for its answers.
    pub(crate) fn is_flowing(self) -> bool {
        self.permits == FLOWING || self.flows_with_room
    }

    // ---- the channel ----

    /// The channel has ended, and nobody waits for what is still inside: messages are dropped where they are.
    pub(crate) fn forsake(&mut self) {
        self.forsaken = true;
    }

    /// Whether messages are dropped instead of delivered.
    #[inline]
    pub(crate) fn is_forsaken(self) -> bool {
        self.forsaken
    }

    /// More answers wait to be sent than the channel takes: what flows stops. True if it has not been so before.
    pub(crate) fn too_many_answers(&mut self) -> bool {
        if self.permits == FLOWING {
            self.permits = 0;
            self.flows_with_room = true;
            self.look_whether_paused();
        }
        !std::mem::replace(&mut self.full, true)
    }

    /// Whether it was said that too many answers wait, and not that there is room again.
    pub(crate) fn is_full(self) -> bool {
        self.full
    }

    /// There is room for answers again. True if delivery goes on because of it.
    pub(crate) fn room(&mut self) -> bool {
        self.full = false;
        let flows = std::mem::take(&mut self.flows_with_room);
        if flows {
            self.permits = FLOWING;
            self.look_whether_paused();
        }
        flows
    }

    // ---- single stages ----

    /// Something goes to a worker.
    pub(crate) fn depart(&mut self) {
        self.away += 1;
        self.holds += 1;
        self.look_whether_paused();
    }

    /// It is back.
    pub(crate) fn arrive(&mut self) {
        self.away = self.away.saturating_sub(1);
        self.holds = self.holds.saturating_sub(1);
        self.look_whether_paused();
    }

    /// Whether something is under way on workers, so that nothing else may happen before it is back.
    #[inline]
    pub(crate) fn is_away(self) -> bool {
        self.away > 0
    }

    /// A stage is full.
    pub(crate) fn hold(&mut self) {
        self.holds += 1;
        self.look_whether_paused();
    }

    /// A stage that was full has room again.
    pub(crate) fn release(&mut self) {
        self.holds = self.holds.saturating_sub(1);
        self.look_whether_paused();
    }

    /// A stage has enough bytes for now.
    pub(crate) fn hold_input(&mut self) {
        self.input_holds += 1;
        self.changes = self.changes.wrapping_add(1);
    }

    /// A stage that had enough takes bytes again.
    pub(crate) fn release_input(&mut self) {
        self.input_holds = self.input_holds.saturating_sub(1);
        self.changes = self.changes.wrapping_add(1);
    }

    /// A stage needs what the peer sends, whoever has asked for messages.
    pub(crate) fn insist(&mut self) {
        self.insists += 1;
        self.look_whether_paused();
    }

    /// It needs no more than others ask for.
    pub(crate) fn desist(&mut self) {
        self.insists = self.insists.saturating_sub(1);
        self.look_whether_paused();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Demand;

    #[test]
    fn what_flows_stops_for_answers_and_goes_on_with_room() {
        let mut demand = Demand::new(true);
        assert!(demand.too_many_answers());
        assert!(demand.is_paused() && demand.is_flowing());
        assert!(!demand.too_many_answers(), "said before");
        assert!(demand.room());
        assert!(!demand.is_paused());
    }

    #[test]
    fn who_asks_for_single_messages_gets_them_however_many_answers_wait() {
        let mut demand = Demand::new(false);
        demand.too_many_answers();
        demand.request();
        assert_eq!(demand.messages(), 1);
        assert!(!demand.room(), "nothing flowed");
        assert_eq!(demand.messages(), 1);
    }

    #[test]
    fn a_pause_outlasts_the_room_and_a_resume_waits_for_it() {
        let mut demand = Demand::new(true);
        demand.too_many_answers();
        demand.pause();
        assert!(!demand.room());
        assert!(demand.is_paused());

        demand.too_many_answers();
        demand.resume();
        assert!(demand.is_paused(), "there is no room yet");
        assert!(demand.room());
        assert!(!demand.is_paused());
    }
}

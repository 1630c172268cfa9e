//! One connection of a scenario: what is drawn for it, how far it is, and what must hold when it is over.
//!
//! ```text
//!   approach ──▶ the moment has come ──▶ a while ──▶ the end is brought about ──▶ both sides are over
//!                                                         └─ it lasts as long as drawn ─▶ what follows ─┘
//! ```

use super::{
    draw::Draw,
    ends::End,
    last::Last,
    moments::{Approach, Moment},
    outside::Grip,
    peer::Talker,
    record::{Place, Record, Wrote},
    slips::{Slip, Step},
    wire::{NOTICES, ROOM, said},
};
use netwright::{Channel, CloseCause, WriteError};
use netwright_testkit::sim::{Host, Sim};
use std::time::Duration;

/// How long a client has to get to its moment.
const APPROACH_MAX: Duration = Duration::from_secs(20);

/// How long a channel has to end by itself: longer than a lost segment is sent again and again, and than a peer may be too slow.
const END_MAX: Duration = Duration::from_secs(600);

/// What is drawn for one connection.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) moment: Moment,
    pub(crate) approach: Approach,
    pub(crate) end: End,
    /// From the moment to the end.
    pub(crate) delay: Duration,
    /// How long an end lasts that does not end a channel by itself.
    pub(crate) lasting: Duration,
    /// How many messages are written from outside, and how long after one another.
    pub(crate) notices: u32,
    pub(crate) every: Duration,
    /// Who stops reading and goes on because somebody outside says so, and when.
    pub(crate) grips: Vec<Grip>,
    /// Where a stage of the server panics.
    pub(crate) slip: Option<Slip>,
}

impl Script {
    pub(crate) fn draw(draw: &Draw<'_>, moments: &[Moment]) -> Self {
        let moment = draw.one_of(moments);
        let end = draw.one_of(&End::ALL);
        let approach = Approach::draw(draw, moment);
        let grips = Grip::draw(draw, approach.reads);
        Self {
            moment,
            approach,
            end,
            delay: if draw.one_in(4) { Duration::ZERO } else { draw.millis(100) },
            lasting: end.draw_lasting(draw),
            notices: if draw.one_in(2) { draw.below(5) as u32 } else { 0 },
            every: draw.millis(20),
            grips,
            slip: Slip::draw(draw),
        }
    }
}

enum Phase {
    Approaches,
    Waits,
    Ends,
    GoesOn,
    IsClosed,
    Over,
}

/// A connection on its way.
pub(crate) struct Line<'a> {
    pub(crate) script: Script,
    pub(crate) record: Record,
    pub(crate) host: Host,
    pub(crate) server: &'a Host,
    /// The last stage is told when the peer sends no more, and closes then.
    pub(crate) hears_of_half_closure: bool,
    /// The whole server ends on the way, or somebody closes its channels.
    pub(crate) server_ends: bool,
    /// With its host.
    pub(crate) host_ends: bool,
    /// What the peer says may be lost.
    pub(crate) loses: bool,
    /// It was closed in the end, because the peer's end had not come.
    pub(crate) was_closed: bool,
    talker: Option<Talker>,
    phase: Phase,
    /// When the phase is over, whatever has happened.
    due: Duration,
    notices: u32,
    notice_due: Duration,
    begun: Duration,
    /// How many grips have happened.
    gripped: usize,
}

impl<'a> Line<'a> {
    pub(crate) fn begin(
        sim: &Sim,
        draw: &Draw<'_>,
        server: &'a Host,
        host: Host,
        script: Script,
        record: Record,
    ) -> Self {
        let talker = Some(Talker::start(&host, draw, &script, &record));
        let now = sim.now();
        let notice_due = now + script.every;
        if let Some(slip) = &script.slip {
            record.will_slip(slip.clone());
        }
        Self {
            script,
            record,
            host,
            server,
            hears_of_half_closure: false,
            server_ends: false,
            host_ends: false,
            loses: false,
            was_closed: false,
            talker,
            phase: Phase::Approaches,
            due: now + APPROACH_MAX,
            notices: 0,
            notice_due,
            begun: now,
            gripped: 0,
        }
    }

    fn client(&self) -> Option<Channel> {
        self.talker.as_ref().and_then(Talker::channel)
    }

    pub(crate) fn with_client(&self, call: impl FnOnce(Channel)) {
        if let Some(channel) = self.client() {
            call(channel);
        }
    }

    /// By the handle of its last stage; at the wire if that has none.
    pub(crate) fn with_server(&self, call: impl FnOnce(Channel)) {
        match self.record.channel() {
            Some(channel) => call(channel),
            None => self.record.close_at_the_wire(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// When it is to be looked at, if it has no news before.
    pub(crate) fn due(&self) -> Duration {
        let grip = self.script.grips.get(self.gripped).map(|grip| self.begun + grip.at);
        let notice = self.writes_notices().then_some(self.notice_due);
        [Some(self.due), grip, notice].into_iter().flatten().min().unwrap_or(self.due)
    }

    fn writes_notices(&self) -> bool {
        self.notices < self.script.notices && self.record.channel().is_some()
    }

    /// Whether it is to be looked at now.
    pub(crate) fn has_news(&self) -> bool {
        match self.phase {
            Phase::Approaches => self.has_come() || self.record.heard(Place::Client).removed > 0,
            Phase::Waits | Phase::Over => false,
            Phase::Ends | Phase::GoesOn | Phase::IsClosed => self.both_are_over(),
        }
    }

    /// Its moment is there, and whoever is to end it.
    fn has_come(&self) -> bool {
        let is_there = !self.script.end.needs_the_server() || self.record.heard(Place::Wire).active > 0;
        is_there && self.record.has_reached(self.script.moment)
    }

    fn both_are_over(&self) -> bool {
        let client_is_over = self.script.end.strikes_the_client() || self.record.client_is_over();
        self.record.server_is_over() && client_is_over
    }

    pub(crate) fn step(&mut self, sim: &Sim) {
        let now = sim.now();
        while self.writes_notices() && self.notice_due <= now {
            let number = self.notices;
            self.notices += 1;
            self.notice_due = now + self.script.every;
            if let Some(channel) = self.record.channel() {
                self.record
                    .tracks(Wrote::Notice(number), channel.send(said(NOTICES, number, 10 + number as usize)));
            }
        }
        while let Some(grip) = self.script.grips.get(self.gripped).filter(|grip| self.begun + grip.at <= now)
        {
            self.gripped += 1;
            if let Some(channel) = if grip.of_server { self.record.channel() } else { self.client() } {
                grip.happen(&channel);
            }
        }
        let is_due = self.due <= now;
        match self.phase {
            Phase::Approaches if is_due || self.has_news() => {
                self.phase = Phase::Waits;
                self.due = now + self.script.delay;
            }
            Phase::Waits if is_due => {
                sim.note(format_args!(
                    "{}: {:?} {:?}",
                    self.host.name(),
                    self.script.end,
                    self.script.moment
                ));
                self.phase = Phase::Ends;
                self.due = now + if self.script.end.ends_by_itself() { END_MAX } else { self.script.lasting };
                self.script.end.begin(sim, self);
            }
            Phase::Ends if is_due || self.has_news() => {
                if self.record.heard(Place::Wire).active == 0 {
                    // The client had left before it was accepted, or nobody is there who could.
                    self.with_client(|client| drop(client.close_now(CloseCause::Requested)));
                    self.phase = Phase::Over;
                    return;
                }
                if self.script.end.ends_by_itself() && !self.record.server_is_over() && !self.may_be_lost() {
                    self.record.fault("the server's channel has not ended by itself");
                }
                self.next(Phase::GoesOn, now);
                if !self.is_over() {
                    // The rest is the other side's, or follows.
                    if self.script.end.ends_by_itself() {
                        self.with_client(|client| drop(client.close_now(CloseCause::Requested)));
                    }
                    self.script.end.go_on(sim, self);
                }
            }
            Phase::GoesOn if is_due || self.has_news() => {
                self.next(Phase::IsClosed, now);
                if !self.is_over() {
                    if !self.may_be_lost() {
                        self.record.fault("a channel has not ended after all that");
                    }
                    self.was_closed = true;
                    self.with_server(|server| drop(server.close_now(CloseCause::Requested)));
                }
            }
            Phase::IsClosed if is_due || self.has_news() => {
                if !self.both_are_over() {
                    self.record.fault("a channel has not ended although it was closed");
                }
                self.phase = Phase::Over;
            }
            _ => {}
        }
    }

    fn next(&mut self, phase: Phase, now: Duration) {
        self.phase = if self.both_are_over() { Phase::Over } else { phase };
        self.due = now + END_MAX;
    }

    fn may_be_lost(&self) -> bool {
        self.loses && self.script.end.may_be_lost()
    }

    /// Lets go of the client.
    pub(crate) fn let_go(&mut self) {
        if let Some(talker) = self.talker.take() {
            self.host.enter(|| drop(talker.into_client()));
        }
    }

    /// What must hold when everything is over.
    pub(crate) fn check(&self, last: &Last, resets: bool) {
        let record = &self.record;
        let slipped = record.has_slipped();
        for (place, heard) in record.all_heard() {
            // Who is gone with a host hears of nothing.
            let gone =
                if place == Place::Client { self.script.end.strikes_the_client() } else { self.host_ends };
            // Who leaves a joint hears of no end, nor do stages of a channel that has panicked.
            let excused = matches!(place, Place::Last(_)) || slipped && place == Place::Wire;
            let heard_of_the_end = heard.inactive.len() == 1 || heard.inactive.is_empty() && excused;
            if !gone && (heard.removed != 1 || !heard_of_the_end) {
                record.fault(format!("{place:?} has not heard everything: {heard:?}"));
            }
        }
        // A child's panic is its own, and so is that of a stage that has heard of the end.
        let at_the_wire = self.script.slip.as_ref().is_some_and(|slip| slip.is_at(Step::WireRead));
        if slipped
            && at_the_wire
            && !self.server_ends
            && !matches!(record.closed().first(), None | Some(CloseCause::Panicked(_)))
        {
            record.fault(format!("a stage has panicked, and the channel ended by {:?}", record.closed()));
        }
        let wire = record.heard(Place::Wire);
        for cause in wire.inactive.iter().chain(&record.closed()) {
            if !self.script.end.explains(cause, self) {
                record.fault(format!("{:?} does not explain {cause:?}", self.script.end));
            }
        }
        if wire.active > 0 && record.channel().is_some() && record.closed().len() != 1 {
            record.fault(format!("handles have heard of {:?}", record.closed()));
        }
        let client = record.heard(Place::Client).inactive;
        let told_the_end = matches!(client.first(), Some(CloseCause::PeerClosed));
        let heard_the_end = matches!(wire.inactive.first(), Some(CloseCause::PeerClosed));
        let mut sent = 0;
        for (wrote, result) in record.take_writes() {
            let of_client = matches!(wrote, Wrote::Request(_) | Wrote::Part);
            match &result {
                None if of_client && self.script.end.strikes_the_client() => {}
                None => record.fault(format!("nobody has told what became of {wrote:?}")),
                Some(Ok(())) if wrote == Wrote::TooLate => {
                    record.fault("a write behind the end was told to be sent")
                }
                Some(Ok(())) if told_the_end && !record.has_heard(wrote) => {
                    record.fault(format!("{wrote:?} was sent, and has not come before the end"));
                }
                Some(Err(WriteError::Fault(fault))) => record.fault(format!("{wrote:?} failed: {fault}")),
                // By the call that panicked: it had its promise, or had asked for it. Or on workers whose host has gone.
                Some(Err(WriteError::Abandoned)) if slipped || self.host_ends => {}
                Some(Err(WriteError::Abandoned)) => record.fault(format!("{wrote:?} was abandoned")),
                Some(Err(WriteError::Cancelled)) => record.fault(format!("{wrote:?} was cancelled")),
                _ => {}
            }
            if let (Wrote::Request(number), Some(Ok(()))) = (wrote, &result) {
                sent += 1;
                // Behind a close of its own nobody wants to read, and what is held behind a pause goes with its server.
                let wanted = heard_the_end && self.script.moment != Moment::BehindAClose && !self.server_ends;
                let gripped = last.asks && self.script.grips.iter().any(|grip| grip.of_server);
                if wanted && last.reads_all && !slipped && !gripped && !record.has_read(number) {
                    record.fault(format!(
                        "request {number} was sent before an orderly end, and was never read"
                    ));
                }
            }
        }
        if last.tells_all && !resets && self.asked_in_order() {
            let answered: usize = record
                .said()
                .iter()
                .filter(|(lane, _)| ![NOTICES, ROOM].contains(*lane))
                .map(|(_, said)| said.len())
                .sum();
            if answered != sent {
                record.fault(format!(
                    "{answered} of {sent} requests were answered before the end, {:?}, {client:?}",
                    wire.inactive
                ));
            }
        }
    }

    /// The peer has asked, says that it asks no more, and waits for its answers.
    fn asked_in_order(&self) -> bool {
        let Script { end, moment, approach, .. } = &self.script;
        *end == End::HalfClose
            && !self.server_ends
            && !self.record.has_slipped()
            // Whoever is paused by others has not read, and so owes nothing that would be waited for.
            && (self.hears_of_half_closure || self.script.grips.is_empty())
            && *moment != Moment::BehindAClose
            && approach.reads
    }
}

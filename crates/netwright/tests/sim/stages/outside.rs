//! What others do with handles while connections go on: threads that run no loop.
//!
//! ```text
//!   a grip    pause and resume of one channel, on either side; each pause is followed by its resume
//!   the room  a group of all channels of the server: members come and go, are told things and closed
//! ```

use super::{
    draw::Draw,
    line::Line,
    record::{Record, Wrote},
    wire::{ROOM, said},
};
use netwright::{
    Channel, CloseCause,
    channel::{ChannelGroup, ChannelId, GroupWritten},
};
use netwright_testkit::sim::Sim;
use std::time::Duration;

/// Something is done with the handle of a channel.
#[derive(Debug, Clone)]
pub(crate) struct Grip {
    /// So long after the beginning of the connection.
    pub(crate) at: Duration,
    pub(crate) of_server: bool,
    does: Does,
}

#[derive(Debug, Clone, Copy)]
enum Does {
    Pause,
    Resume,
}

impl Grip {
    /// In their order. A client that must not read is left alone.
    pub(crate) fn draw(draw: &Draw<'_>, client_reads: bool) -> Vec<Self> {
        let many = if draw.one_in(3) { 1 + draw.below(4) } else { 0 };
        let mut grips = Vec::new();
        for _ in 0..many {
            let of_server = !client_reads || draw.one_in(2);
            let at = draw.millis(400);
            grips.push(Self { at, of_server, does: Does::Pause });
            // Pauses that overlap, and a resume that nobody needs: each of them says what holds from now on.
            grips.push(Self { at: at + draw.millis(2_000), of_server, does: Does::Resume });
        }
        grips.sort_by_key(|grip| grip.at);
        grips
    }

    pub(crate) fn happen(&self, channel: &Channel) {
        match self.does {
            Does::Pause => channel.pause(),
            Does::Resume => channel.resume(),
        }
    }
}

/// All channels of the server that somebody has a handle of.
pub(crate) struct Room {
    group: ChannelGroup,
    /// What happens there, the next one last.
    coming: Vec<(Duration, Act)>,
    numbers: u32,
    sent: Vec<(u32, GroupWritten)>,
    /// Closed by somebody.
    closed: Vec<GroupWritten>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    /// Everybody comes who is not there.
    Gather,
    /// One of them goes, and stays open.
    Leave(u64),
    Write,
    Flush,
    WriteAndFlush,
    Send,
    /// To about half of them.
    SendToSome(u64),
    /// Closes one of them.
    CloseOne(u64),
    CloseWhenFlushed,
    CloseBecause,
}

impl Room {
    pub(crate) fn draw(sim: &Sim, draw: &Draw<'_>) -> Self {
        let mut coming = Vec::new();
        if draw.one_in(3) {
            for _ in 0..2 + draw.below(10) {
                let who = draw.below(100);
                let act = match draw.below(20) {
                    0..=4 => Act::Gather,
                    5..=6 => Act::Leave(who),
                    7..=8 => Act::Write,
                    9 => Act::Flush,
                    10..=12 => Act::WriteAndFlush,
                    13..=14 => Act::Send,
                    15..=16 => Act::SendToSome(who),
                    17 => Act::CloseOne(who),
                    18 => Act::CloseWhenFlushed,
                    _ => Act::CloseBecause,
                };
                coming.push((sim.now() + draw.millis(500), act));
            }
            coming.push((sim.now(), Act::Gather));
            // What is written and never flushed stops reading, once it is too much: nobody else would flush it then.
            coming.push((sim.now() + Duration::from_millis(501), Act::Flush));
            coming.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        }
        Self { group: ChannelGroup::new(), coming, numbers: 0, sent: Vec::new(), closed: Vec::new() }
    }

    pub(crate) fn due(&self) -> Option<Duration> {
        self.coming.last().map(|(at, _)| *at)
    }

    /// Does what is due.
    pub(crate) fn go_on(&mut self, sim: &Sim, lines: &mut [Line<'_>]) {
        while let Some((_, act)) = self.coming.pop_if(|(at, _)| *at <= sim.now()) {
            sim.note(format_args!("{act:?} of {}", self.group.len()));
            self.act(act, lines);
        }
    }

    fn act(&mut self, act: Act, lines: &mut [Line<'_>]) {
        let one = |who: u64| {
            let members = self.group.members();
            members.get(who as usize % members.len().max(1)).map(Channel::id)
        };
        self.numbers += 1;
        let number = self.numbers;
        let words = said(ROOM, number, 5 + number as usize * 100);
        match act {
            Act::Gather => {
                for channel in lines.iter().filter_map(|line| line.record.channel()) {
                    self.group.add(channel);
                }
            }
            Act::Leave(who) => {
                if let Some(id) = one(who) {
                    self.group.flush_if(|channel| channel.id() == id);
                    self.group.remove(id);
                }
            }
            Act::Write => self.group.write(words),
            Act::Flush => self.group.flush(),
            Act::WriteAndFlush => self.group.write_and_flush(words),
            Act::Send => self.sent.push((number, self.group.send(words))),
            Act::SendToSome(who) => {
                let mut turn = who;
                let some = self.group.send_if(words, |_| {
                    turn += 1;
                    turn.is_multiple_of(2)
                });
                self.sent.push((number, some));
            }
            Act::CloseOne(who) => {
                if let Some(id) = one(who) {
                    closes(lines, |other| other == id);
                    self.closed.push(self.group.close_if(|channel| channel.id() == id));
                }
            }
            Act::CloseWhenFlushed => {
                closes(lines, |id| self.group.contains(id));
                self.closed.push(self.group.close_when_flushed());
            }
            Act::CloseBecause => {
                closes(lines, |id| self.group.contains(id));
                self.closed.push(self.group.close_because(CloseCause::ShutDown));
            }
        }
    }

    /// What must hold when all channels have ended. What became of each message is told to its line.
    pub(crate) fn check(&mut self, sim: &Sim, lines: &[Line<'_>]) {
        if !self.group.is_empty() {
            sim.violation(format!("{} channels are members of a group, and have ended", self.group.len()));
        }
        for mut closed in self.closed.drain(..) {
            match closed.try_take() {
                Some(Ok(result)) if result.is_success() => {}
                other => sim.violation(format!("a group was closed, and was told {other:?}")),
            }
        }
        for (number, mut sent) in self.sent.drain(..) {
            match sent.try_take() {
                Some(Ok(results)) => {
                    for line in lines {
                        let id = line.record.channel().map(|channel| channel.id());
                        if let Some(result) = id.and_then(|id| results.get(id)) {
                            line.record.was_told(Wrote::ToAll(number), result.clone());
                        }
                    }
                }
                other => sim.violation(format!("what was sent to a group was told {other:?}")),
            }
        }
    }
}

/// These channels may end by that from now on.
fn closes(lines: &mut [Line<'_>], which: impl Fn(ChannelId) -> bool) {
    let has = |record: &Record| record.channel().is_some_and(|channel| which(channel.id()));
    lines.iter_mut().filter(|line| has(&line.record)).for_each(|line| line.server_ends = true);
}

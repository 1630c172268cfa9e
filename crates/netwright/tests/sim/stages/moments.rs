//! When a connection ends: how it gets there.

use super::{
    draw::Draw,
    wire::{Asks, Request},
};
use std::time::Duration;

/// Where a connection has got to when its end comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
    BeforeTheFirstByte,
    InTheMiddleOfAMessage,
    BetweenMessages,
    WhileThePeerDoesNotRead,
    WhileTheApplicationHasPaused,
    WhileWorkIsUnderWay,
    BehindAClose,
}

impl Moment {
    pub(crate) const ALL: [Self; 7] = [
        Self::BeforeTheFirstByte,
        Self::InTheMiddleOfAMessage,
        Self::BetweenMessages,
        Self::WhileThePeerDoesNotRead,
        Self::WhileTheApplicationHasPaused,
        Self::WhileWorkIsUnderWay,
        Self::BehindAClose,
    ];
}

/// What a client says until its moment has come.
#[derive(Debug, Clone)]
pub(crate) struct Approach {
    /// Requests, how much padding each has, and how long the client waits before it.
    pub(crate) requests: Vec<(Request, usize, Duration)>,
    /// So many bytes of one request more.
    pub(crate) part: Option<usize>,
    /// Whether the client reads.
    pub(crate) reads: bool,
}

impl Approach {
    pub(crate) fn draw(draw: &Draw<'_>, moment: Moment) -> Self {
        let many = match moment {
            Moment::BeforeTheFirstByte => 0,
            _ => 1 + draw.below(6) as u32,
        };
        let mut approach = Self { requests: Vec::new(), part: None, reads: true };
        for number in 0..many {
            let asks = match draw.below(12) {
                0 => Asks::Pause,
                1 => Asks::Work,
                _ => Asks::Answer,
            };
            approach.add(draw, asks, number, draw.one_of(&[0, 10, 300, 5_000]));
        }
        match moment {
            Moment::BeforeTheFirstByte | Moment::BetweenMessages => {}
            Moment::InTheMiddleOfAMessage => approach.part = Some(1 + draw.below(10) as usize),
            Moment::WhileThePeerDoesNotRead => {
                approach.reads = false;
                for number in many..many + 8 {
                    approach.add(draw, Asks::Answer, number, 20_000 + draw.below(20_000) as u32);
                }
            }
            Moment::WhileTheApplicationHasPaused => approach.add_last(draw, Asks::Pause, many),
            Moment::WhileWorkIsUnderWay => approach.add_last(draw, Asks::Work, many),
            Moment::BehindAClose => approach.add_last(draw, Asks::Bye, many),
        }
        approach
    }

    /// The one that matters, and sometimes others behind it.
    fn add_last(&mut self, draw: &Draw<'_>, asks: Asks, number: u32) {
        self.add(draw, asks, number, draw.one_of(&[0, 1_000, 30_000]));
        for behind in 0..draw.below(3) as u32 {
            self.add(draw, Asks::Answer, number + 1 + behind, draw.one_of(&[0, 1_000]));
        }
    }

    fn add(&mut self, draw: &Draw<'_>, asks: Asks, number: u32, amount: u32) {
        let padding = draw.one_of(&[0, 0, 20, 3_000]);
        let gap = if draw.one_in(2) { draw.micros(3_000) } else { Duration::ZERO };
        self.requests.push((Request { asks, number, amount }, padding, gap));
    }
}

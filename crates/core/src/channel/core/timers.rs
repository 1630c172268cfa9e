//! Timers of stages: each has a number, and comes back as a signal that names stage and timer.
//!
//! Idle channels by the thousand have one timer each and nothing else, so what is kept of it is small: a list, whose first place may be empty
//! and is filled again. Few channels have more than two.

use super::{Asked, ChannelCore, Home};
use crate::{
    event_loop::{Moment, SourceTimer},
    pipeline::StageTimer,
};
use std::time::Duration;

/// The timers that are armed.
#[derive(Default)]
pub(super) struct Timers(Option<Box<Armed>>);

struct Armed {
    signal: u64,
    key: SourceTimer,
    next: Timers,
}

/// The signal of a place that is empty: no stage has that number.
const FREE: u64 = u64::MAX;

impl Timers {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn push(&mut self, signal: u64, key: SourceTimer) {
        match &mut self.0 {
            Some(first) if first.signal == FREE => (first.signal, first.key) = (signal, key),
            first => *first = Some(Box::new(Armed { signal, key, next: Self(first.take()) })),
        }
    }

    /// Takes out one timer of which this is true. Its place is kept for the next one, in front, if none is kept there.
    fn take(&mut self, is_meant: impl Fn(u64) -> bool) -> Option<SourceTimer> {
        let mut place = &mut self.0;
        while !place.as_ref().map(|armed| armed.signal != FREE && is_meant(armed.signal))? {
            place = &mut place.as_mut()?.next.0;
        }
        let mut found = place.take()?;
        *place = found.next.0.take();
        let key = found.key;
        if self.0.as_ref().is_none_or(|first| first.signal != FREE) {
            (found.signal, found.next.0) = (FREE, self.0.take());
            self.0 = Some(found);
        }
        Some(key)
    }
}

/// One after the other, however many there are.
impl Drop for Timers {
    fn drop(&mut self) {
        let mut next = self.0.take();
        while let Some(mut armed) = next {
            next = armed.next.0.take();
        }
    }
}

/// The number of no timer: a stage has an appointment.
const LOOK: u32 = 0;

fn signal_of(stage: u32, timer: StageTimer) -> u64 {
    u64::from(stage) << 32 | u64::from(timer.0)
}

impl ChannelCore {
    pub(crate) fn arm(&mut self, stage: u32, delay: Duration) -> StageTimer {
        self.last_timer = self.last_timer.wrapping_add(1).max(LOOK + 1);
        let timer = StageTimer(self.last_timer);
        match &mut self.home {
            Home::Here(_) => self.arm_as(stage, timer, delay),
            Home::Away(away) => {
                away.armed.push(timer);
                away.asked.push(Asked::Arm(timer, delay));
            }
        }
        timer
    }

    /// Has a stage look at the channel at `moment`. A stage that wants to while another one waits for that takes a timer, and so does one on a worker.
    pub(crate) fn look_at(&mut self, stage: u32, moment: Moment) {
        let appointed = match (self.token(), &self.home) {
            (Some(token), Home::Here(local)) => local.appoint(token, stage, moment),
            (None, Home::Here(_)) => return,
            (_, Home::Away(_)) => false,
        };
        if !appointed {
            self.arm(stage, moment.duration_since(self.moment()));
        }
    }

    fn cancel_appointment(&self, from: u32) {
        if let (Some(token), Home::Here(local)) = (self.token(), &self.home) {
            local.cancel_appointment(token, from);
        }
    }

    /// Arms a timer whose number was given elsewhere.
    pub(crate) fn arm_as(&mut self, stage: u32, timer: StageTimer, delay: Duration) {
        if let (Some(token), Home::Here(local)) = (self.token(), &self.home) {
            let signal = signal_of(stage, timer);
            let key = local.arm(token, delay, signal);
            self.timers.push(signal, key);
        }
    }

    pub(crate) fn disarm(&mut self, stage: u32, timer: StageTimer) -> bool {
        if let Home::Away(away) = &mut self.home {
            let Some(index) = away.armed.iter().position(|armed| *armed == timer) else { return false };
            away.armed.swap_remove(index);
            away.asked.push(Asked::Disarm(timer));
            return true;
        }
        self.take_timer(signal_of(stage, timer)).is_some_and(|key| self.disarm_source(key))
    }

    fn disarm_source(&self, key: SourceTimer) -> bool {
        matches!(&self.home, Home::Here(local) if local.disarm(key))
    }

    /// A signal that came back: which stage it is for, if its timer still counts.
    pub(in crate::channel) fn due(&mut self, signal: u64) -> Option<(u32, StageTimer)> {
        let (stage, timer) = ((signal >> 32) as u32, StageTimer(signal as u32));
        if timer.0 != LOOK {
            self.take_timer(signal)?;
        }
        Some((stage, timer))
    }

    fn take_timer(&mut self, signal: u64) -> Option<SourceTimer> {
        self.timers.take(|armed| armed == signal)
    }

    /// The channel leaves its loop: no timer comes any more, and none can be armed.
    pub(in crate::channel) fn disarm_all(&mut self) {
        self.cancel_appointment(0);
        self.token = 0;
        self.drop_timers(0);
        self.timers = Timers::default();
    }

    /// Takes back the timers of all stages from this number on: they leave.
    pub(super) fn drop_timers(&mut self, from: u32) {
        self.cancel_appointment(from);
        while let Some(key) = self.timers.take(|signal| (signal >> 32) as u32 >= from) {
            self.disarm_source(key);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{
        driver::Token,
        event_loop::{LocalLoop, ManualLoop},
    };

    #[test]
    fn a_timer_is_taken_once_and_its_place_is_filled_again() {
        ManualLoop::new().enter(|| {
            let local = LocalLoop::current().unwrap();
            let key = || local.arm(Token::from_u64(1), Duration::MAX, 7);
            let mut timers = Timers::default();
            for signal in 0..100_000 {
                timers.push(signal, key()); // many, so that nothing here may call itself for each
            }
            assert!(timers.take(|signal| signal == 99_990).is_some());
            assert!(timers.take(|signal| signal == 99_990).is_none());
            timers.push(99_990, key());
            let places = |timers: &Timers| {
                let (mut count, mut next) = (0, &timers.0);
                while let Some(armed) = next {
                    (count, next) = (count + 1, &armed.next.0);
                }
                count
            };
            assert_eq!(places(&timers), 100_000);
            let mut taken = 0;
            while timers.take(|_| true).is_some() {
                taken += 1;
            }
            assert_eq!((taken, places(&timers)), (100_000, 1));
        });
    }
}

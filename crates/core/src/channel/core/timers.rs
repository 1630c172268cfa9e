//! Timers of stages: each has a number, and comes back as a signal that names stage and timer.

use super::{Asked, ChannelCore, Home};
use crate::{event_loop::SourceTimer, pipeline::StageTimer};
use std::time::Duration;

pub(super) struct Armed {
    signal: u64,
    key: SourceTimer,
}

fn signal_of(stage: u32, timer: StageTimer) -> u64 {
    u64::from(stage) << 32 | u64::from(timer.0)
}

impl ChannelCore {
    pub(crate) fn arm(&mut self, stage: u32, delay: Duration) -> StageTimer {
        self.last_timer = self.last_timer.wrapping_add(1);
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

    /// Arms a timer whose number was given elsewhere.
    pub(crate) fn arm_as(&mut self, stage: u32, timer: StageTimer, delay: Duration) {
        if let (Some(token), Home::Here(local)) = (self.token(), &self.home) {
            let signal = signal_of(stage, timer);
            let key = local.arm(token, delay, signal);
            let timers = &mut self.extras.get_or_insert_default().timers;
            if timers.capacity() == 0 {
                timers.reserve_exact(1); // for most channels that have one at all it stays the only one
            }
            timers.push(Armed { signal, key });
        }
    }

    pub(crate) fn disarm(&mut self, stage: u32, timer: StageTimer) -> bool {
        if let Home::Away(away) = &mut self.home {
            let Some(index) = away.armed.iter().position(|armed| *armed == timer) else { return false };
            away.armed.swap_remove(index);
            away.asked.push(Asked::Disarm(timer));
            return true;
        }
        self.take_timer(signal_of(stage, timer)).is_some_and(|armed| self.disarm_source(armed.key))
    }

    fn disarm_source(&self, key: SourceTimer) -> bool {
        matches!(&self.home, Home::Here(local) if local.disarm(key))
    }

    /// A signal that came back: which stage it is for, if its timer still counts.
    pub(in crate::channel) fn due(&mut self, signal: u64) -> Option<(u32, StageTimer)> {
        let (stage, timer) = ((signal >> 32) as u32, StageTimer(signal as u32));
        self.take_timer(signal)?;
        Some((stage, timer))
    }

    fn take_timer(&mut self, signal: u64) -> Option<Armed> {
        let timers = &mut self.extras.as_mut()?.timers;
        let index = timers.iter().position(|armed| armed.signal == signal)?;
        Some(timers.swap_remove(index))
    }

    /// The channel leaves its loop: no timer comes any more, and none can be armed.
    pub(in crate::channel) fn disarm_all(&mut self) {
        self.token = 0;
        let timers = self.extras.as_mut().map(|extras| std::mem::take(&mut extras.timers));
        for armed in timers.unwrap_or_default() {
            self.disarm_source(armed.key);
        }
    }

    /// Takes back the timers of all stages from this number on: they leave.
    pub(super) fn drop_timers(&mut self, from: u32) {
        let Some(extras) = &mut self.extras else { return };
        let leaving = |armed: &Armed| (armed.signal >> 32) as u32 >= from;
        let keys: Vec<_> =
            extras.timers.extract_if(.., |armed| leaving(armed)).map(|armed| armed.key).collect();
        for key in keys {
            self.disarm_source(key);
        }
    }
}

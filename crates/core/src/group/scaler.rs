//! Which loops of a group take new channels: the decision alone, without threads and without a clock.
//!
//! ```text
//!   loop           0     1     2     3
//!   utilisation   .9    .5    .1    .0     one sample per window
//!   streak        +3     0    -3    -3     samples in a row above (+) or below (-) the thresholds
//!   sources        4     2     1     0
//!                 │           │     └ idle for `patience` samples, hosts nothing: deactivated
//!                 │           └ idle as well, but hosts a source: stays
//!                 └ busy for `patience` samples: another loop is activated, unless an idle one is active already
//! ```
//!
//! Always true:
//! 1. `min <= active <= max`, and `max` is at most the number of loops.
//! 2. Loop 0 is active: the group's sampling runs on it, so that it could not give its thread back anyway.
//! 3. A loop that hosts a source is not deactivated. Channels never move, so nothing is lost by keeping it.
//! 4. One sample changes the number in one direction, by no more than that direction's ramp.
//! 5. A busy loop and an idle one outweigh each other. Otherwise one channel that alone fills its loop would make the
//!    number go up and down for ever.
//!
//! Not here: how utilisation is measured, and what becomes of a loop that is not active (`auto_scale`).

use crate::error::InvalidArgument;
use std::time::Duration;

/// What a timer can tell apart.
const WINDOW_MIN: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Settings {
    pub(super) min: usize,
    /// `None`: as many as the group has.
    pub(super) max: Option<usize>,
    pub(super) window: Duration,
    pub(super) scale_down_below: f64,
    pub(super) scale_up_above: f64,
    pub(super) ramp_up_max: usize,
    pub(super) ramp_down_max: usize,
    pub(super) patience: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min: 1,
            max: None,
            window: Duration::from_secs(1),
            scale_down_below: 0.25,
            scale_up_above: 0.75,
            ramp_up_max: 1,
            ramp_down_max: 1,
            patience: 3,
        }
    }
}

impl Settings {
    pub(super) fn validate(&self) -> Result<(), InvalidArgument> {
        let max = self.max.unwrap_or(usize::MAX);
        at_least_one("max", max)?;
        at_least_one("min", self.min)?;
        at_least_one("ramp_up_max", self.ramp_up_max)?;
        at_least_one("ramp_down_max", self.ramp_down_max)?;
        at_least_one("patience", self.patience as usize)?;
        if self.min > max {
            return Err(InvalidArgument::new("min", self.min, format!("at most max, which is {max}")));
        }
        if self.window < WINDOW_MIN {
            let value = format!("{:?}", self.window);
            return Err(InvalidArgument::new("window", value, format!("at least {WINDOW_MIN:?}")));
        }
        let (down, up) = (self.scale_down_below, self.scale_up_above);
        for (argument, share) in [("scale_down_below", down), ("scale_up_above", up)] {
            if !(0.0..=1.0).contains(&share) {
                return Err(InvalidArgument::new(argument, share, "between 0 and 1"));
            }
        }
        if down >= up {
            let expected = format!("less than scale_up_above, which is {up}");
            return Err(InvalidArgument::new("scale_down_below", down, expected));
        }
        Ok(())
    }
}

fn at_least_one(argument: &'static str, value: usize) -> Result<(), InvalidArgument> {
    if value == 0 {
        return Err(InvalidArgument::new(argument, value, "at least 1"));
    }
    Ok(())
}

/// What one sample says of one loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// From 0 to 1.
    pub(super) utilisation: f64,
    pub(super) sources: u64,
}

#[derive(Debug)]
pub(super) struct Scaler {
    settings: Settings,
    max: usize,
    /// In ascending order.
    active: Vec<usize>,
    /// Per loop: samples in a row above the upper threshold, or, negative, below the lower one.
    streaks: Vec<i64>,
}

impl Scaler {
    /// Begins with as many loops as allowed: channels never move, so those that come in a first rush had better be
    /// spread.
    pub(super) fn new(settings: Settings, loops: usize) -> Result<Self, InvalidArgument> {
        settings.validate()?;
        if settings.min > loops {
            let expected = format!("at most the number of loops, which is {loops}");
            return Err(InvalidArgument::new("min", settings.min, expected));
        }
        let max = settings.max.unwrap_or(loops).min(loops);
        Ok(Self { settings, max, active: (0..max).collect(), streaks: vec![0; loops] })
    }

    /// The indices of the loops that take new channels, in ascending order.
    pub(super) fn active(&self) -> &[usize] {
        &self.active
    }

    pub(super) fn is_active(&self, index: usize) -> bool {
        self.active.binary_search(&index).is_ok()
    }

    /// Takes in a sample, with one entry per loop, and decides. Returns how many loops are active from now on.
    pub(super) fn observe(&mut self, loads: &[Load]) -> usize {
        debug_assert_eq!(loads.len(), self.streaks.len());
        for (streak, load) in self.streaks.iter_mut().zip(loads) {
            *streak = if load.utilisation > self.settings.scale_up_above {
                (*streak).max(0) + 1
            } else if load.utilisation < self.settings.scale_down_below {
                (*streak).min(0) - 1
            } else {
                0
            };
        }
        let patience = i64::from(self.settings.patience);
        let busy = self.active.iter().filter(|&&index| self.streaks[index] >= patience).count();
        let idle = self.active.iter().filter(|&&index| self.streaks[index] < 0).count();
        if busy > idle {
            self.activate((busy - idle).min(self.settings.ramp_up_max));
        } else {
            self.deactivate((idle - busy).min(self.settings.ramp_down_max), loads);
        }
        self.active.len()
    }

    fn activate(&mut self, wanted: usize) {
        let count = wanted.min(self.max - self.active.len());
        if count == 0 {
            return;
        }
        let rest: Vec<usize> = (0..self.streaks.len()).filter(|&index| !self.is_active(index)).collect();
        self.active.extend(&rest[..count]);
        self.active.sort_unstable();
        // The newcomers need time to take channels before anyone asks for more of them, or calls them idle.
        self.streaks.fill(0);
    }

    /// The last ones first, so that the active loops stay close together.
    fn deactivate(&mut self, wanted: usize, loads: &[Load]) {
        let mut left = wanted.min(self.active.len() - self.settings.min);
        let patience = i64::from(self.settings.patience);
        for place in (1..self.active.len()).rev() {
            let index = self.active[place];
            if left > 0 && self.streaks[index] <= -patience && loads[index].sources == 0 {
                self.active.remove(place);
                left -= 1;
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const IDLE: Load = Load { utilisation: 0.0, sources: 0 };
    const IDLE_HOST: Load = Load { utilisation: 0.0, sources: 1 };
    const STEADY: Load = Load { utilisation: 0.5, sources: 1 };
    const BUSY: Load = Load { utilisation: 1.0, sources: 1 };

    /// Without patience and almost without ramps, so that a test names only what it is about.
    const EAGER: Settings = Settings {
        min: 1,
        max: None,
        window: Duration::from_secs(1),
        scale_down_below: 0.25,
        scale_up_above: 0.75,
        ramp_up_max: 100,
        ramp_down_max: 100,
        patience: 1,
    };

    fn scaler(settings: Settings, loops: usize) -> Scaler {
        Scaler::new(settings, loops).unwrap()
    }

    fn counts(scaler: &mut Scaler, loads: &[Load], samples: usize) -> Vec<usize> {
        (0..samples).map(|_| scaler.observe(loads)).collect()
    }

    #[test]
    fn idle_loops_go_down_to_min_and_never_below() {
        let mut scaler = scaler(Settings { min: 2, ..EAGER }, 5);
        assert_eq!(scaler.active(), [0, 1, 2, 3, 4]);
        assert_eq!(counts(&mut scaler, &[IDLE; 5], 4), [2, 2, 2, 2]);
        assert_eq!(scaler.active(), [0, 1]);
    }

    #[test]
    fn busy_loops_go_up_to_max_and_never_above() {
        let mut scaler = scaler(Settings { max: Some(3), ..EAGER }, 5);
        assert_eq!(scaler.active(), [0, 1, 2]);
        scaler.observe(&[IDLE; 5]);
        assert_eq!(counts(&mut scaler, &[BUSY; 5], 4), [2, 3, 3, 3]);
        assert_eq!(scaler.active(), [0, 1, 2]);
    }

    #[test]
    fn max_is_capped_by_the_number_of_loops() {
        let mut scaler = scaler(Settings { max: Some(64), ..EAGER }, 2);
        assert_eq!(counts(&mut scaler, &[BUSY; 2], 3), [2, 2, 2]);
    }

    #[test]
    fn going_down_needs_patience_and_a_busier_sample_starts_it_over() {
        let mut scaler = scaler(Settings { patience: 3, ..EAGER }, 2);
        assert_eq!(counts(&mut scaler, &[IDLE; 2], 2), [2, 2]);
        scaler.observe(&[IDLE, STEADY]);
        assert_eq!(counts(&mut scaler, &[IDLE; 2], 3), [2, 2, 1]);
    }

    #[test]
    fn going_up_needs_patience_and_a_calmer_sample_starts_it_over() {
        let mut scaler = scaler(Settings { patience: 2, ..EAGER }, 3);
        counts(&mut scaler, &[IDLE; 3], 2);
        assert_eq!(counts(&mut scaler, &[BUSY, IDLE, IDLE], 1), [1]);
        scaler.observe(&[STEADY, IDLE, IDLE]);
        assert_eq!(counts(&mut scaler, &[BUSY, IDLE, IDLE], 2), [1, 2]);
    }

    #[test]
    fn a_loop_that_hosts_a_source_is_not_deactivated() {
        let mut scaler = scaler(EAGER, 4);
        scaler.observe(&[IDLE, IDLE, IDLE_HOST, IDLE]);
        assert_eq!(scaler.active(), [0, 2]);
        scaler.observe(&[IDLE; 4]);
        assert_eq!(scaler.active(), [0]);
    }

    #[test]
    fn loop_0_stays_active_although_others_host_the_sources() {
        let mut scaler = scaler(EAGER, 3);
        assert_eq!(counts(&mut scaler, &[IDLE, IDLE_HOST, IDLE], 3), [2, 2, 2]);
        assert_eq!(scaler.active(), [0, 1]);
    }

    #[test]
    fn a_group_that_went_down_recovers_under_load() {
        let mut scaler = scaler(EAGER, 4);
        assert_eq!(scaler.observe(&[IDLE; 4]), 1);
        assert_eq!(scaler.observe(&[BUSY, IDLE, IDLE, IDLE]), 2);
        assert_eq!(scaler.observe(&[BUSY, BUSY, IDLE, IDLE]), 4);
    }

    #[test]
    fn one_sample_changes_no_more_than_its_ramp() {
        let mut scaler = scaler(Settings { ramp_down_max: 2, ramp_up_max: 3, ..EAGER }, 8);
        assert_eq!(counts(&mut scaler, &[IDLE; 8], 5), [6, 4, 2, 1, 1]);
        assert_eq!(counts(&mut scaler, &[BUSY; 8], 5), [2, 4, 7, 8, 8]);
    }

    #[test]
    fn after_going_up_the_newcomers_get_the_full_patience() {
        let mut scaler = scaler(Settings { patience: 2, ..EAGER }, 3);
        counts(&mut scaler, &[IDLE; 3], 2);
        assert_eq!(counts(&mut scaler, &[BUSY; 3], 6), [1, 2, 2, 3, 3, 3]);
    }

    #[test]
    fn one_channel_that_fills_its_loop_does_not_make_the_number_swing() {
        let mut scaler = scaler(EAGER, 4);
        let loads = [BUSY, IDLE, IDLE, IDLE];
        assert_eq!(counts(&mut scaler, &loads, 6), [2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn a_sample_at_a_threshold_changes_nothing() {
        let mut scaler = scaler(EAGER, 2);
        let at = |utilisation| Load { utilisation, sources: 0 };
        assert_eq!(counts(&mut scaler, &[at(0.25); 2], 3), [2, 2, 2]);
        scaler.observe(&[IDLE; 2]);
        assert_eq!(counts(&mut scaler, &[at(0.75); 2], 3), [1, 1, 1]);
    }

    #[test]
    fn whatever_is_observed_the_number_stays_within_its_bounds_and_ramps() {
        for seed in 1..=50_u64 {
            let mut random = seed;
            let mut below = |limit: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % limit
            };
            let loops = 1 + below(8) as usize;
            let min = 1 + below(loops as u64) as usize;
            let max = min + below(4) as usize;
            let (ramp_up_max, ramp_down_max) = (1 + below(3) as usize, 1 + below(3) as usize);
            let patience = 1 + below(3) as u32;
            let max_loops = max.min(loops);
            let settings =
                Settings { min, max: Some(max), ramp_up_max, ramp_down_max, patience, ..Settings::default() };
            let mut scaler = scaler(settings, loops);
            for _ in 0..200 {
                let before = scaler.active().to_vec();
                let loads: Vec<Load> = (0..loops)
                    .map(|_| Load { utilisation: below(101) as f64 / 100.0, sources: below(2) })
                    .collect();
                let active = scaler.observe(&loads);
                let context = format!("seed {seed}, {settings:?}, {before:?} -> {:?}", scaler.active());
                assert!((min..=max_loops).contains(&active), "{context}");
                assert!(active <= before.len() + ramp_up_max, "{context}");
                assert!(active + ramp_down_max >= before.len(), "{context}");
                let mut gone = before.iter().filter(|&&index| !scaler.is_active(index));
                assert!(gone.all(|&index| index != 0 && loads[index].sources == 0), "{context}");
                assert!(scaler.active().is_sorted(), "{context}");
            }
        }
    }

    #[test]
    fn settings_that_cannot_work_are_refused_by_name() {
        let ok = Settings::default();
        let cases = [
            (Settings { min: 0, ..ok }, "min is 0, but must be at least 1"),
            (Settings { max: Some(0), ..ok }, "max is 0, but must be at least 1"),
            (Settings { min: 3, max: Some(2), ..ok }, "min is 3, but must be at most max, which is 2"),
            (Settings { min: 5, ..ok }, "min is 5, but must be at most the number of loops, which is 4"),
            (Settings { window: Duration::ZERO, ..ok }, "window is 0ns, but must be at least 1ms"),
            (
                Settings { scale_down_below: -0.1, ..ok },
                "scale_down_below is -0.1, but must be between 0 and 1",
            ),
            (
                Settings { scale_up_above: f64::NAN, ..ok },
                "scale_up_above is NaN, but must be between 0 and 1",
            ),
            (
                Settings { scale_down_below: 0.75, ..ok },
                "scale_down_below is 0.75, but must be less than scale_up_above, which is 0.75",
            ),
            (Settings { ramp_up_max: 0, ..ok }, "ramp_up_max is 0, but must be at least 1"),
            (Settings { ramp_down_max: 0, ..ok }, "ramp_down_max is 0, but must be at least 1"),
            (Settings { patience: 0, ..ok }, "patience is 0, but must be at least 1"),
        ];
        for (settings, says) in cases {
            assert_eq!(Scaler::new(settings, 4).unwrap_err().to_string(), says);
        }
    }
}

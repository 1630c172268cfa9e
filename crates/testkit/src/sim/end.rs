//! The end of a simulation: every program is told to end, and what must never be is looked for.
//!
//! | what is looked for | where it is known |
//! | --- | --- |
//! | loops, workers, sources, tasks and timers that are still there | `Engine::left_on` |
//! | sources that a loop had to cut off, timers whose source had gone | the figures of loops that have ended (`Engine::farewell`) |
//! | loops that spin | `spin` |
//! | bytes that are lost, doubled or out of order; sockets that are open | the network's accounts |
//! | messages and bytes that still count in channels that are gone | [`World::flaw`](netwright_core::world::World::flaw) |
//! | promises of which nobody has heard | [`pending_promises`](netwright_core::world::pending_promises) |

use super::sim::Sim;
use netwright_core::world::pending_promises;
use std::{mem, task::Waker, time::Duration};

/// How long everything has to come to its end when a run is over, in simulated time: longer than what any default waits for.
const ENDING_MAX: Duration = Duration::from_secs(3600);

impl Sim {
    /// Everything comes to its end, and is looked at.
    pub(super) fn end(&self) {
        let engine = self.engine();
        engine.script.borrow_mut().stop();
        self.heal();
        let hosts = self.hosts();
        for host in &hosts {
            host.forget();
        }
        let over = || {
            // What loops close at their end may need the common workers again, which nobody else ends.
            if !engine.has_loops() {
                hosts.iter().for_each(|host| engine.world(host.index).common.end());
            }
            engine.is_empty()
        };
        self.run_until(ENDING_MAX, over);
        for host in &hosts {
            for left in engine.left_on(host.index) {
                self.violation(format!("{} never ended: {left}", host.name()));
            }
        }
        let (found, wakers) = {
            let mut state = engine.universe.lock();
            let found = state.net.check_closed().err().unwrap_or_default();
            (found, state.spread_news())
        };
        wakers.into_iter().for_each(Waker::wake);
        found.into_iter().for_each(|found| self.violation(found.to_string()));
        engine.abandon();
        // Behind that nobody is left who could still see to it.
        let (panics, first) = engine.universe.lock().panics.take();
        if let Some(first) = first {
            self.violation(format!("{panics} panics were contained, the first of them: {first}"));
        }
        let flaws = mem::take(&mut engine.universe.lock().flaws);
        flaws.into_iter().for_each(|flaw| self.violation(flaw));
        for (kind, many) in pending_promises() {
            self.violation(format!("{many} promises of a {kind} never ended"));
        }
    }
}

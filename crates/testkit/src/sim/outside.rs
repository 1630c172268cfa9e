//! A scenario outside of its hosts: it may wait, and nothing can be built there.

use super::{engine::Engine, universe::Universe};
use netwright_core::{
    driver::DriverSeed,
    world::{Common, LoopBody, WorkersBody, World},
};
use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

/// The world of the scenario itself.
pub(super) struct Outside {
    universe: Arc<Universe>,
    common: Common,
}

impl Outside {
    pub(super) fn new(universe: Arc<Universe>) -> Arc<Self> {
        Arc::new(Self { universe, common: Common::default() })
    }
}

/// Nobody could say on which host it is.
fn nowhere(what: &str) -> ! {
    panic!(
        "{what} within a simulation, but on none of its hosts: build it within `host.enter` or `host.start`"
    )
}

impl World for Outside {
    fn now(&self) -> Instant {
        self.universe.instant_outside()
    }

    fn system_time(&self) -> SystemTime {
        self.universe.system_time_outside()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.universe.lock().scenario_chance().fill(bytes);
    }

    fn cores(&self) -> usize {
        1
    }

    fn driver(&self) -> (u64, Box<dyn DriverSeed>) {
        nowhere("a loop was built")
    }

    fn take_loop(&self, body: LoopBody) {
        drop(body);
    }

    fn take_workers(&self, body: WorkersBody) {
        drop(body);
        nowhere("workers were built")
    }

    fn go_on(&self, deadline: Option<Instant>) -> bool {
        let until = deadline.map(|deadline| self.universe.when_outside(deadline));
        Engine::current().is_some_and(|engine| engine.step(until))
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn panicked(&self, message: &str) {
        self.universe.lock().panics.add(message);
    }
}

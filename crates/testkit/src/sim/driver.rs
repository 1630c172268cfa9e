//! The driver of a loop in a simulation: events come from the simulated network, and nothing is waited for.

use super::universe::{Tag, Universe};
use netwright_core::driver::{Driver, DriverSeed, DriverWaker, Events};
use netwright_transport::open::{Network, NetworkOf};
use std::{any::Any, io, rc::Rc, sync::Arc, time::Duration};

/// A driver that is not on the simulation's thread yet.
pub(super) struct SimSeed {
    universe: Arc<Universe>,
    tag: Tag,
    network: Arc<dyn Network>,
}

impl SimSeed {
    pub(super) fn new(universe: Arc<Universe>, tag: Tag, network: Arc<dyn Network>) -> Self {
        Self { universe, tag, network }
    }
}

impl DriverSeed for SimSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        Arc::new(Bell { universe: self.universe.clone(), tag: self.tag })
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(SimDriver {
            extension: Rc::new(NetworkOf(self.network.clone())),
            universe: self.universe,
            tag: self.tag,
            network: self.network,
        }))
    }
}

struct SimDriver {
    universe: Arc<Universe>,
    tag: Tag,
    network: Arc<dyn Network>,
    extension: Rc<NetworkOf>,
}

impl Driver for SimDriver {
    /// Whether time passes is for the simulation to say.
    fn poll(&mut self, _: Option<Duration>, events: &mut Events) -> io::Result<()> {
        self.universe.lock().take_events(self.tag, events);
        Ok(())
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        Ok(self.universe.lock().tell_all_again(self.tag))
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        Ok(Box::new(SimSeed { universe: self.universe, tag: self.tag, network: self.network }))
    }

    fn extension(&self) -> Option<Rc<dyn Any>> {
        Some(self.extension.clone())
    }
}

/// Wakes a loop that sleeps.
struct Bell {
    universe: Arc<Universe>,
    tag: Tag,
}

impl DriverWaker for Bell {
    fn wake(&self) {
        self.universe.lock().wake(self.tag);
    }
}

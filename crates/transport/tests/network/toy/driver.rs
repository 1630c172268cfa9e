//! The driver that does nothing, with a network.

use super::Toy;
use netwright_core::driver::{Driver, DriverSeed, DriverWaker, Events, ParkSeed};
use netwright_transport::open::NetworkOf;
use std::{any::Any, io, rc::Rc, sync::Arc, time::Duration};

pub(super) struct Seed {
    park: ParkSeed,
    network: Toy,
    mortal: Option<usize>,
}

impl Seed {
    pub(super) fn new(network: Toy, mortal: Option<usize>) -> Self {
        Self { park: ParkSeed::new(), network, mortal }
    }
}

impl DriverSeed for Seed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.park.waker()
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        let Self { park, network, mortal } = *self;
        Ok(Box::new(Online { park: Box::new(park).start()?, network, mortal }))
    }
}

struct Online {
    park: Box<dyn Driver>,
    network: Toy,
    mortal: Option<usize>,
}

impl Driver for Online {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        let dies = self.mortal.is_some_and(|index| self.network.is_condemned(index));
        assert!(!dies, "on purpose");
        self.park.poll(timeout, events)
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        self.park.rebuild()
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        Err(self)
    }

    fn extension(&self) -> Option<Rc<dyn Any>> {
        Some(Rc::new(NetworkOf(Arc::new(self.network.clone()))))
    }
}

//! Loops of every backend that die when they are told to.

use super::{PATIENCE, wait_until};
use crate::contract::{ON_PURPOSE, Setup};
use netwright_core::{
    EventLoop, EventLoopGroup, LoopError,
    driver::{Driver, DriverSeed, DriverWaker, Events},
};
use netwright_transport::{Backend, BlockingSeed, ReadinessSeed};
use std::{
    any::Any,
    io,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// A driver that panics when it is told to, and otherwise is that of its backend.
struct Mortal {
    inner: Box<dyn Driver>,
    orders: Arc<Orders>,
    index: usize,
}

struct MortalSeed {
    inner: Box<dyn DriverSeed>,
    orders: Arc<Orders>,
    index: usize,
}

/// Who is to die.
#[derive(Default)]
struct Orders {
    next: [AtomicBool; 2],
    all: AtomicBool,
    deaths: AtomicUsize,
}

impl Orders {
    fn obey(&self, index: usize) {
        if self.next[index].swap(false, Ordering::Relaxed) || self.all.load(Ordering::Relaxed) {
            self.deaths.fetch_add(1, Ordering::Relaxed);
            panic!("the driver dies {ON_PURPOSE}");
        }
    }
}

impl DriverSeed for MortalSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.inner.waker()
    }
    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(Mortal { inner: self.inner.start()?, orders: self.orders, index: self.index }))
    }
}

impl Driver for Mortal {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        self.orders.obey(self.index);
        self.inner.poll(timeout, events)
    }
    fn rebuild(&mut self) -> io::Result<usize> {
        self.inner.rebuild()
    }
    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        Err(self)
    }
    fn extension(&self) -> Option<Rc<dyn Any>> {
        self.inner.extension()
    }
}

fn seed(backend: Backend) -> io::Result<Box<dyn DriverSeed>> {
    Ok(match backend {
        #[cfg(target_os = "linux")]
        Backend::Uring => Box::new(netwright_transport::uring::UringSeed::new()?),
        Backend::Blocking => Box::new(BlockingSeed::new()?),
        _ => Box::new(ReadinessSeed::new()?),
    })
}

/// How to kill the loops of a group.
#[derive(Clone)]
pub(crate) struct Mortals {
    orders: Arc<Orders>,
}

impl Mortals {
    pub(crate) fn new() -> Self {
        Self { orders: Arc::default() }
    }

    /// Up to two loops of the transport's backend.
    pub(crate) fn group(&self, setup: Setup, loops: usize, replaced: bool) -> EventLoopGroup {
        let (orders, backend) = (self.orders.clone(), setup.transport.backend());
        EventLoopGroup::builder()
            .loops(loops)
            .name("mortal")
            .replace_dead(replaced)
            .driver(move |index| Ok(MortalSeed { inner: seed(backend)?, orders: orders.clone(), index }))
            .build()
            .unwrap()
    }

    /// Kills the loop at this place, and waits until its group knows.
    pub(crate) fn kill(&self, group: &EventLoopGroup, index: usize) -> EventLoop {
        let died = group.figures().died;
        let victim = self.condemn(group, index);
        let end = victim.termination().wait_timeout(PATIENCE).expect("the loop dies");
        assert!(matches!(end, Err(LoopError::Panicked(_))), "{end:?}");
        wait_until(|| group.figures().died > died, || "the death to be counted".to_owned());
        victim
    }

    /// The loop at this place is about to die.
    pub(crate) fn condemn(&self, group: &EventLoopGroup, index: usize) -> EventLoop {
        let victim = group.iter().nth(index).unwrap();
        self.orders.next[index].store(true, Ordering::Relaxed);
        let _ = victim.execute(|| ());
        victim
    }

    /// From now on every loop dies as soon as it begins.
    pub(crate) fn condemn_all(&self) {
        self.orders.all.store(true, Ordering::Relaxed);
    }

    /// How many have died.
    pub(crate) fn deaths(&self) -> usize {
        self.orders.deaths.load(Ordering::Relaxed)
    }
}

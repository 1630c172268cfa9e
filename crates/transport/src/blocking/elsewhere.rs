//! Where there is no `poll(2)`: the driver cannot be had, and says so.

use netwright_core::driver::{Driver, DriverSeed, DriverWaker};
use std::{io, sync::Arc};

/// A driver that blocks in `poll(2)`: there is none on this platform.
#[derive(Debug)]
pub enum BlockingSeed {}

impl BlockingSeed {
    /// Fails with `Unsupported`.
    pub fn new() -> io::Result<Self> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "this platform has no poll(2): use another backend"))
    }
}

impl DriverSeed for BlockingSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        match *self {}
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        match *self {}
    }
}

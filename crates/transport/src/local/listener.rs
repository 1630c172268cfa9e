//! Names that are listened to, and loops that accept there.

use super::Door;
use crate::open::{Acceptor, Arrival, Listener};
use netwright_core::{Address, LocalLoop, driver::Token};
use std::{io, sync::Arc};

pub(super) struct LocalListener {
    door: Door,
}

impl LocalListener {
    pub(super) fn new(door: Door) -> Arc<Self> {
        Arc::new(Self { door })
    }
}

impl Listener for LocalListener {
    fn address(&self) -> Address {
        self.door.address()
    }

    fn attend(self: Arc<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Acceptor>> {
        let number = self.door.attend(local.caller(token));
        Ok(Box::new(LocalAcceptor { listener: self, number }))
    }
}

struct LocalAcceptor {
    listener: Arc<LocalListener>,
    /// What the door knows us by.
    number: u64,
}

impl Acceptor for LocalAcceptor {
    fn accept(&mut self) -> io::Result<Arrival> {
        self.listener.door.accept().map(Arrival::from).ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
}

impl Drop for LocalAcceptor {
    fn drop(&mut self) {
        self.listener.door.leave(self.number);
    }
}

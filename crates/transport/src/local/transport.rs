//! What stands behind `local:name`.

use super::{LocalStream, door, end::End};
use crate::open::{Connect, Connecting, Connection, Listen, Listener, Stream, Transport};
use netwright_core::{Address, LocalLoop, driver::Token};
use std::{future, io, sync::Arc};

pub(crate) struct LocalTransport;

impl Transport for LocalTransport {
    fn listen(&self, how: &Listen<'_>) -> io::Result<Arc<dyn Listener>> {
        Ok(door::listen(how.scope, how.name, how.backlog, how.options.clone())?)
    }

    fn connect(&self, how: &Connect<'_>) -> Connecting {
        let end = door::connect(how.scope, how.name, how.options);
        Box::pin(future::ready(end.map(Into::into)))
    }
}

impl Connection for End {
    fn peer(&self) -> Address {
        self.peer_address().clone()
    }

    fn local(&self) -> Option<Address> {
        Some(self.address().clone())
    }

    fn open(self: Box<Self>, local: &LocalLoop, token: Token) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(LocalStream::open(local, token, *self)))
    }

    fn refuse(mut self: Box<Self>) {
        self.reset_on_close();
    }
}

//! A descriptor and its registration, as one.

use super::{Interest, Readiness};
use crate::sys::AsSource;
use netwright_core::driver::Token;
use std::{io, ops::Deref, rc::Rc};

/// A descriptor that the loop's driver knows for as long as this lives: it is deregistered before it is closed.
pub(crate) struct Registered<S: AsSource> {
    readiness: Rc<Readiness>,
    source: S,
}

impl<S: AsSource> Registered<S> {
    pub(crate) fn new(
        readiness: Rc<Readiness>,
        source: S,
        token: Token,
        interest: Interest,
    ) -> io::Result<Self> {
        readiness.register(&source, token, interest)?;
        Ok(Self { readiness, source })
    }

    /// What its source can use from now on; see [`Readiness::set_interest`].
    #[inline(always)]
    pub(crate) fn set_interest(&self, reads: bool, writes: bool) {
        // It is registered, so this cannot fail; edge-triggered it is a branch.
        let _ = self.readiness.set_interest(&self.source, reads, writes);
    }
}

impl<S: AsSource> Deref for Registered<S> {
    type Target = S;

    #[inline(always)]
    fn deref(&self) -> &S {
        &self.source
    }
}

impl<S: AsSource> Drop for Registered<S> {
    fn drop(&mut self) {
        #[cfg(unix)]
        deregister(&self.readiness, &self.source);
        #[cfg(not(unix))]
        let _ = self.readiness.deregister(&self.source);
    }
}

/// Whatever the source is: whoever drops a channel does not compile it. Sockets of Windows have no such common form.
#[cfg(unix)]
#[inline(never)]
fn deregister(readiness: &Readiness, source: &dyn AsSource) {
    let _ = readiness.deregister(&source);
}

//! Where stages count whom they refuse: in the figures of the server that has made their pipeline.
//!
//! ```text
//!   accepted ─▶ the user's function makes the pipeline ─▶ channel ─▶ a stage knows who it is, and refuses
//!                      └ Refusals::current()                                   └ Refusals::count ─▶ ServerFigures
//! ```
//! Always true: a thread knows a server for as long as a function of the user's makes a pipeline of it, also if that panics.
//!
//! Not here: whom the listener itself refuses, which is counted where that is done (`handover`).

use super::Refusal;
use crate::{admission::Gate, socket::ListenerFigures};
use std::{
    cell::RefCell,
    fmt,
    sync::{Arc, atomic::Ordering},
};

thread_local! {
    static CURRENT: RefCell<Option<Refusals>> = const { RefCell::new(None) };
}

/// Counts connections that a stage refuses, in the [figures](crate::ServerFigures) of its server. For stages that know only behind the listener who somebody is:
/// behind a proxy's header, or behind a certificate.
///
/// ```
/// use netwright_core::{CloseCause, Filter, FilterContext, pipeline};
/// use netwright_transport::{Client, Refusal, Refusals, Server};
///
/// /// Refuses everybody.
/// struct Nobody {
///     refusals: Option<Refusals>,
/// }
///
/// impl<R: 'static, W: 'static> Filter<R, W> for Nobody {
///     fn active(&mut self, cx: &mut FilterContext<'_, Self, R, W>) {
///         let why = Refusal::Judged("we are closed".into());
///         if let Some(refusals) = self.refusals.take() {
///             refusals.count(&why);
///         }
///         cx.close_because(CloseCause::Fault(why.into()));
///     }
/// }
///
/// let server = Server::builder()
///     .pipeline(|_| pipeline().filter(Nobody { refusals: Refusals::current() }).handle(|_, _| {}))
///     .bind("local:nobody")
///     .wait()?;
/// let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {}))?;
/// client.connect(server.address()).wait()?.closed().wait()?;
/// assert_eq!(server.figures().refused_judged, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Refusals {
    figures: Arc<ListenerFigures>,
    gate: Arc<Gate>,
}

impl Refusals {
    /// Those of the server for which a pipeline is being made now, on this thread: to be asked in the function that is given to
    /// [`ServerBuilder::pipeline`](super::ServerBuilder::pipeline). None elsewhere.
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Counts one by its reason. Whoever does so closes the channel.
    pub fn count(&self, why: &Refusal) {
        why.count(&self.figures);
    }

    /// Counts one who was told in words as well.
    pub fn count_told(&self, why: &Refusal) {
        self.count(why);
        self.gate.told_politely.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn of(figures: &Arc<ListenerFigures>, gate: &Arc<Gate>) -> Self {
        Self { figures: figures.clone(), gate: gate.clone() }
    }

    /// Makes this known on this thread, until what is given back is dropped.
    pub(super) fn enter(self) -> Entered {
        Entered { before: CURRENT.replace(Some(self)) }
    }
}

pub(super) struct Entered {
    before: Option<Refusals>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.before.take());
    }
}

impl fmt::Debug for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refusals").finish_non_exhaustive()
    }
}

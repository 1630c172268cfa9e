//! Clients whose connections go through proxies. Called by pointers, so that programs without proxies have no code of them.
//!
//! ```text
//!   connect ─▶ around.route ─▶ none: as without ─▶ channel
//!                           └▶ where to connect to, and what to say there ─▶ channel ─ handshake ─▶ told ─▶ promise
//! ```
//! Always true: the promise is kept when the proxies have agreed, and the channel of one that is broken or cancelled is closed.

use super::{
    ConnectError,
    client::{Arrived, open},
};
use crate::{
    proxy::{self, Dialogue, Proxies, Secures, Told},
    resolve::Resolve,
};
use bytes::BytesMut;
use netwright_core::{Channel, Handler, IntoPipeline, Outgoing, Promise, Promised};
use std::{
    cell::RefCell,
    pin::Pin,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// What is to be said on a connection, when that is known.
pub(super) type Planning = Pin<Box<dyn Future<Output = Result<Box<Dialogue>, ConnectError>> + Send>>;

/// How a client gets around what lies between it and its targets.
pub(super) trait Around<W: 'static>: Send + Sync {
    /// Where to connect to instead, and what to say there. None: the target is connected to directly.
    fn route(&self, target: &str, resolver: &Arc<dyn Resolve>) -> Option<(String, Planning)>;

    /// What a cancel of this promise closes.
    fn watch(&self, promised: &Promised<Channel<W>, ConnectError>) -> Held<W>;

    /// Makes a channel of a connection to the first proxy. The promise is kept when the last one has agreed.
    fn begin(
        &self,
        arrived: Arrived<'_>,
        dialogue: Box<Dialogue>,
        promise: Promise<Channel<W>, ConnectError>,
        held: Held<W>,
    );
}

/// The channel of a connect that is under way, for a cancel on any thread.
pub(super) struct Held<W: 'static>(Arc<Mutex<Option<Channel<W>>>>);

impl<W: 'static> Held<W> {
    fn close(&self) {
        let channel = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(channel) = channel {
            channel.close();
        }
    }
}

pub(super) struct ByProxies<F, S> {
    pub(super) proxies: Proxies,
    pub(super) limit: Duration,
    pub(super) secures: Option<Secures<S>>,
    pub(super) make: Arc<F>,
}

impl<F, P, W, S> Around<W> for ByProxies<F, S>
where
    F: Fn() -> P + Send + Sync + 'static,
    P: IntoPipeline<W>,
    W: Send + 'static,
    S: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
{
    fn route(&self, target: &str, resolver: &Arc<dyn Resolve>) -> Option<(String, Planning)> {
        let route = self.proxies.route(target)?;
        Some((route.first().to_owned(), Box::pin(route.plan(resolver.clone()))))
    }

    fn watch(&self, promised: &Promised<Channel<W>, ConnectError>) -> Held<W> {
        let held = Held(Arc::default());
        let known = Held(held.0.clone());
        promised.listen(move |result| {
            if let Err(ConnectError::Cancelled) = result {
                known.close();
            }
        });
        held
    }

    fn begin(
        &self,
        arrived: Arrived<'_>,
        dialogue: Box<Dialogue>,
        promise: Promise<Channel<W>, ConnectError>,
        held: Held<W>,
    ) {
        let pending = Rc::new(RefCell::new(Pending { promise: Some(promise), channel: None, outcome: None }));
        let known = pending.clone();
        let told: Told = Box::new(move |outcome| {
            known.borrow_mut().outcome = Some(outcome);
            settle(&known);
        });
        let (make, limit, secures) = (self.make.clone(), self.limit, self.secures.clone());
        let pipeline = RefCell::new(Some(proxy::through(dialogue, limit, told, secures, move || make())));
        // Nothing of the user's runs before the proxies have agreed.
        let opened =
            open(arrived, &|| pipeline.borrow_mut().take().expect("a pipeline is taken once, by `open`"));
        match opened {
            Ok(channel) => {
                *held.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(channel.clone());
                pending.borrow_mut().channel = Some(channel);
                let cancelled = pending.borrow().promise.as_ref().is_some_and(Promise::is_cancelled);
                if cancelled {
                    held.close(); // before there was a channel to be closed
                }
            }
            Err(error) => pending.borrow_mut().outcome = Some(Err(error)),
        }
        settle(&pending);
    }
}

/// What is known of a connect whose handshake is under way.
struct Pending<W: 'static> {
    promise: Option<Promise<Channel<W>, ConnectError>>,
    channel: Option<Channel<W>>,
    outcome: Option<Result<(), ConnectError>>,
}

/// Tells how it ended, if that is known and there is a channel. No borrow lasts while the promise is kept.
fn settle<W: 'static>(pending: &RefCell<Pending<W>>) {
    let (promise, result) = {
        let mut pending = pending.borrow_mut();
        let result = match (pending.outcome.take(), pending.channel.take()) {
            (Some(Ok(())), Some(channel)) => Ok(channel),
            (Some(Err(error)), _) => Err(error),
            (outcome, channel) => {
                (pending.outcome, pending.channel) = (outcome, channel);
                return;
            }
        };
        (pending.promise.take(), result)
    };
    let Some(mut promise) = promise else { return };
    if !promise.claim() {
        if let Ok(channel) = result {
            channel.close(); // cancelled at the last moment
        }
        return;
    }
    promise.complete(result);
}

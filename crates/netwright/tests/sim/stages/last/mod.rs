//! The last stages of servers: each does what requests ask for, in its own way.

mod applications;
mod children;
mod joints;
mod tails;
mod workers;

use super::{
    record::{Place, Record},
    slips::Step,
    wire::{Request, Requests},
};
use bytes::BytesMut;
use netwright::server::Accepted;
use netwright::{
    Address, CloseCause, Context, Handler, Outgoing, Promised, Server, Workers, WritePromise,
    pipeline::{Hold, InboundStage, StageTimer, inbound},
    server::{BindError, ServerBuilder},
};
use std::{collections::BTreeMap, net::IpAddr, num::NonZeroUsize, time::Duration};

/// What the pipelines of a server are made with.
#[derive(Clone)]
pub(crate) struct Set {
    pub(crate) records: BTreeMap<IpAddr, Record>,
    pub(crate) workers: Workers,
    /// How long an application pauses that is asked to.
    pub(crate) pause: Duration,
    /// How long work takes beside the way there and back.
    pub(crate) work: Option<Duration>,
    /// How a stage closes that is asked to.
    pub(crate) bye: Bye,
    /// Whether the last stage wants to hear that the peer sends no more.
    pub(crate) half_closure: bool,
    pub(crate) concurrency: NonZeroUsize,
    /// How long a stage in front of the last one holds back what follows each request.
    pub(crate) hold: Option<Duration>,
    /// With which request a segment gives way to the next one.
    pub(crate) exchange_at: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bye {
    WhenFlushed,
    AtOnce,
    OutputFirst,
}

impl Set {
    pub(crate) fn record(&self, accepted: &Accepted) -> Record {
        let Address::Ip(peer) = &accepted.peer else {
            panic!("{} is no client of this scenario", accepted.peer)
        };
        self.records[&peer.ip()].clone()
    }
}

/// A kind of last stage.
#[derive(Clone, Copy)]
pub(crate) struct Last {
    pub(crate) serve: fn(ServerBuilder, Set) -> Promised<Server, BindError>,
    /// Whether everything that was asked is answered when the peer sends no more and reads on.
    pub(crate) tells_all: bool,
    /// Whether it can close by itself.
    pub(crate) closes: bool,
    /// Whether it reads what had come before the end also behind it.
    pub(crate) reads_all: bool,
    /// Whether it may ask for messages one by one: what others have asked for beside it waits with it, and goes with the end.
    pub(crate) asks: bool,
}

pub(crate) const APPLICATION: Last =
    Last { serve: applications::application, tells_all: true, closes: true, reads_all: true, asks: false };
pub(crate) const CLOSURE: Last =
    Last { serve: applications::closure, tells_all: false, closes: true, reads_all: true, asks: false };
pub(crate) const ASYNC_FUNCTION: Last =
    Last { serve: tails::function, tells_all: true, closes: true, reads_all: true, asks: true };
pub(crate) const HALVES: Last =
    Last { serve: tails::halves, tells_all: true, closes: true, reads_all: true, asks: true };
pub(crate) const SERVICE: Last =
    Last { serve: tails::service, tells_all: true, closes: false, reads_all: true, asks: true };
pub(crate) const STAGE_ON_WORKERS: Last =
    Last { serve: workers::stage, tells_all: true, closes: true, reads_all: true, asks: false };
pub(crate) const APPLICATION_ON_WORKERS: Last =
    Last { serve: workers::application, tells_all: true, closes: true, reads_all: true, asks: false };
pub(crate) const JOINT: Last =
    Last { serve: joints::joint, tells_all: true, closes: true, reads_all: true, asks: true };
pub(crate) const SEALED: Last =
    Last { serve: joints::sealed, tells_all: true, closes: true, reads_all: true, asks: true };
pub(crate) const CHILDREN: Last =
    Last { serve: children::children, tells_all: false, closes: true, reads_all: false, asks: false };

/// Lets one request through at a time, with a pause behind it.
struct Slow {
    pause: Option<Duration>,
    hold: Option<Hold>,
}

impl Slow {
    fn new(set: &Set) -> Self {
        Self { pause: set.hold, hold: None }
    }
}

impl Handler for Slow {
    type Read = Request;
    type ReadOut = Request;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, request: Request) {
        cx.fire_read(request);
        if let Some(pause) = self.pause {
            self.hold = Some(cx.hold());
            cx.arm(pause);
        }
    }
    fn timer(&mut self, cx: &mut Context<'_, Self>, _: StageTimer) {
        if let Some(hold) = self.hold.take() {
            hold.release(cx);
        }
    }
    /// There may be something behind what it holds back.
    fn owes(&self) -> bool {
        self.hold.is_some()
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
}

fn requests() -> InboundStage<Requests> {
    inbound(Requests::default())
}

/// The stage next to the wire, which hears everything that all others do.
struct Wire(Record);

impl Handler for Wire {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.0.active(Place::Wire);
        let caller = cx.caller();
        self.0.has_closer(move || caller.call(|_, cx: &mut Context<'_, Self>| cx.close()));
        self.0.step(Step::WireActive);
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.0.between(Place::Wire, "bytes");
        self.0.step(Step::WireRead);
        cx.fire_read(bytes);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.0.inactive(Place::Wire, &cause);
        self.0.step(Step::WireInactive);
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        self.0.step(Step::WireWrite);
        cx.write_with(msg, done);
    }
    fn panicked(&mut self, _: &mut Context<'_, Self>) {
        self.0.panicked(Place::Wire);
    }
    fn removed(&mut self) {
        self.0.removed(Place::Wire);
        self.0.step(Step::WireRemoved);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.0.gone();
    }
}

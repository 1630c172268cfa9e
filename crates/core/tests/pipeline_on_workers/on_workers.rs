//! The builder and the channel that the tests get instead of the usual ones.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    self as core, ApplicationStage, Carries, Channel, ClosureStage, Complete, Context, Finished, Handler,
    HostSettings, Link, ManualLoop, OnWorkers, Open, Outgoing, PipelineBuilder, Segment, SendApplication,
    SendHandler, Workers,
    internal::{CarriedBy, Collector},
};
use std::{convert::Infallible, thread, time::Duration};

thread_local! {
    /// One thread: what is removed in order is told so in order, and an empty task is behind everything before it.
    static WORKERS: Workers = Workers::new(1).unwrap();
}

fn workers() -> Workers {
    WORKERS.with(Workers::clone)
}

/// A pipeline whose stages are on workers.
pub(crate) struct Building<S, E = Open>(PipelineBuilder<S, E>);

pub(crate) fn pipeline() -> Building<()> {
    Building(core::pipeline())
}

impl Building<()> {
    pub(crate) fn add<K: SendHandler>(self, handler: K) -> Building<((), OnWorkers<K>)> {
        Building(self.0.add_on(&workers(), handler))
    }

    pub(crate) fn handle<F>(self, call: F) -> Building<((), ClosureStage<BytesMut, Outgoing>), Complete>
    where
        F: FnMut(&mut Context<'_, ClosureStage<BytesMut, Outgoing>>, BytesMut) + 'static,
    {
        Building(self.0.handle(call))
    }
}

#[allow(clippy::type_complexity)] // the type is the list of stages: it grows with them
impl<S, H: Handler> Building<(S, H)> {
    pub(crate) fn add<K>(self, handler: K) -> Building<((S, H), OnWorkers<K>)>
    where
        K: SendHandler<Read = H::ReadOut>,
        H::Write: Carries<K::WriteOut>,
    {
        Building(self.0.add_on(&workers(), handler))
    }

    pub(crate) fn app<A, M: 'static>(
        self,
        application: A,
    ) -> Building<
        (
            (S, H),
            impl Handler<Read = H::ReadOut, ReadOut = Infallible, Write = M, WriteOut = M> + use<S, H, A, M>,
        ),
        Complete,
    >
    where
        A: SendApplication<Read = H::ReadOut, Write = M>,
        H::Write: Carries<M>,
    {
        Building(self.0.app_on(&workers(), application))
    }

    pub(crate) fn handle<F>(self, call: F) -> Building<((S, H), ClosureStage<H::ReadOut, H::Write>), Complete>
    where
        F: FnMut(&mut Context<'_, ClosureStage<H::ReadOut, H::Write>>, H::ReadOut) + 'static,
    {
        Building(self.0.handle(call))
    }
}

/// An embedded channel that waits for its workers whatever is done with it.
pub(crate) struct EmbeddedChannel<R, W>(core::EmbeddedChannel<R, W>);

impl<R: 'static, W: 'static> EmbeddedChannel<R, W> {
    pub(crate) fn new<S, H, E, P, O>(stages: Building<(S, H), E>) -> Self
    where
        H: Handler<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<Complete, Linked = P>,
        P: Segment<BytesMut, O, Tail = W>,
        O: CarriedBy<Outgoing>,
    {
        Self::with_settings(stages, HostSettings::default())
    }

    pub(crate) fn with_settings<S, H, E, P, O>(stages: Building<(S, H), E>, settings: HostSettings) -> Self
    where
        H: Handler<ReadOut = R, Write = W>,
        ((S, H), ApplicationStage<Collector<R, W>>): Link<Complete, Linked = P>,
        P: Segment<BytesMut, O, Tail = W>,
        O: CarriedBy<Outgoing>,
    {
        let mut channel = Self(core::EmbeddedChannel::with_settings(stages.0, settings));
        channel.settle();
        channel
    }

    pub(crate) fn write_inbound(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.0.write_inbound(bytes);
        self.settle()
    }

    pub(crate) fn close_input(&mut self) -> &mut Self {
        self.0.close_input();
        self.settle()
    }

    pub(crate) fn close_by_peer(&mut self) -> &mut Self {
        self.0.close_by_peer();
        self.settle()
    }

    pub(crate) fn read_outbound(&mut self) -> Option<Bytes> {
        self.settle().0.read_outbound()
    }

    pub(crate) fn outbound_bytes(&mut self) -> Vec<u8> {
        self.settle().0.outbound_bytes()
    }

    pub(crate) fn block_output(&mut self, blocked: bool) -> &mut Self {
        self.0.block_output(blocked);
        self.settle()
    }

    pub(crate) fn read_inbound(&mut self) -> Option<R> {
        self.settle().0.read_inbound()
    }

    pub(crate) fn write_outbound(&mut self, msg: W) -> &mut Self {
        self.0.write_outbound(msg);
        self.settle()
    }

    pub(crate) fn channel(&self) -> &Channel<W> {
        self.0.channel()
    }

    /// Millisecond by millisecond: a timer that a worker arms counts from when the last one came.
    pub(crate) fn advance(&mut self, by: Duration) -> &mut Self {
        self.settle();
        for _ in 0..by.as_millis() {
            self.0.advance(Duration::from_millis(1));
            self.settle();
        }
        self
    }

    pub(crate) fn run(&mut self) -> &mut Self {
        self.settle()
    }

    pub(crate) fn event_loop(&mut self) -> &mut ManualLoop {
        self.0.event_loop()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_open()
    }

    pub(crate) fn wants_read(&self) -> bool {
        self.0.wants_read()
    }

    pub(crate) fn finish(self) -> Finished<R> {
        self.0.finish()
    }

    /// Waits until the workers have nothing left to do for this channel.
    fn settle(&mut self) -> &mut Self {
        while self.0.run().is_busy() {
            thread::yield_now();
        }
        if !self.is_open() {
            workers().submit(|| ()).unwrap().wait().unwrap(); // behind what is said to those who leave
        }
        self
    }
}

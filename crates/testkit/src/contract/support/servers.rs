//! Servers and clients of the setup under test.

use super::{Hold, PATIENCE, Peer, Script, Soon, assert_quiet, settle, wait_until};
use crate::contract::{Model, Setup, Variation};
use bytes::BytesMut;
use netwright_core::{
    Address, AppContext, Application, Context, EventLoop, EventLoopGroup, Handler, OnWorker, Outcome,
    Outgoing, Termination, Workers, WorkersFigures, WritePromise, pipeline,
};
use netwright_transport::{Client, ClientBuilder, Server, ServerBuilder, ThreadPerChannel};
use std::{net::SocketAddr, time::Duration};

impl Setup {
    /// A server of this model, with its loops.
    pub(crate) fn server(self) -> (ServerBuilder, Loops) {
        self.server_accepting_on(|loops| self.event_loops(loops))
    }

    /// A server of this model whose accepting loops are made like this.
    pub(crate) fn server_accepting_on(
        self,
        accepting: impl FnOnce(usize) -> EventLoopGroup,
    ) -> (ServerBuilder, Loops) {
        if self.model == Model::ThreadPerChannel {
            let (threads, acceptors) = (ThreadPerChannel::new(), accepting(1));
            let builder = self.bare_server().acceptors(acceptors.clone()).thread_per_channel(threads.clone());
            return (builder, Loops { acceptors, hosts: Homes::Threads(threads), workers: self.workers() });
        }
        let (workers, acceptors) = match self.model {
            Model::OneLoop => (accepting(1), None),
            Model::SharedPort => (accepting(2), None),
            Model::OneAcceptor | Model::ThreadPerChannel => (self.event_loops(2), Some(accepting(1))),
            Model::TwoAcceptors => (self.event_loops(2), Some(accepting(2))),
        };
        let shared = self.model == Model::SharedPort;
        let mut builder = self.bare_server().group(workers.clone()).shared_port(shared);
        if let Some(acceptors) = &acceptors {
            builder = builder.acceptors(acceptors.clone());
        }
        let acceptors = acceptors.unwrap_or_else(|| workers.clone());
        (builder, Loops { acceptors, hosts: Homes::Group(workers), workers: self.workers() })
    }

    fn workers(self) -> Option<Workers> {
        (self.variation == Variation::OnWorkers).then(|| Workers::new(2).unwrap())
    }

    /// A server that nothing but the backend is said of.
    pub(crate) fn bare_server(self) -> ServerBuilder {
        self.transport.server(Server::builder())
    }

    /// Has every connection run this script.
    pub(crate) fn serve(self, script: Script) -> Running {
        self.serve_with(script, |builder| builder)
    }

    pub(crate) fn serve_with(
        self,
        script: Script,
        set_up: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Running {
        let (builder, loops) = self.server();
        let script = script.asking(self.asks());
        let (builder, at) = (set_up(builder.auto_read(!self.asks())), self.listen_at());
        let mut bound = match loops.workers.clone() {
            Some(workers) => {
                builder.pipeline(move |_| pipeline().add_on(&workers, Pass).app(script.probe())).bind(at)
            }
            None => builder.pipeline(move |_| pipeline().app(script.probe())).bind(at),
        };
        Running { setup: self, server: bound.soon().unwrap(), loops }
    }

    /// A server that sends everything back.
    pub(crate) fn echo(self) -> Running {
        let (builder, loops) = self.server();
        let at = self.listen_at();
        let mut bound = match loops.workers.clone() {
            Some(workers) => builder.pipeline(move |_| pipeline().add_on(&workers, Pass).app(Echo)).bind(at),
            None if self.asks() => builder.auto_read(false).pipeline(|_| pipeline().app(AskingEcho)).bind(at),
            None => builder.pipeline(|_| pipeline().app(Echo)).bind(at),
        };
        Running { setup: self, server: bound.soon().unwrap(), loops }
    }

    /// Has every connection run this async tail.
    pub(crate) fn serve_tail<F, T>(self, tail: F) -> Running
    where
        F: Fn(netwright_core::Peer) -> T + Clone + Send + Sync + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        self.serve_tail_with(tail, |builder| builder)
    }

    pub(crate) fn serve_tail_with<F, T>(
        self,
        tail: F,
        set_up: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Running
    where
        F: Fn(netwright_core::Peer) -> T + Clone + Send + Sync + 'static,
        T: Future<Output: Outcome> + 'static,
    {
        let (builder, loops) = self.server();
        let (builder, at) = (set_up(builder.auto_read(!self.asks())), self.listen_at());
        let mut bound = match loops.workers.clone() {
            Some(workers) => {
                builder.pipeline(move |_| pipeline().add_on(&workers, Pass).serve(tail.clone())).bind(at)
            }
            None => builder.pipeline(move |_| pipeline().serve(tail.clone())).bind(at),
        };
        Running { setup: self, server: bound.soon().unwrap(), loops }
    }

    pub(crate) fn client_builder(self) -> ClientBuilder {
        self.transport.client(Client::builder())
    }

    /// A client whose channels run a script.
    pub(crate) fn client(self, script: Script) -> Client {
        self.client_with(script, |builder| builder)
    }

    pub(crate) fn client_with(
        self,
        script: Script,
        set_up: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Client {
        let script = script.asking(self.asks());
        set_up(self.client_builder().auto_read(!self.asks()))
            .pipeline(move || pipeline().app(script.probe()))
            .unwrap()
    }
}

/// The loops that a client has now.
pub(crate) fn loops_of<W: Send + 'static>(client: &Client<W>) -> Vec<EventLoop> {
    let mut loops: Vec<_> = client.group().iter().collect();
    loops.extend(client.threads().map(ThreadPerChannel::busy_loops).unwrap_or_default());
    loops
}

/// The loops of a server; where no loop only accepts, both groups are the same.
pub(crate) struct Loops {
    pub(crate) acceptors: EventLoopGroup,
    pub(crate) hosts: Homes,
    /// For a stage that is not on a loop.
    workers: Option<Workers>,
}

impl Loops {
    /// All that there are now.
    pub(crate) fn all(&self) -> Vec<EventLoop> {
        let mut all: Vec<_> = self.acceptors.iter().collect();
        for worker in self.hosts.loops() {
            if !all.contains(&worker) {
                all.push(worker);
            }
        }
        all
    }
}

/// What hosts the connections of a server.
#[derive(Clone)]
pub(crate) enum Homes {
    Group(EventLoopGroup),
    Threads(ThreadPerChannel),
}

impl Homes {
    /// All that there are now.
    pub(crate) fn loops(&self) -> Vec<EventLoop> {
        match self {
            Self::Group(group) => group.iter().collect(),
            Self::Threads(threads) => threads.busy_loops(),
        }
    }

    /// A server whose connections live here too.
    pub(crate) fn host(&self, builder: ServerBuilder) -> ServerBuilder {
        match self {
            Self::Group(group) => builder.group(group.clone()),
            Self::Threads(threads) => builder.thread_per_channel(threads.clone()),
        }
    }

    /// A client whose connections live here too.
    pub(crate) fn host_client(&self, builder: ClientBuilder) -> ClientBuilder {
        match self {
            Self::Group(group) => builder.group(group.clone()),
            Self::Threads(threads) => builder.thread_per_channel(threads.clone()),
        }
    }

    pub(crate) fn shut_down(&self) -> Termination {
        self.shut_down_within(PATIENCE)
    }

    /// Ends the loops, which then have so long to end what is open.
    pub(crate) fn shut_down_within(&self, timeout: Duration) -> Termination {
        match self {
            Self::Group(group) => group.shutdown_gracefully(Duration::ZERO, timeout),
            Self::Threads(threads) => threads.shutdown_gracefully(Duration::ZERO, timeout),
        }
        .unwrap()
    }
}

/// A server that runs.
pub(crate) struct Running {
    pub(crate) setup: Setup,
    pub(crate) server: Server,
    pub(crate) loops: Loops,
}

impl Running {
    pub(crate) fn address(&self) -> &Address {
        self.server.address()
    }

    /// Host and port, for behaviours that need a network.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.server.local_addr().unwrap()
    }

    pub(crate) fn dial(&self) -> Peer {
        self.setup.dial(self.address())
    }

    /// A peer that takes little before it reads.
    pub(crate) fn dial_narrow(&self) -> Peer {
        self.setup.dial_narrow(self.address())
    }

    /// Lets every loop take a few turns: what was going to happen by itself has happened then.
    pub(crate) fn settle(&self) {
        settle(&self.loops.all());
        if let Some(workers) = &self.loops.workers {
            for _ in 0..2 {
                let idle = |figures: WorkersFigures| figures.pending == 0 && figures.running == 0;
                wait_until(|| idle(workers.figures()), || format!("idle workers: {:?}", workers.figures()));
                settle(&self.loops.all());
            }
        }
    }

    /// Stops the loops until the guard is dropped.
    pub(crate) fn hold(&self) -> Vec<Hold> {
        self.loops.all().iter().map(Hold::new).collect()
    }

    /// Fails if a loop turns although nothing happens.
    pub(crate) fn assert_quiet(&self) {
        assert_quiet(&self.loops.all());
    }

    /// Waits until so many connections are open.
    pub(crate) fn wait_for_open(&self, open: usize) {
        wait_until(
            || self.server.figures().open == open,
            || format!("{open} open: {:?}", self.server.figures()),
        );
    }
}

/// Passes everything on, in both directions.
struct Pass;

impl Handler<OnWorker> for Pass {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

/// Sends everything back: written as it is read, flushed when all is read.
pub(crate) struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// As [`Echo`], without reading by itself: asks for each message.
struct AskingEcho;

impl Application for AskingEcho {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.request();
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
        cx.request();
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

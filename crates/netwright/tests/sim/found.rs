//! What seeds have found, as plain scenarios: nothing is drawn but what every simulation draws.

use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Client, CloseCause, Context, EventLoop, Handler, Outgoing, Peer, Server,
    Workers, WriteError, WritePromise,
    channel::Written,
    pipeline,
    pipeline::{OnWorker, StageTimer, Switch},
    server::BoundPipeline,
};
use netwright_testkit::sim::Sim;
use std::{
    cell::RefCell,
    panic::resume_unwind,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

type Heard = Arc<Mutex<Vec<u8>>>;

/// A client that says something, then that it says no more, and hears what comes back. Returns that.
fn half_closes(sim: &Sim, words: &'static str, serve: impl FnOnce() -> BoundPipeline) -> Vec<u8> {
    let host = sim.host("server");
    let server = host.enter(|| serve().bind("0.0.0.0:7").wait()).unwrap();
    let heard = Heard::default();
    let told = heard.clone();
    sim.host("client").enter(|| {
        let make = move || {
            let told = told.clone();
            pipeline().handle(move |_, bytes: BytesMut| told.lock().unwrap().extend_from_slice(&bytes))
        };
        let client = Client::builder().pipeline(make).unwrap();
        let channel = client.connect("server:7").wait().unwrap();
        channel.send(words).wait().unwrap();
        channel.shut_down_output();
        channel.closed().wait().unwrap();
    });
    host.enter(|| drop(server));
    heard.lock().unwrap().clone()
}

/// Pauses, and answers a second later.
struct Later {
    question: Option<BytesMut>,
}

impl Application<OnWorker> for Later {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, question: BytesMut) {
        self.question = Some(question);
        cx.pause();
        cx.arm(Duration::from_secs(1));
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, _: StageTimer) {
        if let Some(question) = self.question.take() {
            cx.write_and_flush(Bytes::from(question));
            cx.resume();
        }
    }
    fn owes(&self) -> bool {
        self.question.is_some()
    }
}

/// An application on workers with a pause, seed 136: nobody had asked it whether it owes an answer.
#[test]
fn what_an_application_on_workers_owes_is_waited_for_when_the_peer_sends_no_more() {
    Sim::seed(1).run(|sim| {
        let heard = half_closes(sim, "question", || {
            let workers = Workers::new(1).unwrap();
            Server::builder().pipeline(move |_| pipeline().app_on(&workers, Later { question: None }))
        });
        assert_eq!(heard, b"question");
    });
}

/// Pauses, answers a second later, and gives way to an async function.
struct GivesWay {
    question: Option<BytesMut>,
    switch: Switch<Outgoing>,
}

impl Application for GivesWay {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, question: BytesMut) {
        self.question = Some(question);
        cx.pause();
        cx.arm(Duration::from_secs(1));
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        let Some(question) = self.question.take() else { return };
        cx.write_and_flush(question);
        self.switch.to(pipeline().serve(|mut peer: Peer| async move {
            while peer.read().await?.is_some() {}
            peer.write("goodbye").await?;
            Ok::<(), CloseCause>(())
        }));
        cx.resume();
    }
    fn owes(&self) -> bool {
        self.question.is_some()
    }
}

/// A segment that is exchanged, seed 2361: what it wanted when it had heard of the peer's end late, nobody carried out.
#[test]
fn a_segment_that_comes_behind_the_peers_end_hears_of_it_and_ends_the_channel() {
    Sim::seed(1).run(|sim| {
        let heard = half_closes(sim, "question ", || {
            Server::builder()
                .pipeline(|_| pipeline().joint(|switch| pipeline().app(GivesWay { question: None, switch })))
        });
        assert_eq!(heard, b"question goodbye");
    });
}

/// What makes a stage panic, once it is there.
type Breaks = Rc<RefCell<Option<Box<dyn Fn()>>>>;

/// The stage next to the wire, which panics when it is told to.
struct Fragile(Breaks);

impl Handler for Fragile {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        let caller = cx.caller();
        let breaks =
            move || caller.call(|_, _: &mut Context<'_, Self>| resume_unwind(Box::new("on purpose")));
        *self.0.borrow_mut() = Some(Box::new(breaks));
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
}

/// The halves of an async function, seed 10871: what one of them had just written stayed with it when another stage panicked.
#[test]
fn what_a_half_has_just_written_is_told_the_end_of_a_channel_that_panics() {
    Sim::seed(1).allow_panics_with("on purpose").run(|sim| {
        let written: Arc<Mutex<Option<Written>>> = Arc::default();
        let kept = written.clone();
        let host = sim.host("server");
        let make = move |_: &_| {
            let (kept, breaks) = (kept.clone(), Rc::new(RefCell::new(None)));
            pipeline().add(Fragile(breaks.clone())).serve(move |peer: Peer| async move {
                let (mut reader, mut writer) = peer.split();
                let writing = async move {
                    if let Some(breaks) = &*breaks.borrow() {
                        breaks();
                    }
                    let written = writer.write_tracked("too late").await.unwrap();
                    *kept.lock().unwrap() = Some(written);
                    std::future::pending::<()>().await; // and keeps its half
                    drop(writer);
                };
                drop(EventLoop::current().unwrap().spawn_local(writing));
                while reader.read().await?.is_some() {}
                Ok::<(), CloseCause>(())
            })
        };
        let server = host.enter(|| Server::builder().pipeline(make).bind("0.0.0.0:7").wait()).unwrap();
        sim.host("client").enter(|| {
            let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
            client.connect("server:7").wait().unwrap().closed().wait().unwrap();
        });
        let told = written.lock().unwrap().as_mut().unwrap().try_take();
        assert!(matches!(told, Some(Err(WriteError::Closed(_)))), "{told:?}");
        host.enter(|| drop(server));
    });
}

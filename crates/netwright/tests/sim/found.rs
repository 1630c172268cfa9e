//! What seeds have found, as plain scenarios: nothing is drawn but what every simulation draws.

use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Client, CloseCause, Outgoing, Peer, Server, Workers, pipeline,
    pipeline::{OnWorker, StageTimer, Switch},
    server::BoundPipeline,
};
use netwright_testkit::sim::Sim;
use std::{
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

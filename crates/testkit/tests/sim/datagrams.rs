//! Datagrams in a simulation.

use netwright_core::{AppContext, Application, Envelope, pipeline};
use netwright_testkit::sim::{Link, Sim, for_seeds};
use netwright_transport::{Datagram, Datagrams};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

struct Echo;

impl Application for Echo {
    type Read = Datagram;
    type Write = Envelope;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        cx.write_and_flush(datagram.into_answer());
    }
}

fn serve(sim: &Sim) {
    let server = sim.host("server");
    server
        .start(|| {
            let datagrams = Datagrams::builder().pipeline(|| pipeline().app(Echo))?;
            let channel = datagrams.bind("0.0.0.0:7").wait()?;
            Ok::<_, netwright_transport::BindError>((datagrams, channel))
        })
        .unwrap();
}

/// Writes down which numbers come.
struct Notes(Arc<Mutex<Vec<u32>>>);

impl Application for Notes {
    type Read = Datagram;
    type Write = Envelope;

    fn read(&mut self, _: &mut AppContext<'_, Self>, datagram: Datagram) {
        let number = datagram.bytes.as_ref().try_into().map(u32::from_be_bytes).unwrap();
        self.0.lock().unwrap().push(number);
    }
}

/// Sends so many, and tells which came back.
fn ask(sim: &Sim, number: u32) -> Vec<u32> {
    let answers = Arc::new(Mutex::new(Vec::new()));
    let told = answers.clone();
    sim.host("client").enter(|| {
        let datagrams = Datagrams::builder().pipeline(move || pipeline().app(Notes(told.clone()))).unwrap();
        let channel = datagrams.connect("server:7").wait().unwrap();
        for number in 0..number {
            channel.write_and_flush(Envelope::new(number.to_be_bytes().to_vec()));
            sim.run_for(Duration::from_millis(1));
        }
        sim.run_for(Duration::from_secs(5));
    });
    std::mem::take(&mut *answers.lock().unwrap())
}

#[test]
fn datagrams_are_lost_doubled_and_overtaken_as_the_link_says() {
    for_seeds(0..20, |sim| {
        serve(sim);
        sim.link(Link::default().loss(0.2).duplication(0.2).reordering(0.2));
        let answers = ask(sim, 200);
        let different: BTreeSet<u32> = answers.iter().copied().collect();
        assert!((60..=190).contains(&different.len()), "{} came back", different.len());
        assert!(answers.len() > different.len(), "none came twice");
        assert!(!answers.is_sorted(), "none was overtaken");
    });
}

#[test]
fn datagrams_on_a_link_without_faults_come_once_and_in_order() {
    for_seeds(0..20, |sim| {
        serve(sim);
        sim.link(Link::default().latency(Duration::from_millis(3)));
        assert_eq!(ask(sim, 100), (0..100).collect::<Vec<_>>());
    });
}

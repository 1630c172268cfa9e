//! Questions and answers in datagrams, which are lost, doubled, overtaken and too large.

use super::common::{Ledger, assert_determined, content, draw_faults, millis, one_in, secs};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use netwright::{
    AppContext, Application, Channel, CloseCause, Datagrams, Observer, Peer, channel::Envelope,
    datagram::Datagram, pipeline, pipeline::observe, server::BindError, time,
};
use netwright_testkit::sim::{Host, Link, Oversized, Sim, for_seeds};
use std::time::Duration;

/// So often a question is asked.
const TRIES: u32 = 10;

#[derive(Clone, Debug)]
struct Errand {
    id: u64,
    len: usize,
    before: Duration,
}

/// Answers each question with what belongs to its number.
struct Answers {
    ledger: Ledger<Errand>,
}

impl Application for Answers {
    type Read = Datagram;
    type Write = Envelope;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        let mut question = datagram.bytes.clone();
        if question.len() < 8 {
            return self.ledger.wrong(format!("{} bytes arrived", question.len()));
        }
        let id = question.get_u64();
        if question != content(id, question.len()) {
            self.ledger.wrong(format!("question {id} has changed"));
        }
        self.ledger.count(id);
        cx.write(datagram.into_answer()); // as it came
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

fn server(ledger: Ledger<Errand>) -> Result<(Datagrams<Envelope>, Channel<Envelope>), BindError> {
    let datagrams =
        Datagrams::builder().pipeline(move || pipeline().app(Answers { ledger: ledger.clone() }))?;
    let channel = datagrams.bind("0.0.0.0:53").wait()?;
    Ok((datagrams, channel))
}

fn question(errand: &Errand) -> Bytes {
    let mut question = BytesMut::new();
    question.put_u64(errand.id);
    question.put_slice(&content(errand.id, errand.len));
    question.freeze()
}

/// Asks everything that is to be asked, one question after the other.
async fn ask(
    mut peer: Peer<Datagram, Envelope>,
    ledger: Ledger<Errand>,
    perfect: bool,
) -> Result<(), CloseCause> {
    while let Some((errand, taken)) = ledger.take() {
        time::sleep(errand.before).await;
        let question = question(&errand);
        let mut result = Err(format!("{errand:?} was not answered"));
        for tried in 0..TRIES {
            if let Err(error) = peer.send(Envelope::new(question.clone())).await {
                result = Err(format!("{errand:?}: {error}"));
            }
            let answer = time::timeout(millis(400), answered(&mut peer, errand.id, &ledger)).await;
            match answer {
                Ok(Some(answer)) if answer == question => result = Ok(()),
                Ok(Some(answer)) => {
                    ledger.wrong(format!("{errand:?} was answered with {} bytes", answer.len()))
                }
                Ok(None) => result = Err(format!("{errand:?}: the channel has ended")),
                Err(_) => continue,
            }
            if perfect && (tried > 0 || ledger.counted(errand.id) != 1) {
                ledger.wrong(format!("{errand:?} took {tried} tries where nothing is lost"));
            }
            break;
        }
        taken.tell(result);
    }
    Ok(())
}

/// The answer to a question, behind those to earlier ones that come late.
async fn answered(peer: &mut Peer<Datagram, Envelope>, id: u64, ledger: &Ledger<Errand>) -> Option<Bytes> {
    while let Ok(Some(datagram)) = peer.read().await {
        match datagram.bytes.clone().try_get_u64() {
            Ok(number) if number == id => return Some(datagram.bytes.into()),
            Ok(number) if number < id => {}
            other => ledger.wrong(format!("{other:?} instead of {id}")),
        }
    }
    None
}

/// Says what is read and written: async tails alone read bytes.
struct Typed;

impl Observer for Typed {
    type Read = Datagram;
    type Write = Envelope;
}

fn client(host: &Host, ledger: &Ledger<Errand>, perfect: bool) -> Result<(), String> {
    let ledger = ledger.clone();
    let working = async move {
        while !ledger.is_done() {
            let work = ledger.clone();
            let datagrams = Datagrams::builder().pipeline(move || {
                let work = work.clone();
                pipeline().add(observe(Typed)).serve(move |peer| ask(peer, work, perfect))
            });
            let datagrams = datagrams.map_err(|error| error.to_string())?;
            match datagrams.connect("server:53").await {
                Ok(channel) => drop(channel.closed().await),
                Err(_) => time::sleep(millis(100)).await,
            }
        }
        Ok::<_, String>(())
    };
    let _ = host.spawn(working).map_err(|error| error.to_string())?;
    Ok(())
}

fn questions(sim: &Sim) {
    let hosts = ["server", "client"].map(|name| sim.host(name));
    let mut link = Link::default().latency(millis(sim.below(50))).jitter(millis(sim.below(20)));
    let perfect = one_in(sim, 3);
    if !perfect {
        link = link
            .loss(sim.below(30) as f64 / 100.0)
            .duplication(sim.below(30) as f64 / 100.0)
            .reordering(sim.below(30) as f64 / 100.0);
    }
    let mtu = [65_507, 1_472, 500][sim.below(3) as usize];
    let drops = one_in(sim, 2);
    sim.link(link.mtu(mtu).oversized(if drops { Oversized::Drop } else { Oversized::Refuse }));
    let most = if perfect { mtu - 8 } else { 3_000 };
    let errands = (0..5 + sim.below(20)).map(|id| Errand {
        id,
        len: sim.below(1 + most as u64) as usize,
        before: if one_in(sim, 2) { Duration::ZERO } else { millis(sim.below(300)) },
    });
    let ledger = Ledger::new(errands.collect::<Vec<_>>());
    let served = ledger.clone();
    hosts[0].start(move || server(served.clone())).unwrap();
    let faults = !perfect && draw_faults(sim, secs(4));
    let (here, work) = (hosts[1].clone(), ledger.clone());
    hosts[1].start(move || client(&here, &work, perfect)).unwrap();
    ledger.finish(sim, secs(600), faults || !perfect);
}

#[test]
fn questions_in_datagrams_get_their_own_answers() {
    // Some 5 s of one core in a debug build.
    for_seeds(0..1_500, questions);
}

#[test]
fn datagrams_are_determined_by_the_seed() {
    assert_determined(questions);
}

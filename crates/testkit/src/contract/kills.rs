//! Clients that vanish in the middle of a transfer, many times in a row.

use super::{
    Behaviour, Setup, Variation, behaviour,
    support::{
        Peer, Random, Running, Soon, break_off, in_own_process, open_sockets, wait_for_sockets, wait_until,
    },
};
use bytes::BytesMut;
use netwright_core::{AppContext, Application, Outgoing, pipeline};
use netwright_transport::ServerFigures;
use std::io::{Read, Write};

pub(super) const BEHAVIOURS: &[Behaviour] =
    &[behaviour!(clients_killed_in_the_middle_of_a_transfer_leave_nothing_behind_and_harm_nobody)
        .shows(&[66])
        .not(&[Variation::Asking, Variation::OnWorkers])];

/// How often: `NETWRIGHT_KILLS`, which CONTRIBUTING names, or a number that does not take long.
fn kills() -> usize {
    const FEW: usize = 200;
    let given = std::env::var("NETWRIGHT_KILLS").ok();
    given.map_or(FEW, |text| text.parse().unwrap_or_else(|_| panic!("NETWRIGHT_KILLS={text} is no number")))
}

/// What is sent for each request: more than is read before the kill, less than a client that is not killed waits for.
const ANSWER: usize = 256 * 1024;

/// Answers the first byte of what it reads with many of the same, unless enough of them wait.
struct Feeder;

impl Application for Feeder {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if cx.view().pending_bytes() < 4 * ANSWER {
            cx.write_and_flush(vec![bytes[0]; ANSWER]);
        }
    }
}

/// Descriptor numbers, and whatever a driver keeps by them, are used again at once: each client has bytes of its own, and gets
/// no others. One client lives through it all.
fn clients_killed_in_the_middle_of_a_transfer_leave_nothing_behind_and_harm_nobody(setup: Setup) {
    in_own_process(setup, || {
        let (builder, loops) = setup.server();
        let server = builder.pipeline(|_| pipeline().app(Feeder)).bind(setup.listen_at()).soon().unwrap();
        let running = Running { setup, server, loops };
        let before = open_sockets();
        let (kills, mut random) = (kills(), Random::new());
        let mut neighbour = running.dial();
        for round in 0..kills {
            let own = (round % 250) as u8;
            let mut peer = running.dial();
            peer.write_all(&[own]).unwrap();
            match random.below(4) {
                0 => break_off(peer), // the request may not even be read
                1 => {
                    expect_own(&mut peer, own, 1 + random.below(ANSWER));
                    break_off(peer);
                }
                2 => {
                    expect_own(&mut peer, own, 1 + random.below(ANSWER));
                    drop(peer);
                }
                _ => {
                    // Both directions are busy.
                    peer.write_all(&vec![own; 100_000]).unwrap();
                    expect_own(&mut peer, own, 1 + random.below(ANSWER));
                    break_off(peer);
                }
            }
            if round % 50 == 0 {
                neighbour.write_all(&[255]).unwrap();
                expect_own(&mut neighbour, 255, ANSWER);
            }
        }
        let came = kills as u64 + 1;
        // One that is gone by then is handed over by some systems, and an accept that fails by others.
        let seen = |figures: ServerFigures| figures.accepted + figures.accept_failures;
        wait_until(
            || seen(running.server.figures()) == came,
            || format!("{came} came: {:?}", running.server.figures()),
        );
        running.wait_for_open(1);
        neighbour.write_all(&[255]).unwrap();
        expect_own(&mut neighbour, 255, ANSWER);
        drop(neighbour);
        running.wait_for_open(0);
        wait_for_sockets(before);
        running.assert_quiet();
    });
}

/// Reads so many bytes, each of them this one.
fn expect_own(peer: &mut Peer, own: u8, len: usize) {
    let mut got = vec![0; len];
    peer.read_exact(&mut got).unwrap();
    let foreign = got.iter().position(|byte| *byte != own);
    assert_eq!(foreign, None, "client {own} got what was meant for another, {foreign:?} bytes in");
}

//! Urgent bytes of TCP: a read ends before them although more has come.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{Peer, pattern, script},
};
use netwright_transport::StreamOptions;
use socket2::SockRef;
use std::io::Write;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(bytes_behind_an_urgent_one_are_read_without_waiting_for_more)
        .needs(&[Need::Network])
        .not(&[Variation::OurPeers]),
    behaviour!(an_urgent_byte_comes_with_the_others_where_that_is_asked_for)
        .needs(&[Need::Network])
        .not(&[Variation::OurPeers]),
];

/// Small and large: what is large is read in another way by some.
const LENGTHS: [usize; 5] = [10, 20_000, 20_000, 10, 10];

fn urge(stream: &Peer) {
    let Peer::Tcp(stream) = stream else { panic!("only TCP has urgent bytes") };
    assert_eq!(SockRef::from(stream).send_out_of_band(b"!").unwrap(), 1);
}

fn show(setup: Setup, options: StreamOptions, urgent: &[u8]) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.options(options));
    let mut stream = running.dial();
    events.active();
    for length in LENGTHS {
        // Everything is there before the loop looks.
        let hold = running.hold();
        stream.write_all(&pattern(length)).unwrap();
        urge(&stream);
        stream.write_all(&pattern(length)).unwrap();
        drop(hold);
        events.read(&[&pattern(length)[..], urgent, &pattern(length)].concat());
    }
    running.settle();
    events.nothing();
    running.assert_quiet();
}

fn bytes_behind_an_urgent_one_are_read_without_waiting_for_more(setup: Setup) {
    show(setup, StreamOptions::new(), b"");
}

fn an_urgent_byte_comes_with_the_others_where_that_is_asked_for(setup: Setup) {
    show(setup, StreamOptions::new().out_of_band_inline(true), b"!");
}

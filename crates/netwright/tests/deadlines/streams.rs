//! What every stream has, whatever is spoken on it: connecting, the first bytes, what waits to be taken, the end.

use crate::{
    embedded::subject,
    row::{
        Drip::{Byte, Nothing, Takes},
        Seen, Subject, Table, at, between, cut, rows,
    },
    wire::{self, Loops, PATIENCE, much},
};
use bytes::Bytes;
use netwright::{
    Channel, Client, CloseCause, EmbeddedChannel, Promised,
    client::ConnectError,
    detect::{Detect, DetectError, prefix},
    pipeline,
    pipeline::observe,
};
use netwright_testkit::hostile::Unanswering;
use std::time::Duration;

pub(crate) const TABLE: Table = (
    "streams",
    rows! {
        connecting []
            by connecting() => "ClientBuilder::connect_timeout" at(30), not_connected, Nothing("nobody is there");
        no_first_byte_tells_the_protocol []
            by detects("") => "Detect::deadline" at(10), not_detected, Byte(b'+');
        first_bytes_do_not_tell_the_protocol []
            by detects("++") => "Detect::deadline" at(10), not_detected, Byte(b'+');
        a_message_waits_to_be_taken []
            by speaks() => "LeastRate" between(60, 140), cut, Takes;
        echoes_wait_to_be_taken_while_more_is_sent []
            by speaks() => "LeastRate" between(60, 140), cut, Byte(b'x');
        a_last_message_waits_to_be_taken []
            by speaks_last() => "LeastRate" between(60, 140), cut, Takes;
        asked_to_end []
            by wire::ending(|watch| pipeline().add(observe(watch.onlooker())).handle(|_, _| {})) => "Server::shutdown_gracefully" at(10), shut_down, Byte(b'x');
    },
);

// ---- ends ----

fn not_connected(seen: &Seen) -> bool {
    seen.told.as_ref().is_some_and(|told| told.starts_with("TimedOut { ") && told.ends_with("limit: 30s }"))
}

fn not_detected(seen: &Seen) -> bool {
    let Some(CloseCause::Fault(fault)) = &seen.cause else { return false };
    matches!(fault.downcast_ref::<DetectError>(), Some(DetectError::TooLate { .. }))
}

fn shut_down(seen: &Seen) -> bool {
    matches!(seen.cause, Some(CloseCause::ShutDown))
}

// ---- ways ----

struct Connecting {
    loops: Loops,
    connecting: Promised<Channel, ConnectError>,
    told: Option<String>,
    _silent: Unanswering,
}

fn connecting() -> Box<dyn Subject> {
    let (loops, silent) = (Loops::new(), Unanswering::new().unwrap());
    let client =
        Client::builder().group(loops.group.clone()).pipeline(|| pipeline().handle(|_, _| {})).unwrap();
    let connecting = client.connect(silent.addr());
    loops.settle();
    Box::new(Connecting { loops, connecting, told: None, _silent: silent })
}

impl Subject for Connecting {
    fn send(&mut self, _: u8) {}

    fn advance(&mut self, by: Duration) {
        self.loops.advance(by);
    }

    fn seen(&mut self) -> Seen {
        self.loops.settle();
        if self.told.is_none() && self.connecting.is_done() {
            let told = self.connecting.wait_timeout(PATIENCE).expect("it is done");
            self.told = Some(told.map_or_else(|error| format!("{error:?}"), |_| "connected".to_owned()));
        }
        Seen { told: self.told.clone(), ..Seen::default() }
    }

    fn is_gone(&mut self) -> bool {
        self.loops.group.next().figures().sources == 0
    }
}

fn detects(bytes: &str) -> Box<dyn Subject> {
    let pipeline = pipeline().joint(|switch| {
        let rule = prefix("+".repeat(100));
        pipeline().last(
            Detect::new(switch).rule(rule, || pipeline().handle(|cx, _| cx.write(Bytes::new())).sealed()),
        )
    });
    let mut channel = EmbeddedChannel::<(), _>::with_joint(pipeline);
    channel.write_inbound(bytes);
    subject(channel)
}

fn speaks() -> Box<dyn Subject> {
    wire::serving(b"hello", |watch| {
        pipeline().add(observe(watch.onlooker())).handle(|cx, _| cx.write_and_flush(much()))
    })
}

fn speaks_last() -> Box<dyn Subject> {
    wire::serving(b"hello", |watch| {
        pipeline().add(observe(watch.onlooker())).handle(|cx, _| {
            cx.write_and_flush(much());
            cx.close_when_flushed();
        })
    })
}

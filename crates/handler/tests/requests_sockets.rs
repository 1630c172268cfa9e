//! Requests over connections that end and come again, on every backend.

use netwright_codec::{LineFrames, Utf8};
use netwright_core::{EventLoopGroup, pipeline};
use netwright_handler::{Backoff, Reconnect, ReconnectError, Requests, RetryBudget, RpcClient};
use netwright_transport::{Backend, Client, Server};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

const BACKENDS: [Backend; 3] = [Backend::Readiness, Backend::Uring, Backend::Blocking];

fn group(backend: Backend) -> Option<EventLoopGroup> {
    match backend.event_loops(1) {
        Ok(group) => Some(group),
        Err(error) => {
            println!("skipped: {backend:?} does not work here: {error}");
            None
        }
    }
}

/// Replies with what was asked, and closes in place of the reply to every request whose turn in the process it is.
fn server(group: EventLoopGroup, address: &str, closes_every: u64) -> Server {
    let turn = Arc::new(AtomicU64::new(0));
    Server::builder()
        .group(group)
        .pipeline(move |_| {
            let turn = turn.clone();
            let lines = pipeline().add(LineFrames::max(100)).add(Utf8::strict());
            lines.handle(move |cx, line: String| {
                match (turn.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(closes_every) {
                    true => cx.close(),
                    false => cx.write_and_flush(line),
                }
            })
        })
        .bind(address)
        .wait()
        .unwrap()
}

fn client(group: EventLoopGroup, address: impl ToString) -> RpcClient<String, String> {
    let lines = || pipeline().add(LineFrames::max(100)).add(Utf8::strict());
    let client = Client::builder()
        .group(group)
        .pipeline(move || lines().last(Requests::<String, String>::in_order().max_in_flight(20)))
        .unwrap();
    let soon = Backoff::new(Duration::from_millis(1), Duration::from_millis(20));
    let often = RetryBudget::default().reserve(u32::MAX).per_request(u32::MAX);
    RpcClient::over(Reconnect::to(&client, address).backoff(soon))
        .retries(often)
        .deadline(Duration::from_secs(60))
        .start()
        .unwrap()
}

#[test]
fn however_often_a_connection_ends_idempotent_requests_of_many_threads_get_their_own_replies() {
    for backend in BACKENDS {
        for address in ["127.0.0.1:0", "local:requests-of-many-threads"] {
            let (Some(here), Some(there)) = (group(backend), group(backend)) else { break };
            let server = server(there, address, 97);
            let client = client(here, server.address());
            let asking: Vec<_> = (0..4)
                .map(|who| {
                    let client = client.clone();
                    thread::spawn(move || {
                        for round in 0..20 {
                            let asked: Vec<_> =
                                (0..10).map(|number| format!("{who} {round} {number}")).collect();
                            let replies: Vec<_> = asked
                                .iter()
                                .map(|line| client.request(line.clone()).idempotent().send())
                                .collect();
                            for (asked, mut reply) in asked.into_iter().zip(replies) {
                                assert_eq!(reply.wait().unwrap(), asked);
                            }
                        }
                    })
                })
                .collect();
            asking.into_iter().for_each(|asking| asking.join().unwrap());
            assert!(client.figures().retried >= 8, "{:?}", client.figures());
            client.stop().wait().unwrap();
        }
    }
}

#[test]
fn a_server_that_is_started_again_is_found_again_and_gets_what_waits() {
    for backend in BACKENDS {
        let (Some(here), Some(there)) = (group(backend), group(backend)) else { break };
        let address = format!("local:started-again-{backend:?}");
        let client = client(here, &address); // there is no server yet
        let mut early = client.ask("early".into());
        let first = server(there.clone(), &address, u64::MAX);
        assert_eq!(early.wait().unwrap(), "early");
        first.shutdown_now().wait().unwrap();
        let mut between = client.request("between".into()).idempotent().send();
        let _second = server(there, &address, u64::MAX);
        assert_eq!(between.wait().unwrap(), "between");
    }
}

#[test]
fn an_address_that_cannot_be_is_told_at_once() {
    let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
    let reconnect = Reconnect::to(&client, "no-such-scheme:x:y").start().unwrap();
    let error = reconnect.connected().wait_timeout(Duration::from_secs(60)).expect("it is told").unwrap_err();
    assert!(matches!(error, ReconnectError::GaveUp { failures: 1, .. }), "{error}");
}

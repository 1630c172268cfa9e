//! Connections through proxies: by the time a pipeline begins they have agreed, and one that does not is named.

use super::{
    Behaviour, Need, ON_PURPOSE, Setup, Variation, behaviour,
    connect::assert_clean,
    support::{Cx, Events, PATIENCE, Running, Script, Soon, script, wait_until},
};
use bytes::BytesMut;
use netwright_core::{Channel, pipeline};
use netwright_transport::{Client, ConnectError, Proxies, Proxy, ProxyError, ProxyWhy, StreamOptions};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(what_lies_behind_the_last_answer_is_the_first_that_a_pipeline_reads)
        .not(&[Variation::OurPeers]),
    behaviour!(a_proxy_that_refuses_or_talks_nonsense_is_named_and_nothing_is_left).in_one_model(),
    behaviour!(a_proxy_that_hangs_up_is_named_whatever_it_said_before).in_one_model(),
    behaviour!(a_proxy_that_sends_no_more_and_stays_is_given_up).needs(&[Need::HalfClosure]).in_one_model(),
    behaviour!(a_proxy_that_resets_is_named_wherever_it_does).needs(&[Need::Reset]).in_one_model(),
    behaviour!(a_proxy_that_says_nothing_has_its_time_and_not_more).in_one_model(),
    behaviour!(a_connect_cancelled_during_the_handshake_leaves_nothing).in_one_model(),
    behaviour!(a_factory_that_panics_behind_a_proxy_is_what_the_connect_reports).in_one_model(),
];

const TARGET: &str = "target.example:80";

/// A proxy that answers one thing after the other, whatever it is asked.
fn answering(script: Script, answers: Vec<Vec<u8>>) -> Script {
    let next = AtomicUsize::new(0);
    script.on_read(move |cx, _| {
        let next = next.fetch_add(1, Ordering::SeqCst);
        if let Some(answer) = answers.get(next % answers.len()) {
            cx.write_and_flush(answer.clone());
        }
    })
}

fn client(setup: Setup, script: Script, proxies: impl Into<Proxies>) -> Client {
    client_within(setup, script, proxies, PATIENCE)
}

fn client_within(setup: Setup, script: Script, proxies: impl Into<Proxies>, limit: Duration) -> Client {
    let script = script.asking(setup.asks());
    let builder = setup.client_builder().auto_read(!setup.asks()).through(proxies).proxy_timeout(limit);
    builder.pipeline(move || pipeline().app(script.probe())).unwrap()
}

/// Why there is no connection.
#[track_caller]
fn refusal(result: Result<Channel, ConnectError>) -> ProxyError {
    match result {
        Err(ConnectError::Proxy(error)) => *error,
        other => panic!("expected a proxy's refusal, got {other:?}"),
    }
}

/// Nothing is left at either end, and no pipeline has begun.
#[track_caller]
fn assert_nothing_left(running: &Running, client: &Client, events: &Events) {
    running.wait_for_open(0);
    assert_clean(client);
    events.nothing();
}

fn what_lies_behind_the_last_answer_is_the_first_that_a_pipeline_reads(setup: Setup) {
    let (script_there, there) = script();
    let answers = vec![
        vec![5, 2],
        vec![1, 0],
        vec![5, 0, 0, 3, 2, b'a', b'b', 0, 80],
        b"HTTP/1.1 200 Connection established\r\nContent-Length: 7\r\n\r\nwelcome".to_vec(),
        b"and on".to_vec(),
    ];
    let running = setup.serve(answering(script_there, answers));
    let (script_here, here) = script();
    let first = Proxy::socks5(running.address()).credentials("ada", "secret");
    let client = client(setup, script_here, first.then(Proxy::http("second.example:3128")));
    let channel = client.connect(TARGET).soon().unwrap();
    assert_eq!(channel.peer().unwrap(), *running.address());
    here.active();
    here.read(b"welcome");
    channel.write_and_flush("hello");
    here.read(b"and on");
    there.active();
    there.read(&[5, 2, 0, 2]);
    there.read(b"\x01\x03ada\x06secret");
    there.read(b"\x05\x01\0\x03\x0esecond.example\x0c\x38");
    there.read(format!("CONNECT {TARGET} HTTP/1.1\r\nHost: {TARGET}\r\n\r\n").as_bytes());
    there.read(b"hello");
    channel.close();
    here.end();
    there.end();
    running.wait_for_open(0);
    assert_clean(&client);
}

fn a_proxy_that_refuses_or_talks_nonsense_is_named_and_nothing_is_left(setup: Setup) {
    for (answers, expected) in [
        (vec![vec![5, 255]], "Unauthorized { given: false }"),
        (vec![vec![5, 0], vec![5, 5]], "Socks { code: 5 }"),
        (vec![vec![5, 0], b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()], "Malformed"),
        (vec![b"\0".repeat(100_000)], "Malformed"),
        (vec![vec![5, 0, 5, 0]], "Malformed"),
    ] {
        let running = setup.serve(answering(script().0, answers));
        let (script, events) = script();
        let client = client(setup, script, Proxy::socks5(running.address()));
        let error = refusal(client.connect(TARGET).soon());
        assert!(format!("{:?}", error.why).starts_with(expected), "{error:?}");
        let text = error.to_string();
        assert!(text.contains(&running.address().to_string()) && text.contains(TARGET), "{text}");
        assert_nothing_left(&running, &client, &events);
    }
}

/// Served with a proxy that does this when it is asked for the first time.
fn when_asked(
    setup: Setup,
    then: impl Fn(&mut Cx<'_>, BytesMut) + Send + Sync + 'static,
) -> (Running, Client, Events) {
    let running = setup.serve(script().0.on_read(then));
    let (script, events) = script();
    let client = client(setup, script, Proxy::http(running.address()));
    (running, client, events)
}

fn a_proxy_that_hangs_up_is_named_whatever_it_said_before(setup: Setup) {
    for said in [&b""[..], b"H", b"HTTP/1.1 200 ok\r\n", b"HTTP/1.1 200 ok\r\nVia: x\r\n\r"] {
        let (running, client, events) = when_asked(setup, move |cx, _| {
            cx.write_and_flush(said);
            cx.close_when_flushed();
        });
        let error = refusal(client.connect(TARGET).soon());
        assert!(matches!(error.why, ProxyWhy::Ended(_)), "{error}");
        assert_nothing_left(&running, &client, &events);
    }
}

fn a_proxy_that_sends_no_more_and_stays_is_given_up(setup: Setup) {
    let (running, client, events) = when_asked(setup, |cx, _| cx.shut_down_output());
    let error = refusal(client.connect(TARGET).soon());
    assert!(matches!(error.why, ProxyWhy::Ended(_)), "{error}");
    assert_nothing_left(&running, &client, &events);
}

fn a_proxy_that_resets_is_named_wherever_it_does(setup: Setup) {
    for said in [&b""[..], b"HTTP/1.1 200 ok\r\n"] {
        let resets = script().0.on_read(move |cx, _| {
            cx.write_and_flush(said);
            cx.close();
        });
        let options = StreamOptions::new().linger(Duration::ZERO);
        let running = setup.serve_with(resets, |builder| builder.options(options));
        let (script, events) = script();
        let client = client(setup, script, Proxy::http(running.address()));
        let error = refusal(client.connect(TARGET).soon());
        assert!(matches!(error.why, ProxyWhy::Ended(_)), "{error}");
        assert_nothing_left(&running, &client, &events);
    }
}

fn a_proxy_that_says_nothing_has_its_time_and_not_more(setup: Setup) {
    const LIMIT: Duration = Duration::from_millis(60);
    let running = setup.serve(script().0);
    let (script, events) = script();
    let client = client_within(setup, script, Proxy::socks4a(running.address()), LIMIT);
    let begun = Instant::now();
    let error = refusal(client.connect(TARGET).soon());
    assert!(begun.elapsed() >= LIMIT);
    assert!(matches!(error.why, ProxyWhy::TimedOut(LIMIT)), "{error}");
    assert!(error.to_string().contains("60ms"), "{error}");
    assert_nothing_left(&running, &client, &events);
}

fn a_connect_cancelled_during_the_handshake_leaves_nothing(setup: Setup) {
    let asked = Arc::new(Mutex::new(false));
    let known = asked.clone();
    let (running, client, events) = when_asked(setup, move |_, _| *known.lock().unwrap() = true);
    let mut connecting = client.connect(TARGET);
    wait_until(|| *asked.lock().unwrap(), || "the proxy to be asked".to_owned());
    assert!(connecting.cancel());
    assert!(matches!(connecting.soon(), Err(ConnectError::Cancelled)));
    assert_nothing_left(&running, &client, &events);
}

fn a_factory_that_panics_behind_a_proxy_is_what_the_connect_reports(setup: Setup) {
    let agreed = b"HTTP/1.1 200 ok\r\n\r\n".to_vec();
    let running = setup.serve(answering(script().0, vec![agreed]));
    let builder = setup.client_builder().through(Proxy::http(running.address()));
    let (calls, (script, events)) = (AtomicUsize::new(0), script());
    let client = builder
        .pipeline(move || {
            assert!(calls.fetch_add(1, Ordering::SeqCst) > 0, "broken {ON_PURPOSE}");
            pipeline().app(script.probe())
        })
        .unwrap();
    let error = client.connect(TARGET).soon().unwrap_err();
    assert!(matches!(&error, ConnectError::Panicked(panic) if panic.contains("broken")), "{error:?}");
    assert_nothing_left(&running, &client, &events);
    let channel = client.connect(TARGET).soon().unwrap();
    events.active();
    channel.close();
    events.end();
    assert_nothing_left(&running, &client, &events);
}

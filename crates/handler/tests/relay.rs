//! Relays: on embedded channels every step by hand; over sockets as a proxy.

use bytes::BytesMut;
use netwright_core::{
    Channel, CloseCause, EmbeddedChannel, Filter, FilterContext, HostSettings, Outgoing, Promised,
    WaterMarks, WriteError, filter, pipeline,
};
use netwright_handler::{Relay, RelayError};
use netwright_transport::{Backend, Client, ConnectError, Server, StreamOptions, event_loops};
use std::{
    convert::Infallible,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    time::Duration,
};

type End = EmbeddedChannel<Infallible, Outgoing>;

fn embedded(relay: Relay) -> End {
    let mut settings = HostSettings::default();
    settings.water_marks = WaterMarks::new(100, 1000).unwrap();
    EmbeddedChannel::with_settings(pipeline().app(relay), settings)
}

fn pair() -> (End, End) {
    let (one, other) = Relay::pair();
    (embedded(one), embedded(other))
}

/// Until nothing changes: each may have something for the other.
fn settle(one: &mut End, other: &mut End) {
    for _ in 0..4 {
        one.run();
        other.run();
    }
}

fn why(end: &End) -> Option<RelayError> {
    match end.channel().close_cause()? {
        CloseCause::Fault(fault) => fault.downcast_ref::<RelayError>().cloned(),
        CloseCause::Io(error) => error.get_ref()?.downcast_ref::<RelayError>().cloned(),
        _ => None,
    }
}

/// Whether its output is shut down.
fn sends_no_more(end: &mut End) -> bool {
    let mut late = end.channel().send("late");
    end.run();
    matches!(late.try_take(), Some(Err(WriteError::OutputShutDown)))
}

#[test]
fn bytes_pass_both_ways_and_early_ones_are_kept() {
    let (one, other) = Relay::pair();
    let mut one = embedded(one);
    one.write_inbound("early ").write_inbound("bird ");
    let mut other = embedded(other);
    settle(&mut one, &mut other);
    one.write_inbound("late");
    other.write_inbound("back");
    settle(&mut one, &mut other);
    assert_eq!(other.outbound_bytes(), b"early bird late");
    assert_eq!(one.outbound_bytes(), b"back");
}

#[test]
fn who_does_not_read_slows_down_who_writes_and_goes_on_later() {
    let (mut one, mut other) = pair();
    settle(&mut one, &mut other);
    other.block_output(true);
    for _ in 0..100 {
        one.write_inbound(vec![b'x'; 500]);
        settle(&mut one, &mut other);
    }
    let taken = other.outbound_bytes().len();
    assert!(taken <= 2000, "{taken}");
    other.block_output(false);
    let mut all = taken;
    for _ in 0..200 {
        settle(&mut one, &mut other);
        all += other.outbound_bytes().len();
    }
    assert_eq!(all, 50_000);
}

#[test]
fn the_end_of_an_input_is_passed_on_and_both_close_when_both_have_ended() {
    let (mut one, mut other) = pair();
    settle(&mut one, &mut other);
    one.write_inbound("question").close_input();
    settle(&mut one, &mut other);
    assert_eq!(other.outbound_bytes(), b"question");
    assert!(sends_no_more(&mut other) && one.is_open() && other.is_open());
    other.write_inbound("answer").close_input();
    settle(&mut one, &mut other);
    assert_eq!(one.outbound_bytes(), b"answer");
    assert!(!one.is_open() && !other.is_open());
    assert!(matches!(one.channel().close_cause(), Some(CloseCause::Requested)));
}

#[test]
fn an_end_of_input_before_there_is_another_end_is_passed_on_behind_what_came_before_it() {
    let (one, other) = Relay::pair();
    let mut one = embedded(one);
    one.write_inbound("all of it").close_input();
    let mut other = embedded(other);
    settle(&mut one, &mut other);
    assert_eq!(other.outbound_bytes(), b"all of it");
    assert!(sends_no_more(&mut other));
    other.write_inbound("thanks").close_input();
    settle(&mut one, &mut other);
    assert_eq!(one.outbound_bytes(), b"thanks");
    assert!(!one.is_open() && !other.is_open());
}

#[test]
fn an_end_that_is_closed_takes_the_other_with_it_and_one_that_breaks_says_why() {
    type Ending = (fn(&mut End), bool);
    let endings: [Ending; 4] = [
        (|end| drop(end.channel().close()), true),
        (|end| end.close_by_peer().run().channel().flush(), true),
        (|end| drop(end.channel().close_because(CloseCause::TimedOut(Duration::from_secs(1)))), false),
        (
            |end| {
                let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
                drop(end.channel().close_now(CloseCause::io(reset)));
            },
            false,
        ),
    ];
    for (number, (end, in_order)) in endings.into_iter().enumerate() {
        for first in [true, false] {
            let (mut one, mut other) = pair();
            settle(&mut one, &mut other);
            let (ending, left) = if first { (&mut one, &mut other) } else { (&mut other, &mut one) };
            end(ending);
            settle(ending, left);
            assert!(!left.is_open(), "{number}");
            let cause = why(left);
            match in_order {
                true => assert!(cause.is_none(), "{number} {cause:?}"),
                false => assert!(matches!(cause, Some(RelayError::OtherEnd(_))), "{number} {cause:?}"),
            }
        }
    }
}

#[test]
fn an_end_that_goes_before_the_other_comes_is_found_by_it() {
    let (one, other) = Relay::pair();
    drop(one);
    let mut other = embedded(other);
    other.run();
    assert!(matches!(why(&other), Some(RelayError::Gone)), "{:?}", other.channel().close_cause());

    let (one, other) = Relay::pair();
    let mut one = embedded(one);
    one.close_by_peer().run();
    let mut other = embedded(other);
    assert!(!other.run().is_open());

    let (one, other) = Relay::pair();
    let mut one = embedded(one);
    drop(other);
    assert!(!one.run().is_open());
}

#[test]
fn an_end_whose_channel_panics_takes_the_other_with_it() {
    let (one, other) = Relay::pair();
    let panics = filter(Panics);
    let mut one: End = EmbeddedChannel::new(pipeline().add(panics).app(one));
    let mut other = embedded(other);
    settle(&mut one, &mut other);
    one.write_inbound("now");
    drop(one);
    assert!(!other.run().is_open());
    assert!(why(&other).is_some(), "{:?}", other.channel().close_cause());
}

struct Panics;

impl Filter<BytesMut, Outgoing> for Panics {
    fn read(&mut self, _: &mut FilterContext<'_, Self, BytesMut, Outgoing>, _: BytesMut) {
        panic!("for a test");
    }
}

#[test]
fn who_cannot_be_connected_is_the_cause_of_the_end() {
    let nobody = Client::builder().connect_timeout(Duration::from_secs(5));
    let mut one = embedded(Relay::to(nobody, "local:nobody-listens-here"));
    one.write_inbound("early");
    let cause = one.channel().closed();
    while one.is_open() {
        one.run();
        std::thread::yield_now();
    }
    drop(cause);
    assert!(matches!(why(&one), Some(RelayError::Connect(ConnectError::Refused(_)))), "{:?}", why(&one));

    let mut one = embedded(Relay::connecting(|_| Err(ConnectError::Setup("no way".to_owned()))));
    assert!(!one.run().is_open());
    assert!(matches!(why(&one), Some(RelayError::Connect(ConnectError::Setup(_)))));
}

#[test]
fn an_end_that_goes_while_the_other_one_is_being_connected_gives_that_up() {
    let (promise, promised) = netwright_core::promise::<Channel<Outgoing>, ConnectError>();
    let mut promised = Some(promised);
    let mut one = embedded(Relay::connecting(move |_| {
        Ok(promised.take().unwrap_or_else(|| Promised::ready(Err(ConnectError::Cancelled))))
    }));
    one.run();
    assert!(!promise.is_cancelled());
    one.close_by_peer().run();
    assert!(promise.is_cancelled());
}

#[test]
fn a_reset_is_passed_on_as_a_reset_and_not_as_an_end() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let loops = event_loops(1).unwrap();
    let of_relay = loops.clone();
    let proxy = Server::builder()
        .group(loops.clone())
        .pipeline(move |_| pipeline().app(Relay::to(Client::builder().group(of_relay.clone()), target)))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    // Closing with this option resets.
    let client = Client::builder().group(loops).options(StreamOptions::new().linger(Duration::ZERO));
    let near =
        client.pipeline(|| pipeline().handle(|_, _| {})).unwrap().connect(proxy.address()).wait().unwrap();
    let (mut far, _) = listener.accept().unwrap();
    far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    near.send("the beginning").wait().unwrap();
    far.read_exact(&mut [0; 13]).unwrap();
    near.close().wait().unwrap();
    assert_eq!(far.read(&mut [0]).map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_proxy_passes_a_lot_both_ways_with_ends_of_input_over_sockets_and_two_loops() {
    const LEN: usize = 3 << 20;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap();
    let loops = event_loops(2).unwrap();
    let proxy = Server::builder()
        .group(loops.clone())
        .pipeline(move |_| pipeline().app(Relay::to(Client::builder().group(loops.clone()), target)))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    for _ in 0..4 {
        let mut near = TcpStream::connect(proxy.local_addr().unwrap()).unwrap();
        near.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        near.write_all(b"early").unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut writer = near.try_clone().unwrap();
        let writing = std::thread::spawn(move || {
            writer.write_all(&vec![7; LEN]).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut got = Vec::new();
        far.read_to_end(&mut got).unwrap();
        assert_eq!(got.len(), LEN + 5);
        writing.join().unwrap();
        far.write_all(&vec![8; LEN / 4]).unwrap();
        drop(far);
        let mut back = Vec::new();
        near.read_to_end(&mut back).unwrap();
        assert_eq!(back.len(), LEN / 4);
    }
    assert_eq!(proxy.drain(Duration::from_secs(10)).wait().unwrap().cut, 0);
}

#[test]
fn a_relay_to_an_address_lasts_although_nobody_gave_its_client_a_loop() {
    for backend in [Backend::Readiness, Backend::Blocking] {
        let echo = Server::builder()
            .pipeline(|_| pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze())))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let target = echo.address().clone();
        let proxy = Server::builder()
            .pipeline(move |_| pipeline().app(Relay::to(Client::builder().backend(backend), &target)))
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let mut stream = TcpStream::connect(proxy.local_addr().unwrap()).unwrap();
        let (sent, mut back) = (vec![b'x'; 100_000], vec![0; 100_000]);
        for _ in 0..20 {
            stream.write_all(&sent).unwrap();
            stream.read_exact(&mut back).unwrap();
        }
        stream.write_all(b"the end").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "the end", "{backend}");
    }
}

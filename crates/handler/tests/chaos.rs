//! Faults are drawn from a seed, happen where they were asked for, and lose nothing that they were not asked to lose.

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, EmbeddedChannel, HalfClosure, Outgoing, WriteError, pipeline,
};
use netwright_handler::{
    Chaos, Shape,
    chaos::{ChaosCut, ChaosStage},
    shape::Rate,
};
use std::{convert::Infallible, io, time::Duration};

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

fn stage(text: &str, number: u64) -> ChaosStage<BytesMut, Outgoing> {
    text.parse::<Chaos>().unwrap().stage(number)
}

fn reads(text: &str) -> EmbeddedChannel<BytesMut, Outgoing> {
    EmbeddedChannel::new(pipeline().filter(stage(text, 1)))
}

fn sends(text: &str) -> EmbeddedChannel<Infallible, Outgoing> {
    EmbeddedChannel::new(pipeline().filter(stage(text, 1)).handle(|_, _| {}))
}

fn pieces(channel: &mut EmbeddedChannel<BytesMut, Outgoing>) -> Vec<BytesMut> {
    std::iter::from_fn(|| channel.read_inbound()).collect()
}

#[test]
fn everything_comes_later_and_what_is_sent_meanwhile_is_under_way_as_well() {
    let mut channel = reads("latency=50ms");
    channel.write_inbound("one").advance(ms(20));
    channel.write_inbound("two").advance(ms(29));
    assert!(pieces(&mut channel).is_empty());
    channel.advance(ms(1));
    assert_eq!(pieces(&mut channel), ["one"]);
    channel.advance(ms(19));
    assert!(pieces(&mut channel).is_empty());
    channel.advance(ms(1));
    assert_eq!(pieces(&mut channel), ["two"]);

    let mut channel = sends("latency=50ms");
    let mut sent = channel.channel().send("hello");
    channel.advance(ms(49));
    assert!(channel.outbound_bytes().is_empty() && sent.try_take().is_none());
    channel.advance(ms(1));
    assert_eq!(channel.outbound_bytes(), b"hello");
    assert!(matches!(sent.try_take(), Some(Ok(()))));
}

#[test]
fn jitter_keeps_the_order_and_a_rate_is_kept() {
    let mut channel = reads("latency=1ms,jitter=200ms,split=100,rate=10k,seed=3");
    channel.write_inbound(numbered(20_000));
    let mut read = Vec::new();
    for _ in 0..100 {
        channel.advance(ms(10));
        read.extend(pieces(&mut channel).concat());
    }
    assert!((7_500..10_100).contains(&read.len()), "{}", read.len());
    channel.advance(ms(1_300));
    read.extend(pieces(&mut channel).concat());
    assert_eq!(read, numbered(20_000));
}

#[test]
fn the_same_seed_and_connection_draw_the_same_and_others_something_else() {
    let run = |seed: u64, number: u64| {
        let text = format!("split=50,jitter=30ms,corrupt=5%,seed={seed}");
        let mut channel = EmbeddedChannel::new(pipeline().filter(stage(&text, number)));
        channel.write_inbound(numbered(2_000));
        let mut seen = Vec::new();
        for _ in 0..40 {
            channel.advance(ms(1));
            seen.push(pieces(&mut channel));
        }
        seen
    };
    assert_eq!(run(1, 1), run(1, 1));
    assert_ne!(run(1, 1), run(1, 2));
    assert_ne!(run(1, 1), run(2, 1));
    let all = run(1, 1).into_iter().flatten().collect::<Vec<_>>().concat();
    let wrong = all.iter().zip(numbered(2_000)).filter(|(a, b)| **a != *b).count();
    assert!(all.len() == 2_000 && (1..20).contains(&wrong), "{wrong} bytes are wrong");
}

#[test]
fn a_cut_loses_what_is_under_way_and_says_what_it_was() {
    let mut channel = sends("write.cut=100%,latency=5ms");
    let mut lost = channel.channel().send("lost");
    let mut unflushed = channel.channel().write_tracked("as well");
    channel.run();
    assert!(channel.is_open());
    channel.advance(ms(5));
    assert!(!channel.is_open());
    for written in [&mut lost, &mut unflushed] {
        assert!(
            matches!(written.try_take(), Some(Err(WriteError::Closed(CloseCause::Fault(fault)))) if fault.downcast_ref() == Some(&ChaosCut))
        );
    }
    assert!(channel.outbound_bytes().is_empty());

    let mut channel = reads("read.reset=100%");
    channel.write_inbound("lost");
    assert!(pieces(&mut channel).is_empty());
    let Some(CloseCause::Io(error)) = channel.finish().cause else { panic!("it was not reset") };
    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
}

#[test]
fn no_more_is_under_way_than_the_buffer_holds() {
    let mut channel = reads("latency=1s,buffer=10k,split=1");
    let mut taken = 0;
    while channel.wants_read() {
        channel.write_inbound(numbered(50));
        taken += 50;
    }
    assert!(taken <= 200, "single bytes count for more than a byte: {taken}");
    channel.advance(ms(1_000));
    assert!(channel.wants_read());
    assert_eq!(pieces(&mut channel).len(), taken);

    let mut channel = sends("latency=1s");
    channel.channel().write_and_flush(vec![0; 100_000]);
    channel.run();
    assert!(!channel.channel().is_writable());
    channel.advance(ms(1_000));
    assert!(channel.channel().is_writable());
}

/// Answers with the same, and closes when the peer has said all.
struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.freeze());
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.shut_down_output();
        cx.close_when_flushed();
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
}

#[test]
fn ends_are_as_late_as_what_comes_before_them_together_with_a_shape() {
    let chaos = stage("latency=20ms,jitter=10ms,split=700,seed=5", 1);
    let shape =
        || Shape::bytes().read(Rate::try_from(50_000).unwrap()).write(Rate::try_from(40_000).unwrap());
    let stages = pipeline().filter(shape()).filter(chaos).filter(shape());
    let mut channel = EmbeddedChannel::new(stages.app(Echo));
    channel.write_inbound(numbered(20_000)).end_input();
    let mut answer = Vec::new();
    for _ in 0..200 {
        channel.advance(ms(10));
        answer.extend(channel.outbound_bytes());
    }
    assert_eq!(answer, numbered(20_000));
    assert!(!channel.is_open());
}

#[test]
fn what_is_under_way_when_the_channel_ends_is_delivered_also_if_it_is_paused() {
    for paused in [false, true] {
        let mut channel = reads("latency=1s,split=9");
        let mut lost = channel.channel().send(vec![0; 100]);
        channel.run().write_inbound(numbered(100));
        if paused {
            channel.channel().pause();
        }
        channel.run();
        channel.close_by_peer();
        channel.channel().resume();
        channel.run();
        assert_eq!(pieces(&mut channel).concat(), numbered(100));
        assert!(matches!(lost.try_take(), Some(Err(WriteError::Closed(CloseCause::PeerClosed)))));
        assert_eq!(
            channel.finish().cause.map(|cause| cause.to_string()),
            Some(CloseCause::PeerClosed.to_string())
        );
    }
}

#[test]
fn a_paused_application_gets_what_was_due_when_it_goes_on() {
    let mut channel = reads("latency=10ms");
    channel.write_inbound("hello").channel().pause();
    channel.advance(ms(100));
    assert!(pieces(&mut channel).is_empty());
    channel.channel().resume();
    channel.run();
    assert_eq!(pieces(&mut channel), ["hello"]);
}

#[test]
fn the_end_of_the_input_reaches_also_an_application_that_has_paused() {
    let heard = std::rc::Rc::new(std::cell::Cell::new(false));
    struct Hears(std::rc::Rc<std::cell::Cell<bool>>);
    impl Application for Hears {
        type Read = BytesMut;
        type Write = Bytes;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: BytesMut) {
            cx.pause();
        }
        fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
            self.0.set(true);
        }
        fn half_closure(&self) -> HalfClosure {
            HalfClosure::Needs
        }
    }
    let mut channel =
        EmbeddedChannel::new(pipeline().filter(stage("latency=10ms", 1)).app(Hears(heard.clone())));
    channel.write_inbound("hello").advance(ms(5)).end_input();
    channel.advance(ms(5));
    assert!(!heard.get());
    channel.advance(ms(5));
    assert!(heard.get());
}

#[test]
fn a_peer_sees_a_reset_or_an_end() {
    use netwright_transport::Server;
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };
    for (faults, expected) in
        [("read.reset=100%", Err(io::ErrorKind::ConnectionReset)), ("read.cut=100%", Ok(0))]
    {
        let chaos: Chaos = faults.parse().unwrap();
        let server = Server::builder()
            .pipeline(move |_| {
                pipeline()
                    .filter(chaos.stage(1))
                    .handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()))
            })
            .bind("127.0.0.1:0")
            .wait()
            .unwrap();
        let mut peer = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        peer.write_all(b"hello").unwrap();
        assert_eq!(peer.read(&mut [0; 9]).map_err(|error| error.kind()), expected, "{faults}");
    }
}

#[test]
fn a_stage_without_faults_changes_nothing() {
    let mut channel = EmbeddedChannel::new(
        pipeline()
            .filter(stage("seed=1", 1))
            .handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze())),
    );
    channel.write_inbound("hello");
    assert_eq!(channel.outbound_bytes(), b"hello");
    channel.close_by_peer();
    assert!(!channel.is_open());
}

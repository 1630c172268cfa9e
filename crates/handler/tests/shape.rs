//! Rates are kept, whoever shares them, and nothing is lost or reordered on the way.

use bytes::{Bytes, BytesMut};
use netwright_codec::{LineFrames, Utf8};
use netwright_core::{
    AnyHost, AppContext, Application, CloseCause, EmbeddedChannel, Event, FileRegion, Filter, FilterContext,
    HalfClosure, Host, HostSettings, LocalLoop, ManualLoop, Outgoing, RefusedWhy, WriteError, Written,
    driver::{self, Source},
    pipeline,
};
use netwright_handler::{
    Shape,
    shape::{Bucket, Buckets, Rate},
};
use std::{cell::RefCell, convert::Infallible, io::Write, rc::Rc, sync::Arc, time::Duration};

fn rate(per_second: u64) -> Rate {
    Rate::try_from(per_second).unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn numbered(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index % 251) as u8).collect()
}

fn sends(shape: Shape<BytesMut, Outgoing>) -> EmbeddedChannel<Infallible, Outgoing> {
    EmbeddedChannel::new(pipeline().filter(shape).handle(|_, _| {}))
}

/// Notes what it hears.
#[derive(Default, Clone)]
struct Heard(Rc<RefCell<Vec<String>>>);

impl Application for Heard {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.0.borrow_mut().push(format!("{} bytes", bytes.len()));
    }
    fn read_complete(&mut self, _: &mut AppContext<'_, Self>) {
        self.0.borrow_mut().push("complete".into());
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        self.0.borrow_mut().push(format!("event {:?}", event.get::<u32>()));
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.0.borrow_mut().push("input closed".into());
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.0.borrow_mut().push(format!("inactive: {cause}"));
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
}

impl Heard {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

fn read_all(channel: &mut EmbeddedChannel<BytesMut, Outgoing>) -> Vec<u8> {
    std::iter::from_fn(|| channel.read_inbound()).flatten().collect()
}

#[test]
fn ten_seconds_of_writes_are_exact_within_three_percent_at_any_rate_and_size() {
    for per_second in [100, 999, 12_345, 1_000_000, 5_000_000] {
        for size in [1, 100, 1_460, 70_000, 1_000_000] {
            if size * 200 < per_second || size > per_second * 100 {
                continue; // many messages, or one
            }
            let mut channel = sends(Shape::bytes().write(rate(per_second)));
            let mut sent = 0_u64;
            let mut written = 0_u64;
            for _ in 0..1_000 {
                while written < sent + per_second / 10 + size {
                    channel.channel().write_and_flush(vec![0; size as usize]);
                    written += size;
                }
                channel.advance(ms(10));
                sent += channel.outbound_bytes().len() as u64;
            }
            let (least, most) = (per_second * 10 * 97 / 100, per_second * 10 * 103 / 100);
            assert!((least..=most).contains(&sent), "{sent} bytes at {per_second} in messages of {size}");
        }
    }
}

#[test]
fn ten_seconds_of_reads_are_exact_within_three_percent_and_come_in_order() {
    for per_second in [100, 5_000, 1_000_000] {
        for size in [10, 2_000, 65_536] {
            let mut channel = EmbeddedChannel::new(pipeline().filter(Shape::bytes().read(rate(per_second))));
            if size * 20_000 < per_second as usize {
                continue; // many messages
            }
            let (mut received, mut read) = (Vec::new(), Vec::new());
            for _ in 0..1_000 {
                for _ in 0..500 {
                    if !channel.wants_read() {
                        break;
                    }
                    let bytes = numbered(size + 251)[received.len() % 251..][..size].to_vec();
                    received.extend_from_slice(&bytes);
                    channel.write_inbound(&bytes);
                    read.extend(read_all(&mut channel));
                }
                channel.advance(ms(10));
                read.extend(read_all(&mut channel));
            }
            let expected = per_second as usize * 10;
            assert!(
                (expected * 97 / 100..=expected * 103 / 100).contains(&read.len()),
                "{} at {per_second}",
                read.len()
            );
            assert_eq!(read, received[..read.len()]);
            assert!(received.len() - read.len() <= size, "no more than one read waits");
        }
    }
}

#[test]
fn messages_count_as_they_are_told_to() {
    let lines = || pipeline().add(LineFrames::max(1_000)).add(Utf8::strict());
    let shape = Shape::weighed(|line: &String| line.len() as u64, |_| 1).read(rate(100));
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sees = seen.clone();
    let mut channel = EmbeddedChannel::new(lines().filter(shape).handle(move |_, line: String| {
        sees.borrow_mut().push(line.len());
    }));
    let text: String = [300, 1, 50, 100].map(|len| format!("{}\n", "x".repeat(len))).concat();
    channel.write_inbound(text);
    assert_eq!(*seen.borrow(), [300], "longer than all that is saved, and passes");
    channel.advance(ms(2_900));
    assert_eq!(*seen.borrow(), [300]);
    channel.advance(ms(100));
    assert_eq!(*seen.borrow(), [300, 1, 50]);
    channel.advance(ms(1_000));
    assert_eq!(*seen.borrow(), [300, 1, 50, 100]);
}

#[test]
fn the_narrowest_of_several_limits_decides_and_all_of_them_count() {
    let all = Bucket::new(rate(100_000));
    let users = Buckets::new(rate(2_000));
    let own = |user: &str| Shape::bytes().write(rate(1_500)).write(&all).write(users.of(user.to_owned()));
    let mut channels = [sends(own("ada")), sends(own("ada")), sends(own("bob"))];
    let mut sent = [0_usize; 3];
    for channel in &mut channels {
        channel.channel().write_and_flush(vec![0; 100_000]);
    }
    for _ in 0..1_000 {
        for (channel, sent) in channels.iter_mut().zip(&mut sent) {
            channel.advance(ms(10));
            *sent += channel.outbound_bytes().len();
        }
    }
    let ada = sent[0] + sent[1];
    assert!((19_400..20_600).contains(&ada), "{sent:?}");
    assert!(sent[0].abs_diff(sent[1]) < 300, "they take turns: {sent:?}");
    assert!((14_550..15_450).contains(&sent[2]), "{sent:?}");
    assert_eq!(all.figures().passed, sent.iter().sum::<usize>() as u64);
}

#[test]
fn a_huge_backlog_holds_no_small_message_up_and_everybody_gets_the_same() {
    let all = Bucket::new(rate(100_000));
    let mut channels: Vec<_> = (0..21).map(|_| sends(Shape::bytes().write(&all))).collect();
    for (index, channel) in channels.iter_mut().take(20).enumerate() {
        // The first has a message of 10 MB, the others many small ones.
        let (count, size) = if index == 0 { (1, 10_000_000) } else { (4_000, 50) };
        (0..count).for_each(|_| channel.channel().write(vec![0; size]));
        channel.channel().flush();
        channel.run();
    }
    let mut sent = vec![0; channels.len()];
    for step in 0..1_000 {
        if step == 500 {
            channels[20].channel().write_and_flush("late and small");
        }
        for (channel, sent) in channels.iter_mut().zip(&mut sent) {
            channel.advance(ms(10));
            *sent += channel.outbound_bytes().len();
        }
        if step == 600 {
            assert_eq!(sent[20], 14, "within a round of turns");
        }
    }
    let total: usize = sent.iter().sum();
    assert!((970_000..1_030_000).contains(&total), "{total}");
    // Turns of messages that are shorter than a piece are shorter: they are what a channel asks for.
    let small = &sent[1..20];
    assert!(small.iter().max().unwrap() - small.iter().min().unwrap() <= 2_000, "{sent:?}");
    assert!(small.iter().all(|sent| *sent > 0));
}

#[test]
fn a_change_takes_effect_for_those_who_wait_at_once() {
    let bucket = Bucket::new(rate(10));
    let mut reader = EmbeddedChannel::new(pipeline().filter(Shape::bytes().read(&bucket)));
    let mut writer = sends(Shape::bytes().write(&bucket));
    reader.write_inbound(numbered(10_000));
    writer.channel().write_and_flush(vec![0; 10_000]);
    reader.advance(ms(100));
    writer.advance(ms(100));
    assert!(read_all(&mut reader).len() + writer.outbound_bytes().len() < 10);
    assert_eq!(bucket.figures().channels_waiting, 2);
    assert!(bucket.figures().waiting > 19_980);

    bucket.set(rate(10_000));
    reader.run();
    writer.run();
    for _ in 0..100 {
        reader.advance(ms(10));
        writer.advance(ms(10));
    }
    let passed = read_all(&mut reader).len() + writer.outbound_bytes().len();
    assert!((9_700..11_000).contains(&passed), "{passed}");

    bucket.set(Rate::unlimited());
    reader.run();
    writer.run();
    let figures = bucket.figures();
    assert_eq!((figures.passed, figures.waiting, figures.channels_waiting), (20_000, 0, 0));

    bucket.set(rate(1_000));
    writer.channel().write_and_flush(vec![0; 10_000]);
    writer.advance(ms(1_000));
    assert!((10_970..=20_000).contains(&(writer.outbound_bytes().len() + 10_000)));
    assert!(bucket.figures().passed < 21_200, "{bucket:?}");
}

#[test]
fn what_waits_counts_as_pending_and_promises_are_fulfilled_with_the_last_byte() {
    let mut channel = sends(Shape::bytes().write(rate(100_000)));
    let handle = channel.channel().clone();
    let mut first = handle.send(vec![0; 100_000]);
    let mut second = handle.send(vec![1; 10_000]);
    channel.run();
    assert!(!handle.is_writable());
    channel.advance(ms(900));
    assert!(first.try_take().is_none());
    channel.advance(ms(120));
    channel.outbound_bytes();
    assert!(matches!(first.try_take(), Some(Ok(()))));
    assert!(second.try_take().is_none());
    channel.advance(ms(120));
    let rest = channel.outbound_bytes();
    assert!(rest.ends_with(&[1; 1_000]));
    assert!(matches!(second.try_take(), Some(Ok(()))));
    assert!(handle.is_writable());
}

#[test]
fn what_was_not_flushed_is_not_sent_and_asks_for_no_turn() {
    let bucket = Bucket::new(rate(1_000));
    let mut channel = sends(Shape::bytes().write(&bucket));
    channel.channel().write(vec![0; 2_000]);
    channel.run();
    channel.advance(ms(5_000));
    assert_eq!(channel.outbound_bytes().len(), 0);
    assert_eq!(bucket.figures().channels_waiting, 0);
    channel.channel().flush();
    channel.advance(ms(500));
    assert!((500..700).contains(&channel.outbound_bytes().len()));
    channel.channel().write(vec![0; 2_000]);
    channel.advance(ms(5_000));
    let rest = channel.outbound_bytes().len();
    assert!((1_300..1_500).contains(&rest), "what was flushed before: {rest}");
}

#[test]
fn a_close_that_waits_for_what_was_flushed_waits_and_a_plain_one_drops_and_reports() {
    let mut channel = sends(Shape::bytes().write(rate(10_000)));
    let mut sent = channel.channel().send(numbered(20_000));
    drop(channel.channel().close_when_flushed());
    channel.advance(ms(1_000));
    assert!(channel.is_open());
    channel.advance(ms(1_100));
    assert_eq!(channel.outbound_bytes(), numbered(20_000));
    assert!(!channel.is_open());
    assert!(matches!(sent.try_take(), Some(Ok(()))));

    let mut channel = sends(Shape::bytes().write(rate(10_000)));
    let mut dropped = channel.channel().send(numbered(20_000));
    let mut unflushed = channel.channel().write_tracked("never");
    channel.run();
    drop(channel.channel().close());
    channel.run();
    assert!(!channel.is_open());
    for written in [&mut dropped, &mut unflushed] {
        assert!(matches!(written.try_take(), Some(Err(WriteError::Closed(CloseCause::Requested)))));
    }
    assert!(channel.outbound_bytes().len() < 1_000);
}

#[test]
fn a_goodbye_is_sent_also_when_its_turn_has_not_come() {
    let bucket = Bucket::new(rate(100));
    let mut channel = sends(Shape::bytes().write(&bucket));
    channel.channel().write_and_flush(vec![0; 200]);
    channel.channel().write_and_flush("goodbye");
    drop(channel.channel().close());
    channel.run();
    assert!(channel.outbound_bytes().ends_with(b"goodbye"));
    assert_eq!((bucket.figures().waiting, bucket.figures().passed), (0, 207));
}

#[test]
fn the_end_of_the_output_comes_behind_what_was_flushed() {
    let mut channel = sends(Shape::bytes().write(rate(1_000)));
    let mut sent = channel.channel().send(vec![0; 2_000]);
    let mut unflushed = channel.channel().write_tracked("never");
    let mut ended = channel.channel().shut_down_output_tracked();
    let mut late = channel.channel().send("late");
    channel.advance(ms(1_000));
    assert!(matches!(late.try_take(), Some(Err(WriteError::OutputShutDown))));
    assert!(ended.try_take().is_none() && unflushed.try_take().is_none());
    channel.advance(ms(1_100));
    assert_eq!(channel.outbound_bytes().len(), 2_000);
    assert!(matches!(sent.try_take(), Some(Ok(()))));
    assert!(matches!(ended.try_take(), Some(Ok(()))));
    assert!(matches!(unflushed.try_take(), Some(Err(WriteError::OutputShutDown))));
}

#[test]
fn files_pass_in_pieces() {
    let mut file = tempfile();
    file.write_all(&numbered(30_000)).unwrap();
    let mut channel = sends(Shape::bytes().write(rate(10_000)));
    let mut sent = channel.channel().send(Outgoing::from(FileRegion::new(Arc::new(file), 0, 30_000)));
    channel.advance(ms(1_000));
    let first = channel.outbound_bytes();
    assert!((9_700..10_800).contains(&first.len()), "{}", first.len());
    channel.advance(ms(2_100));
    assert_eq!([first, channel.outbound_bytes()].concat(), numbered(30_000));
    assert!(matches!(sent.try_take(), Some(Ok(()))));
}

fn tempfile() -> std::fs::File {
    let path = std::env::temp_dir().join(format!("netwright-shape-{}", std::process::id()));
    let file =
        std::fs::OpenOptions::new().create(true).truncate(true).read(true).write(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

/// Tells everybody behind it a number after each read.
struct Tells;

impl<W: 'static> Filter<BytesMut, W> for Tells {
    fn read(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, bytes: BytesMut) {
        let len = bytes.len() as u32;
        cx.fire_read(bytes);
        cx.fire_event(Event::new(len));
    }
}

#[test]
fn news_stay_behind_the_messages_that_came_before_them() {
    let heard = Heard::default();
    let stages = pipeline().filter(Tells).filter(Shape::bytes().read(rate(1_000).burst(0)));
    let mut channel = EmbeddedChannel::new(stages.app(heard.clone()));
    channel.write_inbound(numbered(40));
    assert_eq!(heard.take(), ["15 bytes", "complete"]);
    assert!(!channel.wants_read());
    channel.end_input();
    assert!(channel.is_open());
    channel.advance(ms(20));
    assert_eq!(heard.take(), ["15 bytes", "complete"]);
    channel.advance(ms(20));
    assert_eq!(heard.take(), ["10 bytes", "event Some(40)", "input closed", "complete"]);
}

#[test]
fn a_channel_that_ends_while_something_waits_delivers_it_and_fails_what_was_written() {
    for paused in [false, true] {
        let heard = Heard::default();
        let bucket = Bucket::new(rate(1_000));
        let shape = Shape::bytes().read(&bucket).write(&bucket);
        let mut channel = EmbeddedChannel::new(pipeline().filter(shape).app(heard.clone()));
        let mut lost = channel.channel().send(vec![0; 5_000]);
        channel.run().write_inbound(numbered(5_000));
        assert!(!channel.wants_read());
        if paused {
            channel.channel().pause();
        }
        channel.run();
        channel.end_because(CloseCause::Io(Arc::new(std::io::ErrorKind::ConnectionReset.into())));
        if paused {
            assert!(heard.take().len() < 3);
            channel.channel().resume();
            channel.run();
        }
        let heard = heard.take();
        assert!(heard.last().unwrap().starts_with("inactive"), "{heard:?}");
        assert!(matches!(lost.try_take(), Some(Err(WriteError::Closed(CloseCause::Io(_))))));
        let figures = bucket.figures();
        assert_eq!((figures.waiting, figures.channels_waiting), (0, 0));
        drop(channel);
        assert_eq!(bucket.figures().channels_waiting, 0);
    }
}

/// Pauses with each message.
struct Pauses(Heard);

impl Application for Pauses {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.0.0.borrow_mut().push(format!("{} bytes", bytes.len()));
        cx.pause();
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.0.0.borrow_mut().push("input closed".into());
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
}

#[test]
fn the_end_of_the_input_reaches_also_an_application_that_has_paused() {
    let heard = Heard::default();
    let shape = Shape::bytes().read(rate(1_000).burst(0));
    let mut channel = EmbeddedChannel::new(pipeline().filter(shape).app(Pauses(heard.clone())));
    channel.write_inbound(numbered(20)).end_input();
    channel.channel().resume();
    channel.advance(ms(100));
    assert_eq!(heard.take(), ["15 bytes", "5 bytes", "input closed"]);
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
        cx.close_when_flushed();
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
}

#[test]
fn a_peer_that_ends_before_its_answer_has_passed_gets_all_of_it() {
    let stages = pipeline().filter(Shape::bytes().read(rate(10_000)).write(rate(10_000)));
    let mut channel = EmbeddedChannel::new(stages.app(Echo));
    channel.write_inbound(numbered(20_000)).end_input();
    let mut answer = Vec::new();
    for _ in 0..400 {
        channel.advance(ms(10));
        answer.extend(channel.outbound_bytes());
    }
    assert_eq!(answer, numbered(20_000));
    assert!(!channel.is_open());
}

#[test]
fn a_stage_that_leaves_loses_nothing() {
    let bucket = Bucket::new(rate(1_000));
    let shape = Shape::bytes().read(&bucket).write(&bucket);
    let taken = Rc::new(RefCell::new(None));
    let gives = taken.clone();
    let stages = pipeline().joint(move |switch| {
        *gives.borrow_mut() = Some(switch);
        pipeline().filter(shape).handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()))
    });
    let mut channel = EmbeddedChannel::<Infallible, Outgoing>::with_joint(stages);
    channel.write_inbound(numbered(5_000));
    let switch = taken.borrow_mut().take().unwrap();
    channel.advance(ms(500));
    switch.to(pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze())));
    channel.write_inbound("and more");
    channel.run();
    assert_eq!(channel.outbound_bytes(), [numbered(5_000), b"and more".to_vec()].concat());
    let figures = bucket.figures();
    assert_eq!((figures.waiting, figures.channels_waiting), (0, 0));
}

#[test]
fn a_measure_that_panics_costs_its_channel_and_nobody_else() {
    let bucket = Bucket::new(rate(1_000));
    let shape =
        || Shape::weighed(|_: &BytesMut| 1, |_: &Outgoing| panic!("heavier than expected")).write(&bucket);
    let mut channel = sends(shape());
    let mut written: Written = channel.channel().send("hello");
    channel.run();
    assert!(!channel.is_open());
    assert!(matches!(written.try_take(), Some(Err(_))));
    assert_eq!(bucket.figures().channels_waiting, 0);
}

/// A channel without a transport, one of many on a loop: what it is to send is taken at once.
struct Bare(Box<AnyHost>, Rc<RefCell<usize>>);

impl Bare {
    fn drain(&mut self) {
        while self.0.take_flush() {
            while let Some(len) = self.0.outbound().first_bytes().map(Bytes::len) {
                *self.1.borrow_mut() += len;
                self.0.outbound().advance(len);
            }
            self.0.wrote();
        }
    }
}

impl Source for Bare {
    fn ready(&mut self, _: driver::Event) {
        self.0.run_commands();
        self.drain();
    }
    fn signal(&mut self, signal: u64) {
        self.0.signal(signal);
        self.drain();
    }
    fn shut_down(&mut self) {}
}

/// As many looks at the bucket for each message, whether ten channels wait on a loop or ten thousand; and each gets as much as the others.
#[test]
fn what_a_message_costs_does_not_depend_on_how_many_channels_there_are() {
    const MESSAGES: usize = 4;
    const SIZE: usize = 100;
    let cost = |channels: usize| {
        let mut manual = ManualLoop::new();
        // A message of each channel in a second.
        let all = Bucket::new(rate((SIZE * channels) as u64).burst(0));
        let sent: Vec<_> = (0..channels).map(|_| Rc::default()).collect();
        manual.enter(|| {
            let local = LocalLoop::current().unwrap();
            for sent in &sent {
                let shape = Shape::weighed(|_: &BytesMut| 0, |out: &Outgoing| out.len()).write(&all);
                let stages = pipeline().filter(shape).handle(|cx, _| {
                    for _ in 0..MESSAGES {
                        cx.write_and_flush(Bytes::from_static(&[0; SIZE]));
                    }
                });
                let token = local.register_with(|token| {
                    let mut host = Host::new(local.clone(), stages.into_segment(), HostSettings::default());
                    host.register(token);
                    host.activate(None, None);
                    host.received(BytesMut::from("go"));
                    let mut bare = Bare(Box::new(host), Rc::clone(sent));
                    bare.drain();
                    Ok::<_, RefusedWhy>(bare)
                });
                token.unwrap();
            }
        });
        let waiting = all.figures().channels_waiting as usize;
        assert!(waiting >= channels - 1, "{waiting} of {channels} wait");
        for second in 1..=MESSAGES {
            (0..100).for_each(|_| manual.advance(ms(10)));
            let each = |sent: &Rc<RefCell<usize>>| *sent.borrow() / SIZE;
            let (least, most) = (sent.iter().map(each).min(), sent.iter().map(each).max());
            assert!(
                least >= Some(second.min(MESSAGES) - 1) && most <= Some(second + 1),
                "{least:?} to {most:?} messages"
            );
        }
        let figures = all.figures();
        assert_eq!((figures.passed as usize, figures.waiting), (MESSAGES * SIZE * channels, 0));
        figures.asked as f64 / (MESSAGES * channels) as f64
    };
    let (few, many) = (cost(10), cost(10_000));
    println!("{few} looks a message with 10 channels, {many} with 10,000");
    assert!(many <= few * 1.1 && many < 5.0, "{few} looks a message with 10 channels, {many} with 10,000");
}

#[test]
fn loops_of_several_threads_share_a_bucket() {
    let all = Bucket::new(rate(200_000));
    let sent: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut channel = sends(Shape::bytes().write(&all));
                    channel.channel().write_and_flush(vec![0; 1_000_000]);
                    let mut sent = 0;
                    for _ in 0..1_000 {
                        channel.advance(ms(10));
                        sent += channel.outbound_bytes().len();
                    }
                    sent
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // Each thread has a clock of its own here, and the fastest lets time pass for all.
    assert!(sent <= 2_060_000, "{sent}");
    assert_eq!(all.figures().passed, sent as u64);
}

#[test]
fn connections_of_one_address_share_its_bucket() {
    let buckets = Buckets::new(rate(1_000));
    let from = |address: &str| {
        let peer: std::net::SocketAddr = address.parse().unwrap();
        let shape = Shape::bytes().write_per_address(&buckets).read_per_address(&buckets);
        EmbeddedChannel::<(), Outgoing>::between(
            pipeline().filter(shape).handle(|_, _| {}),
            None,
            Some(peer.into()),
        )
    };
    let mut channels = [from("10.0.0.1:1"), from("[::ffff:10.0.0.1]:2"), from("10.0.0.2:1")];
    assert_eq!(buckets.keys(), 2);
    let mut sent = [0_usize; 3];
    channels.iter_mut().for_each(|channel| channel.channel().write_and_flush(vec![0; 10_000]));
    for _ in 0..300 {
        for (channel, sent) in channels.iter_mut().zip(&mut sent) {
            channel.advance(ms(10));
            *sent += channel.outbound_bytes().len();
        }
    }
    assert!((2_900..3_150).contains(&(sent[0] + sent[1])), "{sent:?}");
    assert!((2_900..3_150).contains(&sent[2]), "{sent:?}");
}

//! What is not asked for is not read.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{Seen, Soon, expect, expect_end, pattern, reset, script, wait_until},
};
use netwright_core::{ChannelState, CloseCause, ENTRY_OVERHEAD};
use netwright_transport::StreamOptions;
use std::{
    io::Write,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

/// Each of them says when it reads.
const VARIED: &[Variation] = &[Variation::Asking];

/// More than one read takes, and less than any system holds for somebody who does not read.
const SEVERAL_READS: usize = 150_000;

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(without_auto_read_nothing_comes_before_it_is_asked_for).shows(&[50]).not(VARIED),
    behaviour!(what_is_asked_for_in_advance_comes_when_it_is_there_and_no_more).shows(&[51]).not(VARIED),
    behaviour!(a_handler_that_pauses_in_read_gets_exactly_one_message).shows(&[50]).not(VARIED),
    behaviour!(a_pause_from_outside_stops_reading_and_resume_loses_nothing).shows(&[50]).not(VARIED),
    behaviour!(a_handler_may_ask_for_each_message_itself).shows(&[50]).not(VARIED),
    behaviour!(a_peer_that_is_not_read_from_is_stopped_by_the_system_and_not_by_our_memory)
        .shows(&[50])
        .not(VARIED),
    behaviour!(a_peer_that_closes_is_noticed_without_reading).shows(&[67]).not(VARIED),
    behaviour!(a_peer_that_resets_is_noticed_without_reading).shows(&[67]).needs(&[Need::Reset]).not(VARIED),
    behaviour!(what_a_peer_sent_before_it_closed_is_not_lost_while_nobody_reads).shows(&[67]).not(VARIED),
    behaviour!(a_paused_channel_still_writes_and_closes).shows(&[50]).not(VARIED),
    behaviour!(the_end_of_input_waits_behind_what_a_paused_channel_has_not_read)
        .shows(&[50])
        .not(VARIED)
        .needs(&[Need::HalfClosure]),
    behaviour!(an_echo_that_pauses_while_there_is_no_room_holds_little_and_loses_nothing)
        .shows(&[52])
        .not(&[Variation::Asking]),
];

fn without_auto_read_nothing_comes_before_it_is_asked_for(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let mut stream = running.dial();
    let channel = events.active();

    stream.write_all(b"first").unwrap();
    running.settle();
    events.nothing();
    running.assert_quiet();

    channel.request();
    events.read(b"first");
    stream.write_all(b"second").unwrap();
    running.settle();
    events.nothing();

    channel.resume();
    events.read(b"second");
    stream.write_all(b"third").unwrap();
    events.read(b"third");
}

fn what_is_asked_for_in_advance_comes_when_it_is_there_and_no_more(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let mut stream = running.dial();
    let channel = events.active();
    channel.request();
    channel.request();
    for message in [b"one", b"two"] {
        stream.write_all(message).unwrap();
        events.read(message);
    }
    stream.write_all(b"six").unwrap();
    running.settle();
    events.nothing();
    channel.request();
    events.read(b"six");
}

fn a_handler_that_pauses_in_read_gets_exactly_one_message(setup: Setup) {
    const LEN: usize = SEVERAL_READS;
    let (script, events) = script();
    let running = setup.serve(script.on_read(|cx, _| cx.pause()));
    let mut stream = running.dial();
    let channel = events.active();
    let data = pattern(LEN);
    stream.write_all(&data).unwrap();
    let mut got = Vec::new();
    while got.len() < LEN {
        let Seen::Read(bytes) = events.next() else { panic!("only reads") };
        got.extend(bytes);
        running.settle();
        events.nothing();
        channel.resume(); // the handler pauses again at once
    }
    assert!(got == data);
}

fn a_pause_from_outside_stops_reading_and_resume_loses_nothing(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    stream.write_all(b"before").unwrap();
    events.read(b"before");
    channel.pause();
    running.settle();
    stream.write_all(b"during").unwrap();
    running.settle();
    events.nothing();
    stream.write_all(b" and after").unwrap();
    channel.resume();
    events.read(b"during and after");
}

fn a_handler_may_ask_for_each_message_itself(setup: Setup) {
    const LEN: usize = 1 << 20;
    let (script, events) = script();
    let script = script.on_active(|cx, ()| cx.request()).on_read(|cx, _| cx.request());
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let mut stream = running.dial();
    events.active();
    let data = pattern(LEN);
    stream.write_all(&data).unwrap();
    events.read(&data);
}

/// While nobody reads, what a peer sends stays in the system's buffers, which are limited; then the peer has to wait.
fn a_peer_that_is_not_read_from_is_stopped_by_the_system_and_not_by_our_memory(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let mut stream = running.dial();
    let channel = events.active();
    stream.set_nonblocking(true);
    let (piece, mut sent) = (vec![7; 64 * 1024], 0);
    let full = loop {
        match stream.write(&piece) {
            Ok(len) => sent += len,
            Err(error) => break error,
        }
        assert!(sent < 1 << 30, "a gigabyte was taken by somebody who does not read");
    };
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    running.settle();
    events.nothing();
    channel.resume();
    events.read(&vec![7; sent]);
}

fn a_peer_that_closes_is_noticed_without_reading(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let stream = running.dial();
    let channel = events.active();
    drop(stream);
    assert!(matches!(events.end(), CloseCause::PeerClosed));
    assert_eq!(channel.state(), ChannelState::Closed);
    running.assert_quiet();
}

fn a_peer_that_resets_is_noticed_without_reading(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let stream = running.dial();
    events.active();
    reset(stream);
    let cause = events.end();
    assert!(
        matches!(&cause, CloseCause::Io(error) if error.kind() == std::io::ErrorKind::ConnectionReset),
        "{cause}"
    );
    running.assert_quiet();
}

fn what_a_peer_sent_before_it_closed_is_not_lost_while_nobody_reads(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let mut stream = running.dial();
    let channel = events.active();
    stream.write_all(b"last words").unwrap();
    drop(stream);
    running.settle();
    events.nothing();
    running.assert_quiet();
    assert_eq!(channel.state(), ChannelState::Active);
    channel.request();
    events.read(b"last words");
    assert!(
        matches!(events.end(), CloseCause::PeerClosed),
        "with nothing left to read, the end needs no request"
    );
}

fn a_paused_channel_still_writes_and_closes(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.auto_read(false));
    let mut stream = running.dial();
    let channel = events.active();
    channel.send("paused").soon().unwrap();
    expect(&mut stream, b"paused");
    assert!(matches!(channel.close().soon(), CloseCause::Requested));
    assert!(matches!(events.end(), CloseCause::Requested));
    expect_end(&mut stream);
}

fn the_end_of_input_waits_behind_what_a_paused_channel_has_not_read(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve_with(script.on_read(|cx, _| cx.pause()), |builder| builder.half_closure(true));
    let mut stream = running.dial();
    let channel = events.active();
    let data = pattern(SEVERAL_READS);
    stream.write_all(&data).unwrap();
    stream.shut_down().unwrap();
    let mut got = Vec::new();
    while got.len() < data.len() {
        let Seen::Read(bytes) = events.next() else { panic!("data comes before the end") };
        got.extend(bytes);
        channel.resume();
    }
    assert!(got == data);
    events.input_closed();
    channel.close();
    events.end();
}

/// Back pressure both ways: a peer that sends without reading is stopped, and gets everything once it reads.
fn an_echo_that_pauses_while_there_is_no_room_holds_little_and_loses_nothing(setup: Setup) {
    const LEN: usize = 8 << 20;
    const HIGH: usize = 64 * 1024;
    const READ_MAX: usize = 64 * 1024;
    let most = Arc::new(AtomicUsize::new(0));
    let (script, events) = script();
    let pending = most.clone();
    let script = script
        .on_read(move |cx, bytes| {
            pending.fetch_max(cx.view().pending_bytes(), Ordering::SeqCst);
            cx.write_and_flush(bytes.freeze());
        })
        .on_writability(|cx, writable| if writable { cx.resume() } else { cx.pause() });
    let options = StreamOptions::new().send_buffer_size(16 * 1024);
    let running = setup.serve_with(script, |builder| builder.options(options));
    let mut stream = running.dial_narrow();
    let channel = events.active();
    let mut writer = stream.try_clone().unwrap();
    let sender = thread::spawn(move || writer.write_all(&pattern(LEN)).unwrap());
    wait_until(|| !channel.is_writable(), || "the channel to be full".to_owned());
    expect(&mut stream, &pattern(LEN));
    sender.join().unwrap();
    let most = most.load(Ordering::SeqCst);
    assert!(most <= HIGH + READ_MAX + ENTRY_OVERHEAD, "{most} bytes were pending");
    running.assert_quiet();
}

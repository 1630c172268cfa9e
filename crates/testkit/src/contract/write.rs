//! What is written arrives whole and in order, and somebody who does not read costs little.

use super::{
    Behaviour, Need, Setup, Variation, behaviour,
    support::{
        Cx, Events, PATIENCE, Peer, Random, Running, Script, Seen, Soon, expect, expect_end, pattern,
        pattern_at, reset, round_trip, script,
    },
};
use bytes::Bytes;
use netwright_core::{Channel, CloseCause, ENTRY_OVERHEAD, WaterMarks, WriteError};
use netwright_transport::StreamOptions;
use std::{
    io::{ErrorKind, Read, Write},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

pub(super) const BEHAVIOURS: &[Behaviour] = &[
    behaviour!(many_small_pieces_of_one_flush_arrive_in_order).shows(&[49]),
    behaviour!(pieces_written_by_a_handler_arrive_in_order).shows(&[49]),
    behaviour!(what_one_thread_writes_arrives_in_the_order_in_which_it_wrote),
    behaviour!(writes_cancelled_before_the_flush_vanish).shows(&[53]),
    behaviour!(what_was_flushed_cannot_be_cancelled).shows(&[53]),
    behaviour!(what_is_not_flushed_is_not_sent),
    behaviour!(a_close_when_flushed_sends_everything_first),
    behaviour!(a_close_when_flushed_comes_behind_what_its_handler_wrote_by_a_handle),
    behaviour!(what_was_flushed_before_a_close_goes_out_if_the_system_takes_it),
    behaviour!(what_a_peer_said_before_it_broke_off_is_read_although_a_write_finds_that_first)
        .needs(&[Need::Reset])
        .not(&[Variation::Asking, Variation::OnWorkers]), // who does not ask for it just then does not get it
    behaviour!(a_large_transfer_with_small_marks_completes_writing_only_when_writable).shows(&[52]),
    behaviour!(a_large_transfer_between_two_channels_of_ours_completes).shows(&[52]),
    behaviour!(a_writer_outside_that_waits_for_room_gets_all_through).shows(&[52]),
    // Behind a stage on workers, what is under way counts: somebody may have found no room, and then hears that there is.
    behaviour!(a_peer_that_never_reads_makes_its_channel_unwritable_once_and_costs_no_more_than_the_mark)
        .not(&[Variation::OnWorkers]),
    behaviour!(a_peer_that_never_reads_does_not_hold_up_its_neighbours),
    behaviour!(a_channel_that_is_closed_while_its_peer_does_not_read_fails_what_waits),
    behaviour!(a_flood_does_not_keep_neighbours_from_being_read).needs(&[Need::HalfClosure]),
    behaviour!(a_channel_that_always_has_more_to_write_lets_its_loop_do_other_things),
];

/// More pieces than one gathering write takes, empty ones and large ones among them.
fn many_small_pieces_of_one_flush_arrive_in_order(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let mut random = Random::new();
    let mut expected = Vec::new();
    for _ in 0..5_000 {
        let size = match random.below(100) {
            0 => 0,
            1 => random.below(70_000),
            _ => random.below(300),
        };
        let piece = random.bytes(size);
        expected.extend(&piece);
        channel.write(piece);
    }
    channel.flush();
    expect(&mut stream, &expected);
}

fn pieces_written_by_a_handler_arrive_in_order(setup: Setup) {
    const PIECES: usize = 3_000;
    let (script, _events) = script();
    let running = setup.serve(script.on_active(|cx, ()| {
        for piece in 0..PIECES {
            cx.write(vec![piece as u8; piece % 97]);
        }
        cx.flush();
        cx.close_when_flushed();
    }));
    let mut stream = running.dial();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    let expected: Vec<u8> = (0..PIECES).flat_map(|piece| vec![piece as u8; piece % 97]).collect();
    assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
}

fn what_one_thread_writes_arrives_in_the_order_in_which_it_wrote(setup: Setup) {
    const MESSAGES: u32 = 3_000;
    const WRITERS: u32 = 3;
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let channel = channel.clone();
            thread::spawn(move || {
                for number in 0..MESSAGES {
                    let message = [writer.to_le_bytes(), number.to_le_bytes()].concat();
                    channel.write_and_flush(message);
                }
            })
        })
        .collect();
    let mut next = [0; WRITERS as usize];
    for _ in 0..MESSAGES * WRITERS {
        let mut message = [0; 8];
        stream.read_exact(&mut message).unwrap();
        let writer = u32::from_le_bytes(message[..4].try_into().unwrap()) as usize;
        let number = u32::from_le_bytes(message[4..].try_into().unwrap());
        assert_eq!(number, next[writer], "of writer {writer}");
        next[writer] += 1;
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
}

fn writes_cancelled_before_the_flush_vanish(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let mut writes: Vec<_> =
        ["a", "b", "c", "d", "e"].map(|letter| channel.write_tracked(letter)).into_iter().collect();
    assert!(writes[0].cancel());
    assert!(writes[3].cancel());
    channel.flush();
    expect(&mut stream, b"bce");
    for (index, write) in writes.iter_mut().enumerate() {
        match write.soon() {
            Ok(()) => assert!(![0, 3].contains(&index)),
            Err(error) => {
                assert!([0, 3].contains(&index) && matches!(error, WriteError::Cancelled), "{error}")
            }
        }
    }
}

fn what_was_flushed_cannot_be_cancelled(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial_narrow();
    let channel = events.active();
    // So much that it is certainly under way when it is cancelled.
    let data = pattern(4 << 20);
    let mut write = channel.send(data.clone());
    expect(&mut stream, &data[..1]);
    assert!(!write.cancel());
    expect(&mut stream, &data[1..]);
    write.soon().unwrap();
}

fn what_is_not_flushed_is_not_sent(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial();
    let channel = events.active();
    let mut waits = channel.write_tracked("waits");
    running.settle();
    stream.set_nonblocking(true);
    assert_eq!(stream.read(&mut [0; 16]).unwrap_err().kind(), ErrorKind::WouldBlock);
    stream.set_nonblocking(false);
    assert!(!waits.is_done());
    channel.flush();
    expect(&mut stream, b"waits");
    waits.soon().unwrap();
}

fn a_close_when_flushed_sends_everything_first(setup: Setup) {
    let (script, events) = script();
    let running = setup.serve(script);
    let mut stream = running.dial_narrow();
    let channel = events.active();
    let data = pattern(3 << 20);
    channel.write_and_flush(data.clone());
    let mut closed = channel.close_when_flushed();
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    assert!(got == data, "{} bytes", got.len());
    closed.soon();
}

fn a_close_when_flushed_comes_behind_what_its_handler_wrote_by_a_handle(setup: Setup) {
    let (script, _events) = script();
    let running = setup.serve(script.on_read(|cx, _| {
        cx.channel().write_and_flush("written before");
        cx.close_when_flushed();
    }));
    for _ in 0..10 {
        let mut stream = running.dial();
        stream.write_all(b"go on").unwrap();
        expect(&mut stream, b"written before");
        expect_end(&mut stream);
    }
}

/// However many pieces it was flushed in, and whatever of them is still on its way to the system.
fn what_was_flushed_before_a_close_goes_out_if_the_system_takes_it(setup: Setup) {
    const LEN: usize = 256 * 1024;
    let (script, _events) = script();
    let (read, pieces) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let said = pieces.clone();
    let running = setup.serve(script.on_read(move |cx, piece| {
        cx.write_and_flush(Bytes::from_static(b"."));
        said.fetch_add(1, Ordering::Relaxed);
        if read.fetch_add(piece.len(), Ordering::Relaxed) + piece.len() == LEN {
            cx.close();
        }
    }));
    let mut stream = running.dial();
    stream.write_all(&pattern(LEN)).unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    assert_eq!(heard.len(), pieces.load(Ordering::Relaxed));
}

/// A server that refuses what is being sent to it says why, and goes.
fn what_a_peer_said_before_it_broke_off_is_read_although_a_write_finds_that_first(setup: Setup) {
    let (script, events) = script();
    let (begun, beginning) = mpsc::channel();
    let (over, is_over) = mpsc::channel();
    let is_over = Mutex::new(is_over);
    let running = setup.serve(script.on_read(move |cx, piece| {
        if &piece[..] == b"go on" {
            begun.send(()).unwrap();
            is_over.lock().unwrap().recv_timeout(PATIENCE).unwrap();
            cx.write_and_flush(Bytes::from_static(b"in vain"));
        }
    }));
    let mut stream = running.dial();
    events.active();
    stream.write_all(b"go on").unwrap();
    beginning.recv_timeout(PATIENCE).unwrap();
    stream.write_all(b"enough").unwrap();
    reset(stream);
    over.send(()).unwrap();
    events.read(b"go onenough");
    let cause = events.skip_to_end();
    assert!(matches!(cause, CloseCause::Io(_)), "{cause}");
}

// ---- water marks ----

/// Sends `len` bytes of the pattern in pieces, and only while there is room.
#[derive(Clone)]
struct Considerate {
    sent: Arc<AtomicUsize>,
    most_pending: Arc<AtomicUsize>,
    len: usize,
    piece: usize,
    marks: WaterMarks,
}

impl Considerate {
    fn new(len: usize, piece: usize, marks: WaterMarks) -> Self {
        Self { sent: Arc::default(), most_pending: Arc::default(), len, piece, marks }
    }

    /// Writes until the high mark is passed: then, and only then, news of room is sure to come.
    fn fill(&self, cx: &mut Cx<'_>) {
        let mut pending = cx.view().pending_bytes();
        self.most_pending.fetch_max(pending, Ordering::SeqCst);
        let mut at = self.sent.load(Ordering::SeqCst);
        while at < self.len && pending <= self.marks.high() {
            let end = self.len.min(at + self.piece);
            cx.write((at..end).map(pattern_at).collect::<Vec<u8>>());
            pending += end - at + ENTRY_OVERHEAD;
            at = end;
        }
        self.sent.store(at, Ordering::SeqCst);
        cx.flush();
    }

    fn script(&self, script: Script) -> Script {
        let (first, next) = (self.clone(), self.clone());
        script.on_active(move |cx, ()| first.fill(cx)).on_writability(move |cx, writable| {
            next.most_pending.fetch_max(cx.view().pending_bytes(), Ordering::SeqCst);
            if writable {
                next.fill(cx);
            }
        })
    }

    /// Beyond the mark by no more than one message. News comes through a stage on workers if there is one, and what was too
    /// much may be sent by then.
    fn assert_bounded(&self, setup: Setup) {
        let (most, high) = (self.most_pending.load(Ordering::SeqCst), self.marks.high());
        let reached = most > high || setup.variation == Variation::OnWorkers;
        assert!(reached, "the mark was never reached, so nothing was tested: {most}");
        assert!(most <= high + self.piece + ENTRY_OVERHEAD, "{most} bytes were pending, the mark is {high}");
    }
}

const LARGE: usize = 8 << 20;

fn small_marks() -> WaterMarks {
    WaterMarks::new(8 * 1024, 16 * 1024).unwrap()
}

fn a_large_transfer_with_small_marks_completes_writing_only_when_writable(setup: Setup) {
    let (script, _events) = script();
    let sender = Considerate::new(LARGE, 4_000, small_marks());
    let running = setup.serve_with(sender.script(script), |builder| builder.water_marks(small_marks()));
    let mut stream = running.dial();
    let (mut at, mut buffer) = (0, vec![0; 64 * 1024]);
    while at < LARGE {
        let len = stream.read(&mut buffer).unwrap();
        assert!(len > 0, "the stream ended after {at} bytes");
        let exact = buffer[..len].iter().enumerate().all(|(offset, &byte)| byte == pattern_at(at + offset));
        assert!(exact, "wrong bytes between {at} and {}", at + len);
        at += len;
    }
    sender.assert_bounded(setup);
}

fn a_large_transfer_between_two_channels_of_ours_completes(setup: Setup) {
    let received = Arc::new(AtomicUsize::new(0));
    let (done, finished) = mpsc::channel();
    let (server_script, _at_server) = script();
    let server_script = {
        let received = received.clone();
        server_script.on_read(move |cx, bytes| {
            let at = received.fetch_add(bytes.len(), Ordering::SeqCst);
            let exact = bytes.iter().enumerate().all(|(offset, &byte)| byte == pattern_at(at + offset));
            assert!(exact, "wrong bytes between {at} and {}", at + bytes.len());
            if at + bytes.len() == LARGE {
                done.send(()).unwrap();
                cx.close();
            }
        })
    };
    let running = setup.serve(server_script);
    let (script, _events) = script();
    let sender = Considerate::new(LARGE, 4_000, small_marks());
    let client = setup.client_with(sender.script(script), |builder| builder.water_marks(small_marks()));
    let channel = client.connect(running.address()).soon().unwrap();
    finished.recv_timeout(PATIENCE).expect("all bytes arrive");
    channel.closed().soon();
    sender.assert_bounded(setup);
}

fn a_writer_outside_that_waits_for_room_gets_all_through(setup: Setup) {
    const LEN: usize = 4 << 20;
    const PIECE: usize = 4_096;
    let (script, events) = script();
    let running = setup.serve_with(script, |builder| builder.water_marks(small_marks()));
    let mut stream = running.dial();
    let channel = events.active();
    let writing = async move {
        for at in (0..LEN).step_by(PIECE) {
            channel.writable().await.unwrap();
            channel.write_and_flush((at..at + PIECE).map(pattern_at).collect::<Vec<u8>>());
        }
    };
    let own_loop = netwright_core::EventLoop::new();
    let mut written = own_loop.spawn(writing).unwrap();
    expect(&mut stream, &pattern(LEN));
    written.soon().unwrap();
}

/// A peer that asks for a message with each byte it sends, and never reads.
struct Deaf {
    running: Running,
    events: Events,
    stream: Peer,
    channel: Channel,
    pending: mpsc::Receiver<(bool, usize)>,
}

const MESSAGE: usize = 10_000;
const HIGH: usize = 64 * 1024;

impl Deaf {
    fn new(setup: Setup) -> Self {
        let (told, pending) = mpsc::channel();
        let (script, events) = script();
        let script = script.on_read(move |cx, bytes| {
            if bytes.first() == Some(&b'e') {
                return cx.write_and_flush(bytes.freeze());
            }
            if cx.is_writable() {
                cx.write_and_flush(vec![b'.'; MESSAGE]);
            }
            let _ = told.send((cx.is_writable(), cx.view().pending_bytes())); // a test that is over does not listen
        });
        let options = StreamOptions::new().send_buffer_size(16 * 1024);
        // It asks for room itself, and wants to be asked although there is none.
        let running = setup.serve_with(script, |builder| builder.options(options).hold_back(false));
        let stream = running.dial_narrow();
        let channel = events.active();
        Self { running, events, stream, channel, pending }
    }

    /// Asks until there is no room; returns how many messages were written.
    fn fill(&mut self) -> usize {
        for asked in 0..10_000 {
            self.stream.write_all(b".").unwrap();
            let (writable, pending) = self.pending.recv_timeout(PATIENCE).unwrap();
            assert!(
                pending <= HIGH + MESSAGE + ENTRY_OVERHEAD,
                "{pending} bytes wait for a peer that does not read"
            );
            if !writable {
                return asked;
            }
        }
        panic!("100 MB were taken by somebody who does not read");
    }
}

fn a_peer_that_never_reads_makes_its_channel_unwritable_once_and_costs_no_more_than_the_mark(setup: Setup) {
    let mut deaf = Deaf::new(setup);
    let written = deaf.fill();
    for _ in 0..100 {
        deaf.stream.write_all(b".").unwrap();
        let (writable, pending) = deaf.pending.recv_timeout(PATIENCE).unwrap();
        assert!(!writable);
        assert!(pending <= HIGH + MESSAGE + ENTRY_OVERHEAD);
    }
    assert!(!deaf.channel.is_writable(), "and the outside knows");
    let news = |events: &Events| {
        let mut news = Vec::new();
        deaf.running.settle();
        while let Some(seen) = events.try_next() {
            if let Seen::Writability(writable) = seen {
                news.push(writable);
            }
        }
        news
    };
    assert_eq!(news(&deaf.events), [false], "told once");
    deaf.running.assert_quiet();

    // The peer changes its mind.
    expect(&mut deaf.stream, &vec![b'.'; written * MESSAGE]);
    deaf.running.settle();
    assert_eq!(news(&deaf.events), [true], "told once");
    assert!(deaf.channel.is_writable());
    deaf.stream.write_all(b".").unwrap();
    expect(&mut deaf.stream, &[b'.'; MESSAGE]);
}

fn a_peer_that_never_reads_does_not_hold_up_its_neighbours(setup: Setup) {
    let mut deaf = Deaf::new(setup);
    deaf.fill();
    // Enough of them that every loop has some.
    let mut neighbours: Vec<_> = (0..8).map(|_| deaf.running.dial()).collect();
    for _ in 0..50 {
        neighbours.iter_mut().for_each(|neighbour| round_trip(neighbour, b"echo"));
    }
}

fn a_channel_that_is_closed_while_its_peer_does_not_read_fails_what_waits(setup: Setup) {
    let mut deaf = Deaf::new(setup);
    deaf.fill();
    let mut waiting = deaf.channel.send("waiting");
    deaf.running.settle();
    assert!(!waiting.is_done());
    deaf.channel.close().soon();
    let failed = waiting.soon();
    assert!(matches!(failed, Err(WriteError::Closed(_))), "{failed:?}");
    deaf.events.skip_to_end();
}

/// A channel that always has something to read goes on in the next turn, behind the others.
fn a_flood_does_not_keep_neighbours_from_being_read(setup: Setup) {
    // One that waits for room: a peer may write faster than it reads, and what lies between would be gigabytes.
    let running = setup.serve_tail(|mut peer: netwright_core::Peer| async move {
        while let Some(bytes) = peer.read().await? {
            peer.write(bytes.freeze()).await?;
        }
        Ok::<_, netwright_core::CloseCause>(())
    });
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let mut floods = Vec::new();
    for _ in 0..2 {
        let mut stream = running.dial();
        let mut reader = stream.try_clone().unwrap();
        let stopped = stop.clone();
        floods.push(thread::spawn(move || {
            let data = vec![1; 1 << 20];
            while !stopped.load(Ordering::Relaxed) {
                stream.write_all(&data).unwrap();
            }
            stream.shut_down().unwrap();
        }));
        floods.push(thread::spawn(move || {
            let mut buffer = vec![0; 1 << 20];
            while reader.read(&mut buffer).is_ok_and(|len| len > 0) {}
        }));
    }
    let mut neighbours: Vec<_> = (0..4).map(|_| running.dial()).collect();
    for _ in 0..20 {
        neighbours.iter_mut().for_each(|neighbour| round_trip(neighbour, b"in between"));
    }
    stop.store(true, Ordering::Relaxed);
    floods.into_iter().for_each(|flood| flood.join().unwrap());
}

/// Its peer reads as fast as it writes, so that there is always room.
fn a_channel_that_always_has_more_to_write_lets_its_loop_do_other_things(setup: Setup) {
    fn fill(cx: &mut Cx<'_>) {
        while cx.is_writable() {
            cx.write(Bytes::from_static(&[b'x'; 16 * 1024]));
        }
        cx.flush();
    }
    let (script, events) = script();
    let script = script.on_active(|cx, ()| fill(cx)).on_writability(|cx, _| fill(cx));
    let running = setup.serve(script);
    let mut stream = running.dial();
    let reader = thread::spawn(move || {
        let mut room = vec![0; 1 << 16];
        while stream.read(&mut room).is_ok_and(|len| len > 0) {}
    });
    let channel = events.active();
    for _ in 0..10 {
        running.settle(); // every loop takes tasks meanwhile
    }
    channel.close().soon();
    reader.join().unwrap();
}

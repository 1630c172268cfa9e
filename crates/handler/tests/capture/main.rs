//! What a capture shows of channels, read back byte by byte.

mod parser;

use bytes::{Bytes, BytesMut};
use netwright_core::{
    Address, CloseCause, EmbeddedChannel, FileRegion, Outgoing, Slot, Workers, pipeline, slot,
};
use netwright_handler::{Capture, CaptureError};
use parser::{File, Packet, parse};
use std::{
    fs, io,
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn ring() -> Capture {
    Capture::ring(1 << 20).unwrap()
}

fn of(capture: &Capture) -> File {
    parse(&capture.dump().unwrap())
}

fn ip(text: &str) -> Option<Address> {
    Some(Address::Ip(text.parse().unwrap()))
}

/// An echo with a capture in front of it, between these addresses: ours, and the peer's.
fn echo(capture: &Capture, local: &str, peer: &str) -> EmbeddedChannel<(), Outgoing> {
    let stages = pipeline().add(capture.stage()).joint(|_| {
        pipeline().handle(|cx, bytes: BytesMut| match &bytes[..] {
            b"bad" => cx.fire_error(io::Error::other("no such order")),
            b"panic" => panic!("as expected"),
            b"end" => cx.shut_down_output(),
            _ => cx.write_and_flush(bytes),
        })
    });
    EmbeddedChannel::between(stages, ip(local), ip(peer))
}

const US: &str = "127.0.0.1:80";
const PEER: &str = "127.0.0.1:40000";

/// Way and flags of each packet, and how much it carries.
fn outline(packets: &[Packet]) -> Vec<(char, &str, usize)> {
    let way = |packet: &Packet| if packet.inbound { '>' } else { '<' };
    packets.iter().map(|packet| (way(packet), packet.flags.as_str(), packet.payload.len())).collect()
}

const HANDSHAKE: [(char, &str, usize); 3] = [('>', "SYN", 0), ('<', "SYN ACK", 0), ('>', "ACK", 0)];

/// Both sides' numbers fit each other.
fn assert_in_sequence(packets: &[Packet]) {
    let (mut next, mut known) = ([None::<u32>; 2], [None::<u32>; 2]);
    for packet in packets {
        let side = usize::from(packet.inbound);
        if let Some(next) = next[side] {
            assert_eq!(packet.seq, next, "{packet:?}");
        }
        if packet.flags.contains("ACK") {
            known[side] = Some(packet.ack);
            if let Some(sent) = next[1 - side] {
                assert_eq!(packet.ack, sent, "{packet:?}");
            }
        }
        let one = u32::from(packet.flags.contains("SYN") || packet.flags.contains("FIN"));
        next[side] = Some(packet.seq.wrapping_add(packet.payload.len() as u32 + one));
    }
}

#[test]
fn a_connection_has_a_handshake_its_bytes_both_ways_and_an_end() {
    let capture = ring();
    let mut channel = echo(&capture, US, PEER);
    channel.write_inbound("hello").advance(Duration::from_millis(1500));
    channel.write_inbound("again").close_by_peer();
    let packets = of(&capture).packets;
    let mut expected = HANDSHAKE.to_vec();
    let piece = |way| (way, "PSH ACK", 5);
    expected.extend([
        piece('>'),
        piece('<'),
        piece('>'),
        piece('<'),
        ('>', "FIN ACK", 0),
        ('<', "FIN ACK", 0),
    ]);
    assert_eq!(outline(&packets), expected);
    assert_in_sequence(&packets);
    assert_eq!(
        (packets[3].payload.as_slice(), packets[5].payload.as_slice()),
        (&b"hello"[..], &b"again"[..])
    );
    assert_eq!(packets[5].at - packets[3].at, Duration::from_millis(1500), "by the loop's clock");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(packets[3].at <= now && now - packets[3].at < Duration::from_secs(3600), "as time of day");
    for packet in &packets {
        let ends = (packet.from.to_string(), packet.to.to_string());
        assert_eq!(ends == (PEER.into(), US.into()), packet.inbound, "{ends:?}");
    }
    assert_eq!(packets[7].comment.as_deref(), Some("closed by the peer"));
    assert!(packets.iter().enumerate().all(|(index, packet)| index == 7 || packet.comment.is_none()));
}

#[test]
fn who_breaks_off_and_why_shows_in_the_end() {
    type Act = fn(&mut EmbeddedChannel<(), Outgoing>);
    type Packets = &'static [(char, &'static str)];
    let ends: [(Act, Packets, &str); 7] = [
        (|channel| _ = channel.close_by_peer(), &[('>', "FIN ACK"), ('<', "FIN ACK")], "closed by the peer"),
        (
            |channel| _ = channel.end_because(CloseCause::io(io::ErrorKind::ConnectionReset.into())),
            &[('>', "RST ACK")],
            "connection failed: connection reset",
        ),
        (
            |channel| {
                channel.channel().close_because(CloseCause::TimedOut(Duration::from_secs(30)));
                channel.run();
            },
            &[('<', "FIN ACK")],
            "timed out after 30s",
        ),
        (
            |channel| {
                channel.channel().close_because(CloseCause::Reset(7));
                channel.run();
            },
            &[('<', "RST ACK")],
            "reset with code 7",
        ),
        (|channel| _ = channel.write_inbound("bad"), &[('>', "PSH ACK"), ('<', "FIN ACK")], "no such order"),
        (|channel| _ = channel.write_inbound("panic"), &[('>', "PSH ACK"), ('<', "FIN ACK")], "as expected"),
        (
            |channel| {
                channel.write_inbound("end");
                channel.close_by_peer();
            },
            &[('>', "PSH ACK"), ('<', "FIN ACK"), ('>', "FIN ACK")],
            "closed by the peer",
        ),
    ];
    for (act, expected, why) in ends {
        let capture = ring();
        let mut channel = echo(&capture, US, PEER);
        act(&mut channel);
        channel.run();
        drop(channel);
        let packets = of(&capture).packets;
        let seen: Vec<_> = outline(&packets)[3..].iter().map(|(way, flags, _)| (*way, *flags)).collect();
        assert_eq!(seen, expected, "{why}");
        assert_in_sequence(&packets);
        let comments: Vec<_> = packets.iter().filter_map(|packet| packet.comment.clone()).collect();
        assert!(comments.len() == 1 && comments[0].contains(why), "{comments:?} instead of {why}");
    }
}

#[test]
fn a_message_longer_than_a_segment_may_be_goes_in_several() {
    for (len, expected) in [(65_494, vec![65_494]), (65_495, vec![65_495]), (65_496, vec![65_495, 1])] {
        for (us, peer) in [(US, PEER), ("[2001:db8::1]:80", "[2001:db8::2]:40000")] {
            let capture = ring();
            let mut channel = echo(&capture, us, peer);
            let bytes: Vec<u8> = (0..len).map(|index| index as u8).collect();
            channel.write_inbound(bytes.clone());
            let packets = of(&capture).packets;
            assert_in_sequence(&packets);
            let read: Vec<_> = packets[3..].iter().filter(|packet| packet.inbound).collect();
            assert_eq!(read.iter().map(|packet| packet.payload.len()).collect::<Vec<_>>(), expected);
            let all: Vec<u8> = read.iter().flat_map(|packet| packet.payload.clone()).collect();
            assert!(all == bytes);
            assert_eq!(read[0].from.to_string(), peer);
        }
    }
}

#[test]
fn nobody_has_more_on_its_way_than_the_other_ones_window_holds() {
    for lens in [vec![65_495, 40, 65_494, 41], vec![16_384; 50], vec![1_000_000], vec![65_535; 4]] {
        let capture = ring();
        let stages = pipeline().add(capture.stage()).handle(|_, _| {}); // says nothing, so it acknowledges nothing by itself
        let mut channel = EmbeddedChannel::<(), Outgoing>::between(stages, ip(US), ip(PEER));
        for len in &lens {
            channel.write_inbound(vec![b'x'; *len]);
        }
        let packets = of(&capture).packets;
        assert_in_sequence(&packets);
        let (mut on_its_way, mut all) = (0, 0);
        for packet in &packets[3..] {
            on_its_way = if packet.inbound { on_its_way + packet.payload.len() } else { 0 };
            all += packet.payload.len();
            assert!(on_its_way < usize::from(packet.window), "{on_its_way} in {lens:?}");
        }
        assert_eq!(all, lens.iter().sum::<usize>());
    }
}

#[test]
fn a_message_without_bytes_is_no_packet_and_a_long_cause_is_cut() {
    let capture = ring();
    let mut channel = echo(&capture, US, PEER);
    channel.write_inbound("");
    assert_eq!(of(&capture).packets.len(), 3);
    channel.channel().close_because(CloseCause::Panicked("ä".repeat(5000)));
    channel.run();
    let packets = of(&capture).packets;
    let comment = packets.last().unwrap().comment.clone().unwrap();
    assert!(comment.len() > 1000 && comment.len() <= 1024 && comment.ends_with('ä'), "{comment}");
}

#[test]
fn mapped_addresses_are_those_of_version_4() {
    let capture = ring();
    echo(&capture, "[::ffff:1.2.3.4]:80", "[::ffff:5.6.7.8]:9").write_inbound("x");
    assert_eq!(of(&capture).packets[0].from.to_string(), "5.6.7.8:9");
}

#[test]
fn channels_without_addresses_of_ip_get_some_of_their_own_and_a_comment_with_the_real_ones() {
    let capture = ring();
    let channels: Vec<_> = (0..3)
        .map(|_| {
            let stages = pipeline().add(capture.stage()).handle(|cx, bytes| cx.write_and_flush(bytes));
            let mut channel = EmbeddedChannel::between(stages, Some(Address::Local("shop".into())), None);
            channel.write_inbound("x");
            channel
        })
        .collect();
    let packets = of(&capture).packets;
    let first: Vec<_> = packets.iter().filter(|packet| packet.flags == "SYN").collect();
    assert_eq!(first.len(), channels.len());
    assert!(
        first.iter().all(|packet| packet.comment.as_ref().unwrap().contains("local:shop is ours")),
        "{first:?}"
    );
    assert!(first[0].from != first[1].from && first[1].from != first[2].from);
    assert!(packets.iter().filter(|packet| packet.flags != "SYN").all(|packet| packet.comment.is_none()));
}

#[test]
fn a_client_begins_the_connection_itself() {
    let capture = ring();
    let stages = pipeline().add(capture.client_stage()).handle(|_, _| {});
    let _channel = EmbeddedChannel::between(stages, ip(PEER), ip(US));
    let packets = of(&capture).packets;
    assert_eq!(outline(&packets), [('<', "SYN", 0), ('>', "SYN ACK", 0), ('<', "ACK", 0)]);
    assert_eq!(packets[0].to.to_string(), US);
}

#[test]
fn of_a_file_its_length_is_known() {
    let capture = ring();
    let path = Temporary::new("file");
    fs::write(&path.0, [b'x'; 5000]).unwrap();
    let region = FileRegion::new(fs::File::open(&path.0).unwrap(), 0, 5000);
    let mut region = Some(region);
    let stages = pipeline().add(capture.stage()).handle(move |cx, _| {
        cx.write(region.take().expect("once"));
        cx.write_and_flush("behind it");
    });
    let mut channel = EmbeddedChannel::between(stages, ip(US), ip(PEER));
    channel.write_inbound("x");
    let packets = of(&capture).packets;
    let [.., file, behind] = &packets[..] else { panic!("{packets:?}") };
    assert_eq!(file.comment.as_deref(), Some("5000 bytes of a file follow, which are not captured"));
    assert_eq!((behind.seq.wrapping_sub(file.seq), behind.payload.as_slice()), (5000, &b"behind it"[..]));
}

#[test]
fn a_capture_in_a_slot_begins_in_the_middle_and_ends_when_it_is_taken_out() {
    let capture = ring();
    let stages = pipeline().add(slot::<BytesMut, Outgoing>("capture"));
    let stages = stages.handle(|cx, bytes| cx.write_and_flush(bytes));
    let mut channel = EmbeddedChannel::between(stages, ip(US), ip(PEER));
    channel.write_inbound("before");
    let place: Slot<BytesMut, Outgoing> = channel.channel().slot("capture").unwrap();
    place.put(capture.observer());
    channel.write_inbound("one");
    place.clear();
    channel.write_inbound("after");
    let packets = of(&capture).packets;
    assert_eq!(outline(&packets), [('>', "PSH ACK", 3), ('<', "PSH ACK", 3)]);
    assert_in_sequence(&packets);
    let bytes = Capture::ring(1 << 20).unwrap();
    let stages = pipeline()
        .add(slot::<BytesMut, Bytes>("capture"))
        .handle(|cx, _| cx.write_and_flush(Bytes::from("b")));
    let mut channel = EmbeddedChannel::between(stages, ip(US), ip(PEER));
    channel.channel().slot::<BytesMut, Bytes>("capture").unwrap().put(bytes.observer_of_bytes());
    channel.write_inbound("x");
    assert_eq!(of(&bytes).packets.len(), 2);
}

#[test]
fn a_ring_keeps_the_newest_packets_and_all_secrets() {
    let capture = Capture::ring(4096).unwrap();
    let secret = format!("CLIENT_RANDOM {} {}", "ab".repeat(32), "cd".repeat(48));
    capture.tls_secret_line(&secret).unwrap();
    let mut channel = echo(&capture, US, PEER);
    for round in 0..1000_u32 {
        channel.write_inbound(round.to_string());
    }
    let (bytes, file) = (capture.dump().unwrap(), of(&capture));
    assert!(bytes.len() <= 4096 + 1024, "{}", bytes.len());
    assert_eq!(file.secrets, [(0, format!("{secret}\n"))]);
    assert_in_sequence(&file.packets);
    assert_eq!(file.packets.last().unwrap().payload, b"999");
    let figures = capture.figures();
    assert_eq!(figures.packets, file.packets.len() as u64);
    assert_eq!(figures.packets + figures.lost_packets, 2003);
    assert!(figures.bytes <= 4096 && figures.bytes > 3900, "{figures:?}");
    let last = &file.statistics[0];
    assert_eq!((last.packets, last.lost), (2003, figures.lost_packets));
    channel.write_inbound(vec![0; 5000]);
    assert_eq!(capture.figures().lost_packets, figures.lost_packets + 2, "longer than the ring");
}

#[test]
fn lines_that_are_no_secrets_are_refused_and_not_repeated() {
    let (random, secret) = ("ab".repeat(32), "cd".repeat(32));
    let capture = ring();
    for (line, why) in [
        (String::new(), "not three words with a blank between them"),
        (format!("A {random} {secret} x"), "not three words with a blank between them"),
        (format!(" {random} {secret}"), "its label is no word"),
        (format!("A-B {random} {secret}"), "its label is no word"),
        (format!("A {random}0 {secret}"), "the client's random is not of 32 bytes"),
        (format!("A {random} "), "the secret is not of whole bytes"),
        (format!("A {random} {secret}0"), "the secret is not of whole bytes"),
        (format!("A {random} {secret}\nB {random} {secret}"), "not three words with a blank between them"),
        (format!("A {random} {}", "0".repeat(512)), "longer than 512 bytes"),
    ] {
        let error = capture.tls_secret_line(&line).unwrap_err();
        assert!(matches!(error, CaptureError::NoSecret(said) if said == why), "{line:?}: {error}");
        assert!(!format!("{error} {error:?}").contains("cdcd"));
    }
    assert_eq!(of(&capture).secrets.len(), 0);
    for many in 0..10_000 {
        capture.tls_secret_line(&format!("A {random} {many:064x}\r\n")).unwrap();
    }
    assert!(capture.dump().unwrap().len() <= (1 << 20) + 1024, "bounded, and the newest are kept");
    assert!(of(&capture).secrets.last().unwrap().1.ends_with("270f\n"));
}

/// A file of its own, gone with the test.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("netwright-capture-{}-{number}-{name}", std::process::id())))
    }

    fn parse(&self) -> File {
        parse(&fs::read(&self.0).unwrap())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn many_channels_go_into_one_file_which_only_its_user_may_read() {
    let there = Temporary::new("many");
    fs::write(&there.0, "of an earlier run, for all to read").unwrap();
    let capture = Capture::to_file(&there.0, 1 << 20).unwrap();
    let threads: Vec<_> = (0..4_u16)
        .map(|thread| {
            let capture = capture.clone();
            std::thread::spawn(move || {
                let mut channel = echo(&capture, US, &format!("127.0.0.1:{}", 40_000 + thread));
                (0..50).for_each(|round| _ = channel.write_inbound(format!("{round:03}")));
                channel.close_by_peer();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(capture.finish(PATIENCE) && capture.is_full());
    let file = there.parse();
    for thread in 0..4 {
        let port = 40_000 + thread;
        let of_one = |packet: &&Packet| packet.from.port() == port || packet.to.port() == port;
        let packets: Vec<_> = file.packets.iter().filter(of_one).cloned().collect();
        assert_eq!(packets.len(), 3 + 100 + 2);
        assert_in_sequence(&packets);
    }
    let figures = capture.figures();
    assert_eq!((figures.channels, figures.packets, figures.lost_packets), (4, 420, 0));
    let [last] = &file.statistics[..] else { panic!("{:?}", file.statistics) };
    assert_eq!((last.packets, last.lost, last.comment.as_str()), (420, 0, "the capture ends here"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(fs::metadata(&there.0).unwrap().permissions().mode() & 0o077, 0);
    }
    // What comes behind its end is lost, and harms nobody.
    let mut channel = echo(&capture, US, PEER);
    assert_eq!(channel.write_inbound("x").outbound_bytes(), b"x");
    assert_eq!(capture.figures().lost_packets, 5);
    assert!(matches!(capture.tls_secret_line(&format!("A {} 00", "ab".repeat(32))), Err(CaptureError::Full)));
    assert!(matches!(capture.dump(), Err(CaptureError::NoRing)));
}

#[test]
fn a_file_that_nobody_finishes_is_complete_when_all_are_gone() {
    let there = Temporary::new("dropped");
    let workers = Workers::new(1).unwrap();
    let capture = Capture::to_file_on(&workers, &there.0, 1 << 20).unwrap();
    let mut channel = echo(&capture, US, PEER);
    drop(capture);
    channel.write_inbound("x");
    drop(channel);
    workers.shutdown_gracefully(PATIENCE).wait().unwrap(); // what waits is done first
    assert_eq!(there.parse().statistics.len(), 1);
}

#[test]
fn a_file_is_never_longer_than_its_bound_and_says_where_that_was_reached() {
    // How long the file is with so many messages and without a last word; then bounds around that.
    for less in 0..3_u64 {
        let there = Temporary::new("bound");
        let bound = 8192 - less;
        let capture = Capture::to_file(&there.0, bound).unwrap();
        let mut channel = echo(&capture, US, PEER);
        for round in 0..200_u32 {
            let word = round.to_string();
            assert_eq!(channel.write_inbound(word.clone()).outbound_bytes(), word.as_bytes(), "it goes on");
        }
        assert!(capture.wait_until_written(PATIENCE) && capture.is_full() && capture.error().is_none());
        let len = fs::metadata(&there.0).unwrap().len();
        assert!(len <= bound && len + 400 > bound, "{len} of {bound}");
        let (file, figures) = (there.parse(), capture.figures());
        assert_eq!(
            (figures.packets, figures.packets + figures.lost_packets),
            (file.packets.len() as u64, 403)
        );
        assert_in_sequence(&file.packets);
        assert!(file.statistics[0].comment.contains("the bound of this file was reached"));
        assert_eq!(file.statistics[0].lost, 1, "so far");
    }
    let there = Temporary::new("small");
    for (bound, is_enough) in [(4095, false), (4096, true)] {
        assert_eq!(Capture::to_file(&there.0, bound).is_ok(), is_enough);
    }
}

#[test]
fn a_packet_fits_to_the_byte_and_one_more_byte_does_not() {
    // With a message of this length the file is as long as its bound less what the last block may need.
    let len_of = |message: usize, bound: u64| {
        let there = Temporary::new("byte");
        let capture = Capture::to_file(&there.0, bound).unwrap();
        let mut channel = echo(&capture, US, PEER);
        channel.write_inbound(vec![b'x'; message]);
        assert!(capture.wait_until_written(PATIENCE));
        (fs::metadata(&there.0).unwrap().len(), capture.figures().lost_packets)
    };
    let (whole, none) = len_of(4000, 1 << 20);
    assert_eq!(none, 0);
    assert_eq!(len_of(4000, whole + 256), (whole, 0));
    assert_eq!(len_of(4000, whole + 255).1, 1);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_capture_and_no_channel() {
    let capture = Capture::to_file("/dev/full", 1 << 20).unwrap();
    let mut channel = echo(&capture, US, PEER);
    assert_eq!(channel.write_inbound("hello").outbound_bytes(), b"hello");
    assert!(capture.wait_until_written(PATIENCE));
    assert_eq!(capture.error().expect("it is full").kind(), io::ErrorKind::StorageFull);
    assert_eq!(channel.write_inbound("again").outbound_bytes(), b"again");
    let figures = capture.figures();
    assert_eq!((figures.packets, figures.bytes, figures.lost_packets), (0, 0, 7), "{figures:?}");
    assert!(capture.finish(PATIENCE) && capture.is_full());
}

#[test]
fn workers_that_are_gone_cost_the_capture_and_no_channel() {
    let there = Temporary::new("workers");
    let workers = Workers::new(1).unwrap();
    _ = workers.shutdown_now().wait();
    let capture = Capture::to_file_on(&workers, &there.0, 1 << 20).unwrap();
    let mut channel = echo(&capture, US, PEER);
    assert_eq!(channel.write_inbound("hello").outbound_bytes(), b"hello");
    assert!(capture.finish(PATIENCE) && capture.error().is_some());
    assert_eq!((capture.figures().packets, capture.figures().lost_packets), (0, 5));
}

#[test]
fn a_disk_that_is_too_slow_costs_packets_and_no_memory() {
    let there = Temporary::new("slow");
    let workers = Workers::new(1).unwrap();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    workers.execute(move || _ = wait.recv()).unwrap();
    let capture = Capture::to_file_on(&workers, &there.0, 1 << 30).unwrap();
    let stages = pipeline().add(capture.stage()).handle(|_, _| {});
    let mut channel = EmbeddedChannel::between(stages, ip(US), ip(PEER));
    (0..100).for_each(|_| _ = channel.write_inbound(vec![0; 60_000]));
    let figures = capture.figures();
    assert!(figures.bytes <= 4 << 20 && figures.lost_packets > 0, "{figures:?}");
    // A handshake, the messages, and an acknowledgement before each but the first, for two do not fit into a window.
    assert_eq!(figures.packets + figures.lost_packets, 3 + 100 + 99);
    assert!(!capture.wait_until_written(Duration::ZERO));
    drop(go);
    assert!(capture.finish(PATIENCE));
    let file = there.parse();
    assert_eq!(file.packets.len() as u64, figures.packets);
    assert_eq!(file.statistics[0].lost, figures.lost_packets);
}

#[test]
fn a_file_that_cannot_be_made_is_a_typed_error() {
    let error = Capture::to_file("/no/such/directory/file", 1 << 20).unwrap_err();
    assert!(matches!(&error, CaptureError::Io(error) if error.kind() == io::ErrorKind::NotFound), "{error}");
}

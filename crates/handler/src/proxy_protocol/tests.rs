//! Headers as bytes, whole and broken, and what the stage makes of them.

use super::{
    ProxyHeader, ProxyProtocol, ProxyProtocolError, ProxySsl, SendProxyHeader, TrustedNetworks,
    crc32c::crc32c,
    decode::{Look, look},
};
use crate::{AddressFilter, AddressRefused};
use bytes::{Bytes, BytesMut};
use netwright_codec::LineFrames;
use netwright_core::{
    Address, AppContext, Application, CloseCause, EmbeddedChannel, Event, Fault, Outgoing, filter, pipeline,
};
use netwright_testkit::{
    verify::{Numbers, damaged, hostile_lengths},
    verify_decoder,
};
use netwright_transport::{AccessList, LiveAccessList};
use std::{cell::RefCell, rc::Rc, time::Duration};

const V1: &str = "PROXY TCP4 192.0.2.7 198.51.100.1 4711 443\r\n";

fn address(text: &str) -> Address {
    text.parse().unwrap()
}

fn v4() -> ProxyHeader {
    ProxyHeader::new(address("192.0.2.7:4711"), address("198.51.100.1:443"))
}

fn everyone() -> ProxyProtocol {
    ProxyProtocol::from(TrustedNetworks::everyone())
}

/// What happened behind the stage, in words.
#[derive(Clone, Default)]
struct Notes(Rc<RefCell<Vec<String>>>);

impl Notes {
    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

impl Application for Notes {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        let peer = cx.view().peer().map_or("nobody".to_owned(), |peer| peer.to_string());
        self.0.borrow_mut().push(format!("active {peer}"));
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.0.borrow_mut().push(format!("read {}", bytes.escape_ascii()));
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if event.get::<ProxyHeader>().is_some() {
            self.0.borrow_mut().push("header".to_owned());
        }
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
        self.0.borrow_mut().push(format!("error {fault}")); // and nothing is done about it
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, _: CloseCause) {
        self.0.borrow_mut().push("inactive".to_owned());
    }
}

fn between(stage: ProxyProtocol, peer: &str) -> (EmbeddedChannel<(), Outgoing>, Notes) {
    let notes = Notes::default();
    let stages = pipeline().filter(stage).app(notes.clone());
    (EmbeddedChannel::between(stages, Some(address("10.0.0.9:80")), Some(address(peer))), notes)
}

fn cause(channel: &EmbeddedChannel<(), Outgoing>) -> Option<ProxyProtocolError> {
    match channel.channel().close_cause()? {
        CloseCause::Fault(fault) => fault.downcast_ref::<ProxyProtocolError>().cloned(),
        other => panic!("{other}"),
    }
}

fn parsed(bytes: &[u8]) -> Result<ProxyHeader, ProxyProtocolError> {
    match look(bytes, 4096)? {
        Look::Header { header, length } if length == bytes.len() => Ok(header),
        other => panic!("{other:?}"),
    }
}

// ---- bytes ----

#[test]
fn headers_pass_the_verifier_of_decoders_with_lines_behind_them() {
    let v2 = v4().with_alpn("h2").with_checksum().encode_v2().unwrap();
    let local = [&b"\r\n\r\n\0\r\nQUIT\n\x20\x11\x00\x04????"[..], b"a\n"].concat();
    let lines = || LineFrames::max(50);
    let stage = || filter::<_, BytesMut, Outgoing>(everyone());
    verify_decoder!(stage(), lines(); last_may_come;
        [V1.as_bytes(), b"one\n"].concat() => [Ok("one")],
        b"two\n" => [Ok("two")],
    );
    verify_decoder!(stage(), lines(); last_may_come; [&v2[..], b"one\ntwo\n"].concat() => [Ok("one"), Ok("two")]);
    verify_decoder!(stage(), lines(); last_may_come; local => [Ok("a")]);
    verify_decoder!(stage(), lines(); last_may_come; b"PROXY TCP4 \xff\xff\r\n" => [Err::<&str, _>("no text")]);
    verify_decoder!(stage(), lines(); last_may_come; b"GET / HTTP/1.1\r\n" => [Err::<&str, _>("has to come first")]);
}

#[test]
fn without_a_header_where_it_may_be_missing_the_verifier_sees_what_was_sent() {
    let stage = || filter::<_, BytesMut, Outgoing>(everyone().optional());
    verify_decoder!(stage(), LineFrames::max(50); b"PROXIES\nPROX\n\r\n\r\n" => [Ok("PROXIES"), Ok("PROX"), Ok(""), Ok("")]);
}

#[test]
fn lines_of_version_1_are_read_as_they_are_specified() {
    let ends = |line: &str| {
        let header = parsed(format!("PROXY {line}\r\n").as_bytes())?;
        Ok(header.source().map(|source| format!("{source} {}", header.destination().unwrap())))
    };
    let malformed =
        |line: &str| matches!(ends(line), Err::<_, ProxyProtocolError>(ProxyProtocolError::Malformed { .. }));
    assert_eq!(ends("TCP4 1.2.3.4 5.6.7.8 0 65535"), Ok(Some("1.2.3.4:0 5.6.7.8:65535".to_owned())));
    assert_eq!(ends("TCP6 2001:db8::1 ::1 1 2"), Ok(Some("[2001:db8::1]:1 [::1]:2".to_owned())));
    assert_eq!(parsed(b"PROXY UNKNOWN \xff\0\r\n"), Ok(ProxyHeader::unknown()));
    assert_eq!(ends("UNKNOWN"), Ok(None));
    assert_eq!(ends("UNKNOWN whatever it is"), Ok(None));
    for line in [
        "",
        "TCP4",
        "TCP5 1.2.3.4 5.6.7.8 1 2",
        "tcp4 1.2.3.4 5.6.7.8 1 2",
        "TCP4 1.2.3.4 5.6.7.8 1",
        "TCP4 1.2.3.4 5.6.7.8 1 2 3",
        "TCP4  1.2.3.4 5.6.7.8 1 2",
        "TCP4 1.2.3.4 5.6.7.8 1 2 ",
        "TCP4 1.2.3.4 5.6.7.8 01 2",
        "TCP4 1.2.3.4 5.6.7.8 +1 2",
        "TCP4 1.2.3.4 5.6.7.8 1 65536",
        "TCP4 1.2.3.4 5.6.7.8 1 -2",
        "TCP4 1.2.3.04 5.6.7.8 1 2",
        "TCP4 ::1 ::1 1 2",
        "TCP6 1.2.3.4 5.6.7.8 1 2",
        "TCP4 1.2.3.4 5.6.7.8 1 2\n",
        "UNKNOWNS",
    ] {
        assert!(malformed(line), "{line:?}: {:?}", ends(line));
    }
}

#[test]
fn a_line_has_107_bytes_and_not_one_more() {
    let line = |length: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(length - 16));
    assert!(parsed(line(107).as_bytes()).is_ok());
    assert_eq!(
        parsed(line(108).as_bytes()),
        Err(ProxyProtocolError::TooLong { what: "header", limit: 107, got: 108 })
    );
    assert_eq!(
        look(&line(108).as_bytes()[..107], 4096),
        Err(ProxyProtocolError::TooLong { what: "header", limit: 107, got: 107 })
    );
    assert_eq!(look(&line(108).as_bytes()[..106], 4096), Ok(Look::More));
}

#[test]
fn every_header_that_is_written_is_read_as_it_was() {
    let long = format!("unix:/{}", "p".repeat(107));
    let ends = [
        ("192.0.2.7:4711", "198.51.100.1:443"),
        ("[2001:db8::7]:4711", "[2001:db8::1]:443"),
        ("unix:/run/a.sock", "unix:@abstract"),
        (long.as_str(), "unix:/b"),
    ];
    let ssl =
        ProxySsl::new().with_version("TLSv1.3").with_verified_certificate("ada").with_value(0x23, "AES");
    for (source, destination) in ends {
        let plain = ProxyHeader::new(address(source), address(destination));
        let full = plain.clone().with_alpn("h2").with_authority("example.org").with_unique_id(vec![7; 128]);
        for header in [plain, full.with_ssl(&ssl).with_value(0xe0, "").with_checksum()] {
            assert_eq!(parsed(&header.encode_v2().unwrap()), Ok(header));
        }
    }
    assert!(parsed(&ProxyHeader::local().encode_v2().unwrap()).unwrap().is_local());
    assert_eq!(parsed(&ProxyHeader::unknown().encode_v1().unwrap()), Ok(ProxyHeader::unknown()));
    let mixed = ProxyHeader::new(address("192.0.2.7:1"), address("[::1]:2"));
    let read = parsed(&mixed.encode_v2().unwrap()).unwrap();
    assert_eq!(read.source(), Some(&address("[::ffff:192.0.2.7]:1")));
    assert_eq!(parsed(&mixed.encode_v1().unwrap()), Ok(read));
}

#[test]
fn a_header_that_cannot_be_is_not_written() {
    let too_long = ProxyHeader::new(address(&format!("unix:/{}", "p".repeat(108))), address("unix:/b"));
    assert_eq!(
        too_long.encode_v2(),
        Err(ProxyProtocolError::TooLong { what: "Unix path", limit: 108, got: 109 })
    );
    assert!(too_long.encode_v1().is_err() && ProxyHeader::local().encode_v1().is_err());
    let limit = |header: ProxyHeader| matches!(header.encode_v2(), Err(ProxyProtocolError::TooLong { .. }));
    assert!(limit(v4().with_unique_id(vec![0; 129])));
    assert!(limit(v4().with_value(0xe0, vec![0; 65_536])));
    assert!(limit(v4().with_value(0xe0, vec![0; 65_535])));
    assert!(
        limit(v4().with_ssl(&ProxySsl::new().with_value(0x22, vec![0; 70_000]))) || {
            // What does not fit is no header that anybody reads as something else.
            v4().with_ssl(&ProxySsl::new().with_value(0x22, vec![0; 70_000])).encode_v2().is_err()
        }
    );
    assert!(v4().with_value(3, "abcd").encode_v2().is_err(), "a checksum of one's own");
    let nested = v4().with_ssl(&ProxySsl::new().with_value(0x20, "\0\0\0\0\0"));
    assert_eq!(nested.encode_v2(), Err(ProxyProtocolError::Nested));
}

fn raw(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length, payload].concat()
}

#[test]
fn what_breaks_a_rule_of_version_2_is_refused() {
    let ends = [1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 1, 187];
    let with = |values: &[u8]| parsed(&raw(0x21, 0x11, &[&ends, values].concat()));
    assert_eq!(with(&[]).unwrap().source(), Some(&address("1.2.3.4:80")));
    assert!(parsed(&raw(0x21, 0x12, &ends)).unwrap().is_of_datagrams());
    assert_eq!(with(&[4, 0, 2, 9, 9]).unwrap().values(), [], "padding");
    for (header, why) in [
        (parsed(&raw(0x31, 0x11, &ends)), "version"),
        (parsed(&raw(0x11, 0x11, &ends)), "version"),
        (parsed(&raw(0x22, 0x11, &ends)), "neither LOCAL nor PROXY"),
        (parsed(&raw(0x21, 0x13, &ends)), "family"),
        (parsed(&raw(0x21, 0x41, &ends)), "family"),
        (parsed(&raw(0x21, 0x11, &ends[1..])), "shorter than its addresses"),
        (parsed(&raw(0x21, 0x21, &ends)), "shorter than its addresses"),
        (parsed(&raw(0x21, 0x31, &[b'x'; 215])), "shorter than its addresses"),
        (with(&[1]), "without its length"),
        (with(&[1, 0]), "without its length"),
        (with(&[1, 0, 2, 9]), "longer than the header"),
        (with(&[2, 0, 1, 0xff]), "no UTF-8"),
        (with(&[3, 0, 3, 0, 0, 0]), "not 4 bytes"),
        (with(&[3, 0, 4, 0, 0, 0, 0]), "checksum 00000000"),
        (with(&[0x20, 0, 4, 1, 0, 0, 0]), "shorter than its flags"),
        (with(&[0x20, 0, 7, 1, 0, 0, 0, 0, 0x21, 0]), "without its length"),
        (with(&[0x20, 0, 8, 1, 0, 0, 0, 0, 0x21, 0, 9]), "longer than the header"),
        (with(&[0x20, 0, 8, 1, 0, 0, 0, 0, 0x20, 0, 0]), "nested"),
    ] {
        let error = header.unwrap_err().to_string();
        assert!(error.contains(why), "{why}: {error}");
    }
}

#[test]
fn a_checksum_is_that_of_the_whole_header_and_one_bit_elsewhere_is_noticed() {
    let whole = v4().with_authority("example.org").with_checksum().encode_v2().unwrap();
    let at = whole.len() - 4;
    assert_eq!(whole[at..], crc32c([&whole[..at], &[0; 4]]).to_be_bytes());
    for place in 16..whole.len() {
        let mut broken = whole.to_vec();
        broken[place] ^= 4;
        match look(&broken, 4096) {
            Err(_) | Ok(Look::More) => {}
            // Another kind of value, or a padding, is a header without a checksum: nothing says that it should have one.
            Ok(Look::Header { header, .. }) => assert!(!header.was_checked(), "byte {place}"),
            other => panic!("byte {place}: {other:?}"),
        }
    }
    let twice = [&whole[..], &whole[at - 3..]].concat();
    let mut twice = twice;
    let length = u16::try_from(twice.len() - 16).unwrap();
    twice[14..16].copy_from_slice(&length.to_be_bytes());
    assert!(parsed(&twice).is_err());
}

#[test]
fn a_header_of_4096_bytes_is_read_and_a_longer_one_is_refused_by_its_length_alone() {
    let header = v4().with_value(0xe0, vec![1; 4096 - 16 - 12 - 3]);
    let whole = header.encode_v2().unwrap();
    assert_eq!((whole.len(), parsed(&whole)), (4096, Ok(header)));
    let longer = v4().with_value(0xe0, vec![1; 4096 - 16 - 12 - 2]).encode_v2().unwrap();
    assert_eq!(
        look(&longer[..16], 4096),
        Err(ProxyProtocolError::TooLong { what: "header", limit: 4096, got: 4097 })
    );
    assert_eq!(look(&longer[..15], 4096), Ok(Look::More));
}

#[test]
fn whatever_is_sent_is_a_header_an_error_or_something_else_and_the_same_however_it_is_split() {
    let whole = v4().with_ssl(&ProxySsl::new().with_version("TLSv1.3")).with_checksum().encode_v2().unwrap();
    let unix = ProxyHeader::new(address("unix:/a"), address("unix:@b")).encode_v2().unwrap();
    for original in [whole, unix, Bytes::from(V1)] {
        let attacks = (0..2_000).map(|seed| damaged(seed, &original)).chain(hostile_lengths(&original));
        for (seed, bytes) in attacks.enumerate() {
            let at_once = look(&bytes, 4096);
            // Byte by byte the first word that is not "more" is the last.
            let first =
                (0..=bytes.len()).map(|end| look(&bytes[..end], 4096)).find(|look| *look != Ok(Look::More));
            match (at_once, first) {
                (Ok(Look::More), None) => {}
                (Err(ProxyProtocolError::TooLong { .. }), Some(Err(ProxyProtocolError::TooLong { .. }))) => {}
                (all, first) => {
                    assert_eq!(Some(all), first, "seed {seed}: {:?}", bytes.escape_ascii().to_string())
                }
            }
        }
    }
    for seed in 0..2_000 {
        let mut numbers = Numbers::new(seed);
        let payload: Vec<u8> = (0..numbers.below(300)).map(|_| numbers.below(256) as u8).collect();
        let family = [0x11, 0x21, 0x31, 0x00, 0x12][numbers.below(5)];
        let _ = look(&raw(0x21, family, &payload), 4096);
    }
}

// ---- the stage ----

#[test]
fn active_comes_with_the_clients_address_and_behind_it_the_header_and_the_rest() {
    let whole = v4().with_authority("example.org").with_checksum().encode_v2().unwrap();
    for header in [&whole[..], V1.as_bytes()] {
        let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
        for byte in header {
            assert_eq!(notes.take(), [""; 0], "nothing before the header is whole");
            channel.write_inbound([*byte]);
        }
        channel.write_inbound("hello");
        assert_eq!(notes.take(), ["active 192.0.2.7:4711", "header", "read hello"]);
        let handle = channel.channel();
        assert_eq!(handle.peer_addr(), Some("192.0.2.7:4711".parse().unwrap()));
        assert_eq!(handle.local_addr(), Some("198.51.100.1:443".parse().unwrap()));
        assert_eq!(handle.wire_peer(), Some(address("10.0.0.1:5000")));
        assert_eq!(handle.wire_local(), Some(address("10.0.0.9:80")));
        assert!(handle.attribute::<ProxyHeader>().is_some());
        let handle = handle.clone();
        channel.close_by_peer();
        drop(channel);
        assert_eq!(notes.take(), ["inactive"]);
        assert_eq!(handle.peer_addr(), Some("192.0.2.7:4711".parse().unwrap()), "also behind the end");
    }
}

#[test]
fn a_local_connection_and_one_of_an_unknown_client_keep_their_addresses() {
    for header in [
        ProxyHeader::local().encode_v2(),
        ProxyHeader::unknown().encode_v2(),
        ProxyHeader::unknown().encode_v1(),
    ] {
        let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
        channel.write_inbound(header.unwrap());
        assert_eq!(notes.take(), ["active 10.0.0.1:5000", "header"]);
        assert_eq!(channel.channel().peer(), channel.channel().wire_peer());
    }
}

#[test]
fn who_is_not_trusted_is_closed_where_a_header_is_required_and_with_a_header_everywhere() {
    let trusted: TrustedNetworks = "10.0.0.0/8".parse().unwrap();
    let stage = || ProxyProtocol::from(trusted.clone());
    let untrusted = Some(ProxyProtocolError::Untrusted { peer: Some(address("192.0.2.1:5000")) });
    let (channel, notes) = between(stage(), "192.0.2.1:5000");
    assert_eq!(cause(&channel), untrusted);
    assert_eq!(notes.take(), ["error 192.0.2.1:5000 is no proxy that is trusted"]);
    let (channel, _) = between(stage(), "[::ffff:10.0.0.1]:5000");
    assert!(channel.is_open(), "a mapped address is the address");

    let v2 = v4().encode_v2().unwrap();
    for header in [V1.as_bytes(), &v2] {
        for piece in [1, header.len()] {
            let (mut channel, notes) = between(stage().optional(), "192.0.2.1:5000");
            assert_eq!(notes.take(), ["active 192.0.2.1:5000"]);
            header.chunks(piece).for_each(|piece| {
                channel.write_inbound(piece);
            });
            assert_eq!(cause(&channel), untrusted);
            assert!(notes.take().iter().all(|note| !note.starts_with("read")));
            assert_eq!(channel.channel().peer(), Some(address("192.0.2.1:5000")));
        }
    }
    let (mut channel, notes) = between(stage().optional(), "192.0.2.1:5000");
    channel.write_inbound("PRO").write_inbound("XIES").write_inbound(V1);
    let rest = format!("read {}", V1.escape_default());
    assert_eq!(notes.take(), ["active 192.0.2.1:5000", "read PROXIES", &rest], "only at the begin");
}

#[test]
fn a_peer_without_an_address_is_trusted_only_if_everyone_is() {
    let stages = |trusted| pipeline().filter(ProxyProtocol::from(trusted)).handle(|_, _| {});
    assert!(!EmbeddedChannel::new(stages(TrustedNetworks::loopback().and_unix_sockets())).is_open());
    assert!(EmbeddedChannel::new(stages(TrustedNetworks::everyone())).is_open());
}

#[test]
fn a_header_has_five_seconds_however_it_drips() {
    let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
    for byte in &V1.as_bytes()[..9] {
        channel.advance(Duration::from_millis(500)).write_inbound([*byte]);
    }
    assert!(channel.is_open());
    channel.advance(Duration::from_millis(500));
    let late = ProxyProtocolError::TooLate { deadline: Duration::from_secs(5), read: 9 };
    assert_eq!(cause(&channel), Some(late));
    assert_eq!(notes.take(), ["error no PROXY header within 5s, 9 bytes had come"]);

    let (mut channel, _) = between(everyone(), "10.0.0.1:5000");
    channel.write_inbound(V1).advance(Duration::from_secs(60));
    assert!(channel.is_open(), "the deadline is over with the header");
}

#[test]
fn where_no_header_is_required_silence_is_none_and_half_of_one_is_too_late() {
    let deadline = Duration::from_secs(1);
    let stage = || everyone().optional().deadline(deadline);
    for (first, told) in [("", None), ("PROX", Some("read PROX"))] {
        let (mut channel, notes) = between(stage(), "10.0.0.1:5000");
        channel.write_inbound(first).advance(deadline);
        let mut expected = vec!["active 10.0.0.1:5000"];
        expected.extend(told);
        assert_eq!(notes.take(), expected);
        channel.write_inbound("more");
        assert_eq!(notes.take(), ["read more"]);
    }
    let (mut channel, _) = between(stage(), "10.0.0.1:5000");
    channel.write_inbound("PROXY ").advance(deadline);
    assert_eq!(cause(&channel), Some(ProxyProtocolError::TooLate { deadline, read: 6 }));
}

#[test]
fn a_peer_that_ends_within_the_header_is_told_of_and_one_that_only_looked_is_not() {
    let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
    channel.write_inbound("PROXY T").close_by_peer();
    assert_eq!(notes.take(), ["error the peer sent no more after 7 bytes of a PROXY header"]);
    let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
    channel.close_by_peer();
    assert_eq!(notes.take(), [""; 0]);
    let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
    channel.write_inbound("PROXY T").close_input();
    assert_eq!(cause(&channel), Some(ProxyProtocolError::Cut { read: 7 }));
    assert_eq!(notes.take().len(), 1);
    let (mut channel, notes) = between(everyone().optional(), "10.0.0.1:5000");
    channel.write_inbound("PROX").close_by_peer();
    assert_eq!(notes.take(), ["active 10.0.0.1:5000", "read PROX", "inactive"]);
}

#[test]
fn the_header_is_read_while_nobody_asks_for_messages_and_what_is_behind_it_waits() {
    let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
    channel.channel().pause();
    channel.run().write_inbound(format!("{V1}hello"));
    assert_eq!(notes.take(), ["active 192.0.2.7:4711", "header"]);
    channel.channel().resume();
    channel.run();
    assert_eq!(notes.take(), ["read hello"]);
}

#[test]
fn nothing_is_written_before_the_header_and_whoever_tries_hears_of_it() {
    let (mut channel, _) = between(everyone(), "10.0.0.1:5000");
    let mut early = channel.channel().send("too early");
    channel.run();
    assert!(early.try_take().unwrap().is_err());
    channel.write_inbound(V1);
    channel.channel().write_and_flush("now");
    assert_eq!(channel.outbound_bytes(), b"now");
}

#[test]
fn what_comes_behind_an_error_reaches_nobody() {
    let (mut channel, notes) = between(everyone(), "10.0.0.1:5000");
    channel.write_inbound("PROXY nonsense\r\nhello").write_inbound("more");
    assert_eq!(notes.take().len(), 1);
    assert!(matches!(cause(&channel), Some(ProxyProtocolError::Malformed { .. })));
}

#[test]
fn a_filter_behind_the_header_judges_the_client_and_not_the_proxy() {
    let list = LiveAccessList::new(AccessList::new().deny("192.0.2.0/24").unwrap());
    let begin = || {
        let notes = Notes::default();
        let stages =
            pipeline().filter(everyone()).filter(AddressFilter::new(list.clone())).app(notes.clone());
        let mut channel = EmbeddedChannel::between(stages, None, Some(address("10.0.0.1:5000")));
        channel.write_inbound(format!("{V1}hello"));
        (channel, notes)
    };
    let (channel, notes) = begin();
    assert_eq!(notes.take(), [""; 0]);
    let Some(CloseCause::Fault(fault)) = channel.channel().close_cause() else { panic!("it is closed") };
    assert_eq!(fault.downcast_ref::<AddressRefused>().unwrap().peer, Some(address("192.0.2.7:4711")));
    list.replace(AccessList::new().deny("10.0.0.0/8").unwrap());
    let (channel, notes) = begin();
    assert!(channel.is_open());
    assert_eq!(notes.take(), ["active 192.0.2.7:4711", "header", "read hello"]);
}

#[test]
fn a_header_is_the_first_that_a_client_says_and_the_server_understands_it() {
    let here = "192.0.2.7:4711";
    for stage in [
        SendProxyHeader::v2(&v4()).unwrap(),
        SendProxyHeader::v1(&v4()).unwrap(),
        SendProxyHeader::itself_v1(),
        SendProxyHeader::itself_v2(),
    ] {
        let stages = pipeline().filter(stage).serve(async |mut peer: netwright_core::Peer| {
            peer.write_and_flush("hello").await?;
            peer.read().await.map(drop)
        });
        let mut client =
            EmbeddedChannel::between(stages, Some(address(here)), Some(address("198.51.100.1:443")));
        let sent = client.outbound_bytes();
        let (mut server, notes) = between(everyone(), "10.0.0.1:5000");
        server.write_inbound(&sent[..]);
        assert_eq!(notes.take(), ["active 192.0.2.7:4711", "header", "read hello"]);
    }
}

//! How connections end: close_notify in both directions, half-closure, truncation.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{CloseCause, Outgoing, WriteError};
use netwright_tls::{Acceptor, Connector, Roots, Tls, TlsError};

/// Ends that may go on reading when the other one has ended its output.
fn half_closing() -> (End, End) {
    let acceptor = Acceptor::builder().certificate(certificate()).half_closure(true).build().unwrap();
    let connector =
        Connector::builder().roots(Roots::of(certificate()).unwrap()).half_closure(true).build().unwrap();
    let (mut client, mut server) = pair_of(&acceptor, &connector);
    pump(&mut client, &mut server);
    (client, server)
}

#[test]
fn a_close_says_so_first_and_the_peer_closes_in_order() {
    for version in VERSIONS {
        let (acceptor, connector) = of_version(version);
        let (mut client, mut server) = pair_of(&acceptor, &connector);
        pump(&mut client, &mut server);
        client.send("last words");
        drop(client.channel.channel().close());
        client.channel.run();
        assert!(!client.channel.is_open());
        pump(&mut client, &mut server);
        assert_eq!(server.received(), b"last words");
        assert!(!server.channel.is_open());
        assert!(matches!(server.channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
        assert!(!server.log.has("error"), "{:?}", server.log.lines());
        assert!(server.log.has("inactive: closed by the peer"));
    }
}

#[test]
fn a_close_that_waits_for_the_flush_also_waits_for_the_handshake() {
    let (mut client, mut server) = pair();
    client.send("before the handshake");
    drop(client.channel.channel().close_when_flushed());
    client.channel.run();
    assert!(client.channel.is_open());
    pump(&mut client, &mut server);
    assert!(!client.channel.is_open());
    assert_eq!(server.received(), b"before the handshake");
    assert!(server.log.has("inactive: closed by the peer"), "{:?}", server.log.lines());
}

#[test]
fn output_that_is_shut_down_is_input_that_ends_and_the_other_direction_goes_on() {
    for (mut one, mut other) in [half_closing(), half_closing()].into_iter().enumerate().map(
        |(index, (a, b))| {
            if index == 0 { (a, b) } else { (b, a) }
        },
    ) {
        one.send("all that I have");
        let mut done = one.channel.channel().shut_down_output_tracked();
        pump(&mut one, &mut other);
        assert!(matches!(done.try_take(), Some(Ok(()))));
        assert_eq!(other.received(), b"all that I have");
        assert!(other.log.has("input closed") && other.channel.is_open());
        other.channel.close_input(); // the FIN behind it says nothing new
        assert_eq!(other.log.count("input closed"), 1);
        assert!(!other.log.has("error"), "{:?}", other.log.lines());

        other.send("and here is more");
        pump(&mut one, &mut other);
        assert_eq!(one.received(), b"and here is more");
        let mut late = one.channel.channel().send(Bytes::from("too late"));
        one.channel.run();
        assert!(matches!(late.try_take(), Some(Err(WriteError::OutputShutDown))));
    }
}

#[test]
fn a_shutdown_of_output_before_the_handshake_comes_after_what_was_written() {
    let acceptor = Acceptor::builder().certificate(certificate()).half_closure(true).build().unwrap();
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor));
    client.send("everything");
    let mut done = client.channel.channel().shut_down_output_tracked();
    pump(&mut client, &mut server);
    assert!(matches!(done.try_take(), Some(Ok(()))));
    assert_eq!(server.received(), b"everything");
    assert!(server.log.has("input closed"));
}

#[test]
fn an_end_without_close_notify_is_told_as_truncation() {
    let (mut client, mut server) = open_pair();
    client.send("part one");
    pump(&mut client, &mut server);
    server.channel.close_by_peer();
    assert_eq!(server.received(), b"part one");
    assert_eq!(
        server.log.lines().last().unwrap(),
        "inactive: unhandled error: the peer ended the connection without a close_notify: there may have been more"
    );

    let (mut client, mut server) = half_closing();
    client.send("part one");
    pump(&mut client, &mut server);
    server.channel.close_input();
    let lines = server.log.lines();
    assert!(lines[lines.len() - 2].starts_with("error: the peer ended the connection without"), "{lines:?}");
    assert_eq!(lines[lines.len() - 1], "input closed");
}

#[test]
fn an_end_within_a_record_says_how_much_of_it_came() {
    let (mut client, mut server) = open_pair();
    client.send("cut off");
    let record = client.channel.outbound_bytes();
    server.channel.write_inbound(&record[..record.len() - 3]).close_by_peer();
    assert!(server.received().is_empty());
    let expected = format!("within a TLS record, of which {} bytes came", record.len() - 3);
    assert!(server.log.has(&expected), "{:?}", server.log.lines());
}

#[test]
fn truncation_that_nobody_takes_care_of_closes_the_channel_with_it() {
    let acceptor = Acceptor::builder().certificate(certificate()).half_closure(true).build().unwrap();
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
    let mut server: End = End::with(Tls::server(&acceptor), Default::default(), false);
    pump(&mut client, &mut server);
    server.channel.close_input();
    let Some(CloseCause::Fault(fault)) = server.channel.channel().close_cause() else { panic!("no fault") };
    assert!(matches!(fault.downcast_ref(), Some(TlsError::Truncated { unfinished: 0 })));
}

#[test]
fn nothing_is_read_behind_a_close_notify() {
    let (mut client, mut server) = half_closing();
    client.channel.channel().shut_down_output();
    let mut bytes = client.channel.run().outbound_bytes();
    bytes.extend_from_slice(&[23, 3, 3, 0, 5, 1, 2, 3, 4, 5]);
    server.channel.write_inbound(bytes).write_inbound(b"more");
    assert!(server.log.has("input closed") && !server.log.has("error"), "{:?}", server.log.lines());
    assert!(server.channel.is_open());
}

#[test]
fn what_came_together_with_the_close_notify_is_still_answered() {
    use netwright_core::{EmbeddedChannel, pipeline};
    struct Echo;
    impl netwright_core::Application for Echo {
        type Read = bytes::BytesMut;
        type Write = Outgoing;
        fn read(&mut self, cx: &mut netwright_core::AppContext<'_, Self>, bytes: bytes::BytesMut) {
            cx.write(bytes.freeze());
        }
        fn read_complete(&mut self, cx: &mut netwright_core::AppContext<'_, Self>) {
            cx.flush();
        }
    }
    let mut server = EmbeddedChannel::new(pipeline().add(Tls::server(&acceptor())).app(Echo));
    let connector =
        Connector::builder().roots(Roots::of(certificate()).unwrap()).half_closure(true).build().unwrap();
    let mut client: End = End::new(Tls::client(&connector, "localhost").unwrap());
    for _ in 0..3 {
        server.write_inbound(client.channel.outbound_bytes());
        client.channel.write_inbound(server.outbound_bytes());
    }
    client.send("the last question");
    client.channel.channel().shut_down_output();
    server.write_inbound(client.channel.run().outbound_bytes());
    assert!(!server.is_open());
    client.channel.write_inbound(server.outbound_bytes());
    assert_eq!(client.received(), b"the last question");
    assert!(client.log.has("input closed"));
}

/// A server that has a long reply to send when its client says that it sends no more, which ends the connection.
fn answering() -> (End, End) {
    let connector =
        Connector::builder().roots(Roots::of(certificate()).unwrap()).half_closure(true).build().unwrap();
    let (mut client, mut server) = pair_of(&acceptor(), &connector);
    pump(&mut client, &mut server);
    server.channel.block_output(true);
    server.send(vec![7; 5_000_000]);
    client.channel.channel().shut_down_output();
    server.channel.write_inbound(client.channel.run().outbound_bytes());
    assert!(server.channel.is_open());
    (client, server)
}

#[test]
fn a_close_notify_ends_the_channel_when_the_answers_are_taken() {
    let (mut client, mut server) = answering();
    server.channel.advance(std::time::Duration::from_millis(59_999));
    assert!(server.channel.is_open());
    server.channel.block_output(false);
    pump(&mut client, &mut server);
    assert!(client.received() == vec![7; 5_000_000]);
    assert!(matches!(server.channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
    assert!(client.log.has("input closed"), "{:?}", client.log.lines());
}

#[test]
fn answers_that_are_not_taken_in_time_do_not_keep_a_connection_whose_peer_has_ended() {
    let (_client, mut server) = answering();
    server.channel.advance(std::time::Duration::from_millis(59_999));
    assert!(server.channel.is_open());
    server.channel.advance(std::time::Duration::from_millis(1));
    assert!(matches!(server.channel.channel().close_cause(), Some(CloseCause::PeerClosed)));
}

#[test]
fn half_closure_is_as_the_channel_has_it_unless_tls_is_told_otherwise() {
    for (channel, tls, lives) in
        [(true, None, true), (false, None, false), (true, Some(false), false), (false, Some(true), true)]
    {
        let builder = Acceptor::builder().certificate(certificate());
        let builder = tls.into_iter().fold(builder, |builder, allowed| builder.half_closure(allowed));
        let mut settings = netwright_core::HostSettings::default();
        settings.half_closure = Some(channel);
        let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
        let mut server: End = End::with(Tls::server(&builder.build().unwrap()), settings, true);
        pump(&mut client, &mut server);
        client.channel.channel().shut_down_output();
        pump(&mut client, &mut server);
        assert_eq!(
            (server.channel.is_open(), server.log.has("input closed")),
            (lives, lives),
            "{channel} {tls:?}"
        );
    }
}

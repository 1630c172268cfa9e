//! Datagrams go out and come in: as they are, one by one, connected or not.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{ChannelState, CloseCause, Envelope, WriteError};
use netwright_transport::{DatagramOptions, DatagramSocket, Datagrams};
use socket2::SockRef;

#[test]
fn a_bound_channel_answers_everybody_where_they_are() {
    let echo = bind(echo());
    let peers = [peer(), peer(), peer()];
    for (number, peer) in peers.iter().enumerate() {
        peer.send_to(format!("from {number}").as_bytes(), echo.addr()).unwrap();
    }
    for (number, peer) in peers.iter().enumerate() {
        expect(peer, echo.addr(), format!("from {number}").as_bytes());
    }
    let mut from = [(); 3].map(|()| echo.events.read().from);
    let mut peers = peers.map(|peer| peer.local_addr().unwrap().to_string());
    from.sort();
    peers.sort();
    assert_eq!(from, peers);
    assert_eq!(echo.channel.peer(), None);
    assert_eq!(echo.channel.state(), ChannelState::Active);
    echo.assert_quiet();
}

#[test]
fn an_empty_datagram_is_one_too_in_both_directions() {
    let echo = bind(echo());
    let peer = peer();
    for bytes in [&b""[..], b"x", b"", b""] {
        peer.send_to(bytes, echo.addr()).unwrap();
        assert_eq!(echo.events.read().bytes, bytes);
        expect(&peer, echo.addr(), bytes);
    }
}

#[test]
fn a_connected_channel_sends_plain_bytes_and_hears_its_peer_alone() {
    let (peer, stranger) = (peer(), peer());
    let there = peer.local_addr().unwrap();
    let channel = connect(probe(), there);
    assert_eq!(channel.channel.peer_addr(), Some(there));
    for bytes in ["hello", "", "again"] {
        channel.channel.send(Bytes::from(bytes)).wait().unwrap();
        expect(&peer, channel.addr(), bytes.as_bytes());
    }
    stranger.send_to(b"may I?", channel.addr()).unwrap();
    peer.send_to(b"answer", channel.addr()).unwrap();
    let received = channel.events.read();
    assert_eq!((&received.bytes[..], received.from), (&b"answer"[..], there.to_string()));
    channel.settle();
    channel.events.nothing();
}

#[test]
fn two_channels_of_ours_talk_over_ipv6_too() {
    let (builder, _group) = builder();
    let (application, events) = echo();
    let echoes = datagrams(builder, application);
    let echo = match echoes.bind("[::1]:0").wait() {
        Ok(echo) => echo,
        Err(error) => return println!("skipped: {error}"),
    };
    let client = connect(probe(), echo.local().unwrap());
    client.channel.write_and_flush(Bytes::from("six"));
    assert_eq!(client.events.read().bytes, b"six");
    events.active();
    assert_eq!(events.read().from, client.addr().to_string());
}

#[test]
fn datagrams_of_every_size_arrive_as_they_were() {
    let echo = bind(echo());
    let peer = peer();
    for size in [1, 63, 1472, 1473, 2047, 2048, 2049, 9000, 32_768, 65_507] {
        let bytes: Vec<u8> = (0..size).map(|position| (position % 251) as u8).collect();
        peer.send_to(&bytes, echo.addr()).unwrap();
        expect(&peer, echo.addr(), &bytes);
    }
}

#[test]
fn a_name_is_resolved_to_bind_and_to_connect() {
    let echo = bind_with(echo(), "localhost:0", |builder| builder);
    let client = connect(probe(), format!("localhost:{}", echo.addr().port()));
    client.channel.write_and_flush(Bytes::from("by name"));
    assert_eq!(client.events.read().bytes, b"by name");
}

#[test]
fn several_loops_share_a_port_and_each_sender_stays_with_one() {
    let group = netwright_transport::event_loops(2).unwrap();
    let (application, events) = echo();
    let echoes = datagrams(Datagrams::builder().group(group.clone()), application);
    let channels = echoes.bind_shared(ANY_PORT).wait().unwrap();
    assert_eq!(channels.len(), 2);
    assert_eq!(channels[0].local(), channels[1].local());
    let address = channels[0].local_addr().unwrap();
    for _ in 0..32 {
        let peer = peer();
        for bytes in ["one", "two"] {
            peer.send_to(bytes.as_bytes(), address).unwrap();
            expect(&peer, address, bytes.as_bytes());
        }
    }
    let received = channels.iter().map(|channel| DatagramSocket::of(channel).unwrap().figures().received);
    let received: Vec<_> = received.collect();
    assert_eq!(received.iter().sum::<u64>(), 64);
    assert!(received.iter().all(|count| count % 2 == 0), "{received:?}");
    drop(events);
}

#[test]
fn options_hold_and_what_cannot_work_is_refused_before_anything_is_bound() {
    let options = DatagramOptions::new().recv_buffer_size(100_000).broadcast(true).hop_limit(9);
    let channel = bind_with(probe(), ANY_PORT, |builder| builder.options(options));
    assert!(channel.channel.local_addr().unwrap().port() > 0);

    let (builder, _group) = builder();
    let (application, _) = probe();
    let refused =
        builder.receive_max(0).pipeline(move || netwright_core::pipeline().app(application.clone()));
    assert_eq!(refused.unwrap_err().to_string(), "receive_max is 0, but must be 1 to 16777216");
    let taken = std::net::UdpSocket::bind(ANY_PORT).unwrap();
    let address = taken.local_addr().unwrap();
    assert!(!SockRef::from(&taken).reuse_port().unwrap());
    let (builder, _group) = crate::support::builder();
    let error = datagrams(builder, probe().0).bind(address).wait().unwrap_err();
    assert_eq!(error.to_string(), format!("cannot listen on {address}: the address is in use"));
}

#[test]
fn a_loop_that_cannot_host_sockets_says_so() {
    let group = netwright_core::EventLoopGroup::builder().loops(1).build().unwrap();
    let all = datagrams(Datagrams::builder().group(group), probe().0);
    for error in [
        all.bind(ANY_PORT).wait().unwrap_err().to_string(),
        all.connect(dead_port()).wait().unwrap_err().to_string(),
    ] {
        assert!(error.contains("datagram channels need a loop with a readiness driver"), "{error}");
    }
}

#[test]
fn only_ports_can_be_shared() {
    let group = netwright_transport::event_loops(2).unwrap();
    let all = datagrams(Datagrams::builder().group(group), probe().0);
    let error = all.bind_shared("unix:@netwright-shared").wait().unwrap_err();
    let expected = "unix:@netwright-shared cannot be shared by several loops: only ports can";
    assert_eq!(error.to_string(), expected);
    let error = all.bind("local:somewhere").wait().unwrap_err();
    assert!(error.to_string().contains("it lies within this process"), "{error}");
}

#[test]
fn closing_ends_the_channel_once_and_frees_its_port() {
    let running = bind(probe());
    let address = running.addr();
    running.channel.close().wait().unwrap();
    assert!(matches!(running.events.inactive(), CloseCause::Requested));
    becomes_free(address);
    let error = running.channel.send(to(address, b"late")).wait().unwrap_err();
    assert!(matches!(error, WriteError::Closed(CloseCause::Requested)), "{error}");
    running.channel.close().wait().unwrap();
    running.settle();
    running.events.nothing();
    running.assert_quiet();
}

#[test]
fn what_is_flushed_goes_out_before_a_close_that_waits_for_it() {
    let running = bind(probe());
    let peer = peer();
    for number in 0..100_u8 {
        running.channel.write(to(peer.local_addr().unwrap(), &[number]));
    }
    running.channel.flush();
    running.channel.close_when_flushed().wait().unwrap();
    for number in 0..100_u8 {
        expect(&peer, running.addr(), &[number]); // known also after the end
    }
}

#[test]
fn a_shutdown_of_the_loop_closes_the_channel() {
    let running = bind(probe());
    let address = running.addr();
    running.group.shutdown_gracefully(std::time::Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert!(matches!(running.events.inactive(), CloseCause::ShutDown));
    std::net::UdpSocket::bind(address).unwrap();
}

#[test]
fn a_write_that_is_cancelled_before_its_flush_is_not_sent() {
    let running = bind(probe());
    let peer = peer();
    let there = peer.local_addr().unwrap();
    let cancelled = running.channel.write_tracked(to(there, b"never"));
    assert!(cancelled.cancel());
    running.channel.send(Envelope::to(there, "sent")).wait().unwrap();
    expect(&peer, running.addr(), b"sent");
}

//! Unix datagram sockets: by path and by name, with descriptors.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{Address, Envelope, WriteError};
use netwright_transport::DatagramError;
use std::{
    fs::File,
    io::{Read, Seek, Write},
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    path::PathBuf,
};

/// A path that nobody else uses, removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("netwright-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn address(&self, name: &str) -> String {
        format!("unix:{}", self.path(name).display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn abstract_name(name: &str) -> String {
    format!("unix:@netwright-{}-{name}", std::process::id())
}

#[test]
fn a_channel_at_a_path_answers_peers_with_a_path_and_its_file_goes_with_it() {
    let scratch = Scratch::new("path");
    let echo = bind_with(echo(), &scratch.address("echo"), |builder| builder);
    assert_eq!(echo.channel.local().unwrap().to_string(), scratch.address("echo"));
    let peer = UnixDatagram::bind(scratch.path("peer")).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    for bytes in ["hello", ""] {
        peer.send_to(bytes.as_bytes(), scratch.path("echo")).unwrap();
        let mut room = [0; 64];
        assert_eq!(peer.recv(&mut room).unwrap(), bytes.len());
        assert_eq!(echo.events.read().from, scratch.address("peer"));
    }
    echo.channel.close().wait().unwrap();
    assert!(!scratch.path("echo").exists());
}

#[test]
fn a_file_that_somebody_else_put_in_its_place_is_left_alone() {
    let scratch = Scratch::new("replaced");
    let channel = bind_with(probe(), &scratch.address("x"), |builder| builder);
    std::fs::remove_file(scratch.path("x")).unwrap();
    let _other = UnixDatagram::bind(scratch.path("x")).unwrap();
    channel.channel.close().wait().unwrap();
    assert!(scratch.path("x").exists());
}

#[test]
fn channels_with_abstract_names_talk_and_a_client_is_named_by_the_system() {
    let name = abstract_name("echo");
    let echo = bind_with(echo(), &name, |builder| builder);
    let client = connect(probe(), &name);
    assert_eq!(client.channel.peer().unwrap().to_string(), name);
    for bytes in ["one", "", "two"] {
        client.channel.send(Bytes::from(bytes)).wait().unwrap();
        assert_eq!(client.events.read().bytes, bytes.as_bytes());
    }
    assert!(echo.events.read().from.starts_with("unix:@"));
    client.assert_quiet();
}

#[test]
fn a_sender_without_a_name_is_heard_and_cannot_be_answered() {
    let name = abstract_name("unnamed");
    let echo = bind_with(echo(), &name, |builder| builder);
    let peer = UnixDatagram::unbound().unwrap();
    let address = SocketAddr::from_abstract_name(name.strip_prefix("unix:@").unwrap()).unwrap();
    peer.send_to_addr(b"who am I?", &address).unwrap();
    assert_eq!(echo.events.read().from, "unix:(unnamed)");
    let nobody = Address::Unix(netwright_core::UnixName::Unnamed);
    let error = echo.channel.send(Envelope::to(nobody, "x")).wait().unwrap_err();
    assert!(error.to_string().contains("is no address that a datagram can be sent to"), "{error}");
}

#[test]
fn a_receiver_whose_queue_is_full_is_waited_for_without_spinning_and_nothing_is_lost() {
    let scratch = Scratch::new("full");
    let slow = UnixDatagram::bind(scratch.path("slow")).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    let target: Address = scratch.address("slow").parse().unwrap();
    let unconnected = bind_with(probe(), &abstract_name("full"), |builder| builder);
    let connected = connect(probe(), &target);
    let total = 500_u32; // many more than the system queues
    for sender in [&unconnected.channel, &connected.channel] {
        for number in 0..total {
            sender.write(Envelope::to(target.clone(), number.to_be_bytes().to_vec()));
        }
        let mut last = sender.send(Envelope::to(target.clone(), "end"));
        for number in 0..total {
            let mut room = [0; 64];
            assert_eq!(slow.recv(&mut room).unwrap(), 4);
            assert_eq!(room[..4], number.to_be_bytes());
        }
        assert_eq!(slow.recv(&mut [0; 64]).unwrap(), 3);
        last.wait().unwrap();
    }
    unconnected.assert_quiet();
    connected.assert_quiet();
}

#[test]
fn a_peer_that_is_not_there_fails_the_write_and_not_the_channel() {
    let scratch = Scratch::new("gone");
    let sender = bind_with(probe(), &abstract_name("gone"), |builder| builder);
    let target: Address = scratch.address("nobody").parse().unwrap();
    let error = sender.channel.send(Envelope::to(target.clone(), "x")).wait().unwrap_err();
    let WriteError::Fault(fault) = &error else { panic!("expected a fault, got {error}") };
    assert!(
        matches!(fault.downcast_ref(), Some(DatagramError::Refused { to: Some(to), .. }) if *to == target)
    );
    // A file without a socket behind it refuses.
    drop(UnixDatagram::bind(scratch.path("nobody")).unwrap());
    sender.channel.send(Envelope::to(target, "x")).wait().unwrap_err();
    sender.settle();
    sender.events.nothing();
}

#[test]
fn descriptors_pass_between_channels_and_work_on_the_other_side() {
    let name = abstract_name("descriptors");
    let receiver = bind_with(probe(), &name, |builder| builder.descriptors(2));
    let sender = connect(probe(), &name);
    let scratch = Scratch::new("descriptors");
    let mut file = File::create_new(scratch.path("file")).unwrap();
    file.write_all(b"what is in the file").unwrap();
    let open = || File::open(scratch.path("file")).unwrap();
    let envelope = Envelope::new("look").with_descriptor(open()).with_descriptor(open());
    sender.channel.write(Bytes::from("before"));
    sender.channel.write(envelope);
    sender.channel.send(Bytes::from("after")).wait().unwrap();

    assert_eq!(receiver.events.read().descriptors.len(), 0);
    let received = receiver.events.read();
    assert_eq!(received.bytes, b"look");
    assert_eq!(received.descriptors.len(), 2);
    for descriptor in received.descriptors {
        let flags = rustix::io::fcntl_getfd(&descriptor).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
        let (mut file, mut text) = (File::from(descriptor), String::new());
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "what is in the file");
    }
    assert_eq!(receiver.events.read().bytes, b"after");
}

#[test]
fn more_descriptors_than_asked_for_drop_the_datagram_and_none_stays_open() {
    for (allowed, sent) in [(1, 2), (2, 3), (1, 250), (0, 3)] {
        let name = abstract_name(&format!("too-many-{allowed}-{sent}"));
        let receiver = bind_with(probe(), &name, |builder| builder.descriptors(allowed));
        let sender = connect(probe(), &name);
        let (mut reader, writer) = std::io::pipe().unwrap();
        let mut envelope = Envelope::new("take these");
        for _ in 0..sent {
            envelope = envelope.with_descriptor(writer.try_clone().unwrap());
        }
        drop(writer);
        sender.channel.send(envelope).wait().unwrap();
        if allowed > 0 {
            match receiver.events.next() {
                Seen::Truncated(truncated) => assert!(truncated.descriptors),
                other => panic!("expected the event, got {other:?}"),
            }
        } else {
            let received = receiver.events.read();
            assert!(
                received.descriptors.is_empty(),
                "they were not asked for, and the system has closed them"
            );
        }
        sender.settle();
        // The pipe ends when the last descriptor of its other end is closed.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "{allowed} allowed, {sent} sent");
    }
}

#[test]
fn the_system_tells_who_sent_a_datagram_with_and_without_descriptors() {
    for allowed in [0, 1] {
        let name = abstract_name(&format!("credentials-{allowed}"));
        let receiver = bind_with(probe(), &name, |builder| builder.credentials(true).descriptors(allowed));
        let sender = connect(probe(), &name);
        sender.channel.write(Bytes::from("me"));
        let envelope = Envelope::new("look").with_descriptor(File::open("/dev/null").unwrap());
        sender.channel.send(envelope).wait().unwrap();
        for descriptors in [0, allowed] {
            let received = receiver.events.read();
            let sent_by = received.credentials.expect("it was asked for");
            assert_eq!(sent_by.pid, Some(std::process::id()));
            assert_eq!(sent_by.uid, rustix::process::getuid().as_raw());
            assert_eq!(received.descriptors.len(), descriptors);
        }
        let many = Envelope::new("two").with_descriptor(File::open("/dev/null").unwrap());
        let many = many.with_descriptor(File::open("/dev/null").unwrap());
        sender.channel.send(many).wait().unwrap();
        match (allowed, receiver.events.next()) {
            (0, Seen::Read(received)) => assert!(received.descriptors.is_empty()),
            (1, Seen::Truncated(truncated)) => assert!(truncated.descriptors),
            (_, other) => panic!("{allowed} allowed, got {other:?}"),
        }
    }
}

#[test]
fn more_descriptors_than_the_system_passes_fail_the_write() {
    let name = abstract_name("far-too-many");
    let _receiver = bind_with(probe(), &name, |builder| builder.descriptors(1));
    let sender = connect(probe(), &name);
    let file = File::open("/dev/null").unwrap();
    let mut envelope = Envelope::new("x");
    for _ in 0..254 {
        envelope = envelope.with_descriptor(file.try_clone().unwrap());
    }
    sender.channel.send(envelope).wait().unwrap_err();
    sender.channel.send(Bytes::from("fine")).wait().unwrap();
}

#[test]
fn a_longer_datagram_than_udp_has_passes_if_it_is_asked_for() {
    let name = abstract_name("long");
    let receiver = bind_with(probe(), &name, |builder| builder.receive_max(100_000));
    let options = netwright_transport::DatagramOptions::new().send_buffer_size(400_000);
    let sender = connect_with(probe(), &name, |builder| builder.options(options));
    sender.channel.send(Bytes::from(vec![5; 100_000])).wait().unwrap();
    let received = receiver.events.read();
    assert!(received.bytes.len() == 100_000 && received.bytes.iter().all(|&byte| byte == 5));
    sender.channel.send(Bytes::from(vec![5; 100_001])).wait().unwrap();
    assert!(matches!(receiver.events.next(), Seen::Truncated(truncated) if truncated.length == 100_001));
}

#[test]
fn a_file_that_a_dead_process_left_is_replaced_and_what_is_no_socket_is_not() {
    let scratch = Scratch::new("stale");
    drop(UnixDatagram::bind(scratch.path("x")).unwrap());
    assert!(scratch.path("x").exists());
    let echo = bind_with(echo(), &scratch.address("x"), |builder| builder);
    let client = connect(probe(), scratch.address("x"));
    client.channel.write_and_flush(Bytes::from("new here"));
    assert_eq!(client.events.read().bytes, b"new here");
    drop(echo);

    std::fs::write(scratch.path("file"), "precious").unwrap();
    let (builder, _group) = builder();
    let error = datagrams(builder, probe().0).bind(scratch.address("file")).wait().unwrap_err();
    assert!(error.to_string().contains("no socket, and it is left alone"), "{error}");
    assert_eq!(std::fs::read(scratch.path("file")).unwrap(), b"precious");
}

#[test]
fn a_taken_path_is_refused_and_stays() {
    let scratch = Scratch::new("taken");
    let _taken = UnixDatagram::bind(scratch.path("x")).unwrap();
    let (builder, _group) = builder();
    let error = datagrams(builder, probe().0).bind(scratch.address("x")).wait().unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {}: the address is in use", scratch.address("x"))
    );
    assert!(scratch.path("x").exists());
}

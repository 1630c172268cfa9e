//! Files through TLS: read in pieces, as there is room.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{CloseCause, Envelope, FileRegion, WriteError};
use netwright_tls::Tls;
use std::{fs, io::Write, path::PathBuf};

pub(crate) struct Temporary(pub(crate) PathBuf);

impl Temporary {
    pub(crate) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("netwright-tls-{}-{name}", std::process::id())))
    }
    pub(crate) fn write(&self, content: impl AsRef<[u8]>) {
        let mut file = fs::File::create(&self.0).unwrap();
        file.write_all(content.as_ref()).unwrap();
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn ends() -> (End, End) {
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor()));
    pump(&mut client, &mut server);
    (client, server)
}

#[test]
fn a_file_between_bytes_arrives_in_order_and_only_as_much_is_read_as_there_is_room_for() {
    let content: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    let file = Temporary::new("file");
    file.write(&content);
    let (mut client, mut server) = ends();
    let mut region = FileRegion::whole(fs::File::open(&file.0).unwrap()).unwrap();
    let progress = region.progress();
    server.channel.block_output(true);
    server.send("before ");
    let mut done = server.channel.channel().send(region);
    server.send(" after");
    server.channel.run();
    assert!(progress.sent() <= 262_144, "{} bytes were read though nobody takes them", progress.sent());
    assert!(!done.is_done());
    server.channel.block_output(false);
    pump(&mut client, &mut server);
    assert!(matches!(done.try_take(), Some(Ok(()))));
    let expected = [b"before ".as_slice(), &content, b" after"].concat();
    assert!(client.received() == expected);
}

#[test]
fn a_file_that_is_shorter_than_promised_fails_its_write() {
    let file = Temporary::new("short");
    file.write("only this");
    let (mut client, mut server) = ends();
    let region = FileRegion::new(fs::File::open(&file.0).unwrap(), 0, 100);
    let mut done = server.channel.channel().send(region);
    pump(&mut client, &mut server);
    assert!(matches!(done.try_take(), Some(Err(WriteError::File(_)))));
}

#[test]
fn a_close_that_waits_for_the_flush_waits_for_the_whole_file() {
    let file = Temporary::new("whole");
    file.write(vec![9; 500_000]);
    let (mut client, mut server) = ends();
    server.channel.block_output(true);
    server.channel.channel().write_and_flush(FileRegion::whole(fs::File::open(&file.0).unwrap()).unwrap());
    drop(server.channel.channel().close_when_flushed());
    server.channel.run();
    assert!(server.channel.is_open());
    server.channel.block_output(false);
    pump(&mut client, &mut server);
    assert_eq!(client.received().len(), 500_000);
    assert!(!server.channel.is_open());
    assert!(client.log.has("inactive: closed by the peer"), "{:?}", client.log.lines());
}

#[test]
fn what_has_a_target_of_its_own_is_refused() {
    let (mut client, mut server) = ends();
    let here: std::net::SocketAddr = "127.0.0.1:1".parse().unwrap();
    let mut refused = server.channel.channel().send(Envelope::to(here, "x"));
    let mut fine = server.channel.channel().send(Envelope::new(Bytes::from("y")));
    pump(&mut client, &mut server);
    assert!(matches!(refused.try_take(), Some(Err(WriteError::Fault(_)))));
    assert!(matches!(fine.try_take(), Some(Ok(()))));
    assert_eq!(client.received(), b"y");
}

#[test]
fn a_file_goes_on_though_much_that_was_written_behind_it_waits() {
    let file = Temporary::new("blocked");
    file.write(vec![1; 700_000]);
    let (mut client, mut server) = ends();
    server.channel.block_output(true);
    server.channel.channel().write_and_flush(FileRegion::whole(fs::File::open(&file.0).unwrap()).unwrap());
    server.send(vec![2; 200_000]); // above the high water mark
    server.channel.run();
    assert!(!server.channel.channel().is_writable());
    server.channel.block_output(false);
    pump(&mut client, &mut server);
    let received = client.received();
    assert!(
        received.len() == 900_000
            && received[..700_000] == vec![1; 700_000]
            && received[700_000..] == vec![2; 200_000]
    );
    assert!(server.channel.channel().is_writable());
}

#[test]
fn a_huge_message_is_encrypted_as_it_is_sent() {
    let (mut client, mut server) = ends();
    server.channel.block_output(true);
    let mut done = server.channel.channel().send(Bytes::from(vec![3; 5_000_000]));
    server.channel.run();
    assert!(!server.channel.channel().is_writable() && !done.is_done());
    server.channel.block_output(false);
    pump(&mut client, &mut server);
    assert!(matches!(done.try_take(), Some(Ok(()))));
    assert!(client.received() == vec![3; 5_000_000]);
    assert!(server.channel.channel().is_writable());

    server.channel.block_output(true);
    let mut done = server.channel.channel().send(Bytes::from(vec![3; 5_000_000]));
    server.channel.run().close_by_peer();
    assert!(matches!(done.try_take(), Some(Err(WriteError::Closed(_)))));
}

#[test]
fn what_is_in_front_of_a_file_that_breaks_off_arrives() {
    let file = Temporary::new("empty");
    file.write(Vec::new());
    let (mut client, mut server) = ends();
    server.channel.channel().write(Bytes::from("a head, "));
    server.channel.channel().write(Bytes::from("and more: "));
    let region = FileRegion::new(fs::File::open(&file.0).unwrap(), 0, 10).within_message();
    server.channel.channel().write_and_flush(region);
    pump(&mut client, &mut server);
    assert!(matches!(server.channel.channel().close_cause(), Some(CloseCause::Io(_))));
    assert_eq!(client.received(), b"a head, and more: ");
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_ends_the_connection_without_a_goodbye() {
    let file = Temporary::new("shrinks");
    file.write(vec![7; 1_000_000]);
    let (mut client, mut server) = ends();
    server.channel.block_output(true);
    let region = FileRegion::whole(fs::File::open(&file.0).unwrap()).unwrap();
    let mut cut = server.channel.channel().send(region);
    let mut behind = server.channel.channel().send(Bytes::from("taken for the rest of the file"));
    server.channel.run();
    fs::OpenOptions::new().write(true).open(&file.0).unwrap().set_len(300_000).unwrap();
    server.channel.block_output(false);
    pump(&mut client, &mut server);
    assert!(matches!(cut.try_take(), Some(Err(WriteError::File(_)))));
    assert!(matches!(behind.try_take(), Some(Err(WriteError::Closed(_)))));
    let Some(CloseCause::Io(error)) = server.channel.channel().close_cause() else {
        panic!("{:?}", server.channel.channel().close_cause())
    };
    assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
    // What came is a part of the file, and nothing says that it was all of it.
    let received = client.received();
    assert!(received.len() <= 300_000 && received.iter().all(|byte| *byte == 7), "{}", received.len());
    client.channel.close_by_peer();
    assert!(client.log.has("without a close_notify"), "{:?}", client.log.lines());
}

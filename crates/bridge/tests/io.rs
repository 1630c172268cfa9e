//! A channel as a stream of bytes, through the traits of tokio and `futures-io`.

#![cfg(all(feature = "tokio", feature = "futures"))]

use bytes::{Bytes, BytesMut};
use netwright_bridge::PeerIo;
use netwright_core::{CloseCause, EmbeddedChannel, Outgoing, Peer, pipeline};
use std::{
    cell::RefCell,
    convert::Infallible,
    future::{pending, poll_fn},
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    rc::Rc,
    time::Duration,
};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};

type Bare = Peer;
type Channel = EmbeddedChannel<Infallible, Outgoing>;
type Log = Rc<RefCell<Vec<String>>>;

fn log() -> (Log, Log) {
    let log = Log::default();
    (log.clone(), log)
}

fn note(log: &Log, text: impl ToString) {
    log.borrow_mut().push(text.to_string());
}

#[test]
fn bytes_that_do_not_fit_are_kept_and_nothing_more_is_asked_for_meanwhile() {
    let (seen, told) = log();
    let go = Rc::new(tokio::sync::Notify::new());
    let step = go.clone();
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        let mut len = 1;
        while len > 0 {
            step.notified().await;
            let mut four = [0; 4];
            len = io.read(&mut four).await?;
            note(&told, four[..len].escape_ascii());
        }
        Ok::<_, io::Error>(())
    }));
    channel.write_inbound(b"abcdef");
    let step = |channel: &mut Channel| {
        go.notify_one();
        channel.run();
        seen.borrow().len()
    };
    assert_eq!(step(&mut channel), 1);
    assert!(!channel.wants_read(), "two bytes are left");
    assert_eq!(step(&mut channel), 2);
    assert!(!channel.wants_read(), "nobody waits");
    assert_eq!(step(&mut channel), 2);
    assert!(channel.wants_read(), "now somebody does");
    channel.write_inbound(b"gh");
    channel.close_input();
    assert_eq!(step(&mut channel), 4);
    assert_eq!(*seen.borrow(), ["abcd", "ef", "gh", ""]);
}

#[test]
fn a_read_into_no_room_asks_for_nothing() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        assert_eq!(io.read(&mut []).await?, 0);
        assert_eq!(poll_fn(|cx| futures_read(&mut io, cx, &mut [])).await?, 0);
        pending::<io::Result<()>>().await
    }));
    channel.run();
    assert!(channel.is_open() && !channel.wants_read());
}

#[test]
fn lines_need_no_further_buffer() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        let mut line = String::new();
        while io.read_line(&mut line).await? > 0 {
            io.write_all(line.to_uppercase().as_bytes()).await?;
            line.clear();
        }
        Ok::<_, io::Error>(())
    }));
    channel.write_inbound(b"on").write_inbound(b"e\ntwo\nthr").write_inbound(b"ee\n").close_input();
    assert_eq!(channel.outbound_bytes(), b"ONE\nTWO\nTHREE\n");
}

#[test]
fn a_writer_waits_while_the_channel_is_full_and_never_piles_up_more_than_it_may() {
    let (seen, told) = log();
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        io.read_u8().await?; // until the output is blocked
        let megabyte = vec![7; 1 << 20];
        let mut left = &megabyte[..];
        while !left.is_empty() {
            let taken = io.write(left).await?;
            note(&told, taken);
            left = &left[taken..];
        }
        Ok::<_, io::Error>(())
    }));
    channel.block_output(true).write_inbound(b"!");
    let taken: usize = seen.borrow().iter().map(|taken| taken.parse::<usize>().unwrap()).sum();
    assert!((64 << 10..=128 << 10).contains(&taken), "{taken} bytes against a mark of 64 KiB");
    channel.block_output(false).run();
    assert_eq!(channel.outbound_bytes().len(), 1 << 20);
}

#[test]
fn a_flush_is_done_when_the_system_has_taken_what_was_written() {
    let (seen, told) = log();
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        io.read_u8().await?; // until the output is blocked
        io.write_all(b"one").await?;
        io.write_all(b"two").await?;
        note(&told, "written");
        io.flush().await?;
        note(&told, "flushed");
        io.flush().await?;
        note(&told, "nothing to flush");
        pending::<io::Result<()>>().await
    }));
    channel.block_output(true).write_inbound(b"!");
    assert_eq!(*seen.borrow(), ["written"]);
    channel.block_output(false).run();
    assert_eq!(*seen.borrow(), ["written", "flushed", "nothing to flush"]);
    assert_eq!(channel.outbound_bytes(), b"onetwo");
}

#[test]
fn a_shutdown_follows_what_was_written_and_ends_writing_but_not_reading() {
    let (seen, told) = log();
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        io.read_u8().await?; // until the output is blocked
        io.write_all(b"last words").await?;
        io.shutdown().await?;
        note(&told, "shut down");
        note(&told, format!("{:?}", io.write(b"more").await.unwrap_err().kind()));
        io.shutdown().await?;
        let mut text = String::new();
        io.read_to_string(&mut text).await?;
        note(&told, text);
        Ok::<_, io::Error>(())
    }));
    channel.block_output(true).write_inbound(b"!");
    assert!(seen.borrow().is_empty(), "the peer does not take them");
    channel.block_output(false).run();
    assert_eq!(*seen.borrow(), ["shut down", "BrokenPipe"]);
    channel.write_inbound(b"and yours").close_input();
    assert_eq!(seen.borrow().last().unwrap(), "and yours");
    assert_eq!(channel.outbound_bytes(), b"last words");
}

#[test]
fn slices_leave_as_one_piece_and_owned_bytes_as_they_are() {
    let owned = Bytes::from(vec![1; 100]);
    let (place, kept) = (owned.as_ptr(), owned.clone());
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        assert!(io.is_write_vectored());
        let slices = [IoSlice::new(b"head "), IoSlice::new(b""), IoSlice::new(b"body")];
        assert_eq!(io.write_vectored(&slices).await?, 9);
        io.halves().1.write_bytes(kept).await?;
        pending::<io::Result<()>>().await
    }));
    channel.run();
    assert_eq!(channel.read_outbound().unwrap(), "head body");
    assert_eq!(channel.read_outbound().unwrap().as_ptr(), place);
    drop(owned);
}

#[test]
fn slices_beyond_the_limit_are_taken_in_part() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        let (first, second) = (vec![1; 60 << 10], vec![2; 60 << 10]);
        let taken = io.write_vectored(&[IoSlice::new(&first), IoSlice::new(&second)]).await?;
        assert_eq!(taken, 64 << 10);
        Ok::<_, io::Error>(())
    }));
    channel.run();
    let sent = channel.outbound_bytes();
    assert!(sent.len() == 64 << 10 && sent[(60 << 10) - 1] == 1 && sent[60 << 10] == 2);
}

#[test]
fn the_end_of_the_channel_is_an_error_that_says_why() {
    let (seen, told) = log();
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        let error = io.read_u8().await.unwrap_err();
        note(&told, format!("{:?}: {error}", error.kind()));
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<CloseCause>());
        assert!(matches!(cause, Some(CloseCause::TimedOut(_))));
        note(&told, format!("{:?}", io.write(b"x").await.unwrap_err().kind()));
    }));
    channel.run();
    let _ = channel.channel().close_because(CloseCause::TimedOut(Duration::from_secs(5)));
    channel.run();
    assert_eq!(*seen.borrow(), ["TimedOut: timed out after 5s", "TimedOut"]);
}

#[test]
fn both_halves_work_in_tasks_of_their_own() {
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(|peer: Bare| async move {
        let (mut read, mut write) = PeerIo::new(peer).into_split();
        let (to, mut from) = tokio::sync::mpsc::channel::<BytesMut>(1);
        let local = netwright_core::LocalLoop::current().expect("a tail runs on a loop");
        let writing = local.spawn(async move {
            while let Some(bytes) = from.recv().await {
                write.write_bytes(bytes.freeze()).await?;
            }
            write.shutdown().await
        });
        while let Some(bytes) = read.read_bytes().await? {
            let _ = to.send(bytes).await;
        }
        drop(to);
        writing.map_err(|_| ErrorKind::Other)?.await.map_err(io::Error::other)?
    }));
    channel.write_inbound(b"one").write_inbound(b"two").close_input();
    assert_eq!(channel.outbound_bytes(), b"onetwo");
    assert!(!channel.is_open());
}

// ---- futures-io ----

fn futures_read(
    io: &mut PeerIo,
    cx: &mut std::task::Context<'_>,
    buf: &mut [u8],
) -> std::task::Poll<io::Result<usize>> {
    futures_io::AsyncRead::poll_read(Pin::new(io), cx, buf)
}

#[test]
fn the_same_holds_for_futures_io() {
    let (seen, told) = log();
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        let mut three = [0; 3];
        loop {
            let len = poll_fn(|cx| futures_read(&mut io, cx, &mut three)).await?;
            note(&told, three[..len].escape_ascii());
            if len == 0 {
                break;
            }
            let taken =
                poll_fn(|cx| futures_io::AsyncWrite::poll_write(Pin::new(&mut io), cx, &three[..len]))
                    .await?;
            assert_eq!(taken, len);
            poll_fn(|cx| futures_io::AsyncWrite::poll_flush(Pin::new(&mut io), cx)).await?;
        }
        poll_fn(|cx| futures_io::AsyncWrite::poll_close(Pin::new(&mut io), cx)).await
    }));
    channel.write_inbound(b"abcd").write_inbound(b"e").close_input();
    assert_eq!(*seen.borrow(), ["abc", "d", "e", ""]);
    assert_eq!(channel.outbound_bytes(), b"abcde");
    assert!(!channel.is_open());
}

#[test]
fn a_flush_that_cannot_happen_any_more_says_why() {
    let (seen, told) = log();
    let mut channel: Channel = EmbeddedChannel::new(pipeline().serve(move |peer: Bare| async move {
        let mut io = PeerIo::new(peer);
        io.read_u8().await.unwrap(); // until the output is blocked
        io.write_all(b"never taken").await.unwrap();
        let error = poll_fn(|cx| Pin::new(&mut io).poll_flush(cx)).await.unwrap_err();
        note(&told, error);
    }));
    channel.block_output(true).write_inbound(b"!");
    channel.close_by_peer();
    channel.run();
    assert_eq!(*seen.borrow(), ["closed by the peer"]);
}

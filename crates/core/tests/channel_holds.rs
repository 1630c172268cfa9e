//! Reasons to pause that come from outside of a channel: they add up, and go with whoever has them.

use netwright_core::{CloseCause, EmbeddedChannel, Peer, pipeline};
use std::{sync::mpsc, thread};

fn echo() -> EmbeddedChannel<std::convert::Infallible, netwright_core::Outgoing> {
    EmbeddedChannel::with_joint(pipeline().serve(|mut peer: Peer| async move {
        while let Some(bytes) = peer.read().await? {
            peer.write_and_flush(bytes).await?;
        }
        Ok::<(), CloseCause>(())
    }))
}

#[test]
fn nothing_is_delivered_while_anybody_holds_and_no_resume_or_request_changes_that() {
    let mut embedded = echo();
    let channel = embedded.channel().clone();
    let (first, second) = (channel.hold(), channel.hold());
    embedded.run();
    assert!(!embedded.wants_read());
    embedded.write_inbound("a");
    channel.resume();
    channel.request();
    assert_eq!(embedded.run().outbound_bytes(), b"");
    drop(second);
    assert_eq!(embedded.run().outbound_bytes(), b"");
    drop(first);
    assert_eq!(embedded.run().outbound_bytes(), b"a");
    assert!(embedded.wants_read());
}

#[test]
fn a_pause_that_was_there_before_a_hold_is_there_behind_it() {
    let mut embedded =
        EmbeddedChannel::new(pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
    let channel = embedded.channel().clone();
    channel.pause();
    let hold = channel.hold();
    embedded.run().write_inbound("a");
    drop(hold);
    assert_eq!(embedded.run().outbound_bytes(), b"");
    channel.resume();
    assert_eq!(embedded.run().outbound_bytes(), b"a");
}

#[test]
fn a_hold_may_be_dropped_on_any_thread_and_behind_the_end_of_its_channel() {
    let mut embedded = echo();
    let hold = embedded.channel().hold();
    embedded.run().write_inbound("a");
    thread::spawn(move || drop(hold)).join().unwrap();
    assert_eq!(embedded.run().outbound_bytes(), b"a");

    let late = embedded.channel().hold();
    embedded.close_by_peer().run();
    let later = embedded.channel().hold(); // of a channel that has ended
    drop(late);
    drop(later);
    embedded.run();
    let left = embedded.channel().hold();
    drop(embedded);
    drop(left);
}

#[test]
fn what_came_before_the_end_is_delivered_when_the_last_hold_is_gone() {
    let (tell, told) = mpsc::channel();
    let mut embedded = EmbeddedChannel::new(pipeline().handle(move |_, bytes| tell.send(bytes).unwrap()));
    let hold = embedded.channel().hold();
    embedded.run().write_inbound("kept").close_by_peer();
    embedded.run();
    assert!(told.try_recv().is_err());
    drop(hold);
    embedded.run();
    assert_eq!(told.try_recv().unwrap(), "kept");
}

#[test]
fn a_hold_that_is_never_dropped_does_not_keep_a_channel_from_closing() {
    let mut embedded = echo();
    std::mem::forget(embedded.channel().hold());
    embedded.run().write_inbound("a");
    drop(embedded.channel().close());
    assert!(!embedded.run().is_open());
}

#[test]
fn a_peer_gives_a_hold_to_others() {
    let mut embedded = EmbeddedChannel::new(pipeline().serve(|mut peer: Peer| async move {
        let mut held = Some(peer.hold());
        let first = peer.channel();
        let _release = first
            .event_loop()
            .schedule(std::time::Duration::from_secs(1), move || drop(held.take()))
            .expect("a loop");
        while let Some(bytes) = peer.read().await? {
            peer.write_and_flush(bytes).await?;
        }
        Ok::<(), CloseCause>(())
    }));
    embedded.run().write_inbound("a");
    assert_eq!(embedded.run().outbound_bytes(), b"");
    embedded.advance(std::time::Duration::from_secs(1));
    assert_eq!(embedded.run().outbound_bytes(), b"a");
}

//! What a channel leaves behind when it ends may panic when it is dropped, and who waits for the end may panic when woken:
//! each by itself.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{Context, EmbeddedChannel, Handler, WritePromise, pipeline};
use std::{
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Wake, Waker},
};

/// Panics with every drop, and counts them. Without the panic hook, so that the output stays readable.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("on purpose"));
    }
}

/// Waits for ever, in two futures.
struct Waits(Arc<AtomicUsize>);

impl Handler for Waits {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bytes;
    type WriteOut = Bytes;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        for _ in 0..2 {
            let bomb = Bomb(self.0.clone());
            let waits = async move {
                let _bomb = bomb;
                pending::<()>().await;
            };
            cx.spawn(waits, |_, _, ()| ());
        }
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Bytes, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

#[test]
fn futures_of_stages_that_panic_when_dropped_leave_one_by_one() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut channel = EmbeddedChannel::new(pipeline().add(Waits(dropped.clone())));
    channel.run();
    channel.close_by_peer();
    channel.run();
    assert!(!channel.is_open());
    drop(channel);
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
}

struct Counts(AtomicUsize, bool);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        if self.1 {
            resume_unwind(Box::new("on purpose"));
        }
    }
}

#[test]
fn a_waker_that_panics_at_the_end_of_a_channel_does_not_keep_it_from_the_others() {
    let mut channel = EmbeddedChannel::new(pipeline().add(Waits(Arc::default())));
    let wakers: Vec<_> = [true, false].map(|panics| Arc::new(Counts(AtomicUsize::new(0), panics))).into();
    let mut ends: Vec<_> = wakers.iter().map(|_| Box::pin(channel.channel().closed())).collect();
    for (end, waker) in ends.iter_mut().zip(&wakers) {
        let waker = Waker::from(waker.clone());
        let mut end = pin!(end);
        assert!(end.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());
    }
    let closed = catch_unwind(AssertUnwindSafe(|| _ = channel.close_by_peer()));
    assert!(closed.is_ok(), "whoever closes does not pay for who waits");
    assert!(wakers.iter().all(|waker| waker.0.load(Ordering::Relaxed) == 1), "each is woken");
}

/// A message that takes a bomb along; on the wire it is nothing.
struct Disarms;

impl Handler for Disarms {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Bomb;
    type WriteOut = Bytes;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bomb: Bomb, done: WritePromise) {
        std::mem::forget(bomb);
        cx.write_with(Bytes::new(), done);
    }
}

#[test]
fn messages_that_panic_when_dropped_all_fail_when_their_channel_ends_before_them() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let mut channel = EmbeddedChannel::new(pipeline().add(Disarms));
    let writes: Vec<_> = {
        let (handle, dropped) = (channel.channel().clone(), dropped.clone());
        let writes = move || (0..3).map(|_| handle.write_tracked(Bomb(dropped.clone()))).collect();
        std::thread::spawn(writes).join().unwrap()
    };
    let closed = catch_unwind(AssertUnwindSafe(|| _ = channel.close_by_peer()));
    assert!(closed.is_ok());
    channel.run();
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    for write in writes {
        let write = pin!(write);
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(matches!(write.poll(&mut context), std::task::Poll::Ready(Err(_))));
    }
}

//! Results that panic when they are dropped, wakers that panic when they wake: the promises around them go on.
#![cfg(not(loom))]

use netwright_core::{Promise, PromiseError, Promised, promise};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Wake, Waker},
};

/// Panics with every drop, and counts them. Without the panic hook, so that the output stays readable.
struct Bomb(Arc<AtomicUsize>);

impl Clone for Bomb {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
        resume_unwind(Box::new("on purpose"));
    }
}

type Link = (Promise<Bomb, PromiseError>, Promised<Bomb, PromiseError>);

/// Promises of which each one's listener completes the next, longer than notifications nest, and nobody reads a result.
fn chain(
    length: usize,
    dropped: &Arc<AtomicUsize>,
    heard: &Arc<Mutex<Vec<usize>>>,
) -> Promise<Bomb, PromiseError> {
    let mut links: Vec<Link> = (0..length).map(|_| promise()).collect();
    let mut next: Option<Promise<Bomb, PromiseError>> = None;
    for (at, (promise, promised)) in links.drain(..).enumerate().rev() {
        let (dropped, heard, follower) = (dropped.clone(), heard.clone(), next.take());
        promised.listen(move |_| {
            heard.lock().unwrap().push(at);
            if let Some(follower) = follower {
                follower.succeed(Bomb(dropped));
            }
        });
        next = Some(promise);
    }
    next.unwrap()
}

#[test]
fn a_chain_of_results_that_panic_when_dropped_is_told_to_its_end() {
    const LENGTH: usize = 40;
    for round in 1..=2 {
        let (dropped, heard) = (Arc::new(AtomicUsize::new(0)), Arc::default());
        let first = chain(LENGTH, &dropped, &heard);
        let outcome = catch_unwind(AssertUnwindSafe(|| first.succeed(Bomb(dropped.clone()))));
        assert!(outcome.is_ok(), "round {round}: whoever completes a promise does not pay for its readers");
        assert!(heard.lock().unwrap().iter().copied().eq(0..LENGTH), "round {round}: {heard:?}");
        assert_eq!(dropped.load(Ordering::Relaxed), LENGTH);
    }
}

#[test]
fn the_thread_that_told_such_a_chain_goes_on_telling_others() {
    let (dropped, heard) = (Arc::new(AtomicUsize::new(0)), Arc::default());
    let first = chain(20, &dropped, &heard);
    let _ = catch_unwind(AssertUnwindSafe(|| first.succeed(Bomb(dropped.clone()))));
    // Deeper than notifications nest: the rest is told by the outermost one, if it knows that it is the outermost.
    let told = Arc::new(AtomicUsize::new(0));
    let mut next: Option<Promise<(), PromiseError>> = None;
    for _ in 0..40 {
        let (promise, promised) = promise::<(), PromiseError>();
        let (told, follower) = (told.clone(), next.take());
        promised.listen(move |_| {
            told.fetch_add(1, Ordering::Relaxed);
            if let Some(follower) = follower {
                follower.succeed(());
            }
        });
        next = Some(promise);
    }
    next.unwrap().succeed(());
    assert_eq!(told.load(Ordering::Relaxed), 40);
}

#[test]
fn a_shared_result_and_its_copy_may_both_panic_when_the_last_reader_leaves() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (promise, promised) = promise::<Bomb, PromiseError>();
    let first = promised.shared();
    let readers = [first.clone(), first];
    promise.succeed(Bomb(dropped.clone()));
    for reader in readers {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(reader)));
    }
    assert_eq!(dropped.load(Ordering::Relaxed), 2, "the result, and the copy for its readers");
}

#[test]
fn a_result_that_nobody_wants_any_more_may_panic_when_dropped() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (promise, promised) = promise::<Bomb, PromiseError>();
    assert!(promised.cancel());
    let outcome = catch_unwind(AssertUnwindSafe(|| promise.succeed(Bomb(dropped.clone()))));
    assert!(outcome.is_ok());
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

struct PanicsWhenWoken;

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        resume_unwind(Box::new("on purpose"));
    }
}

#[test]
fn a_waker_that_panics_costs_neither_the_one_who_completes_nor_the_other_readers() {
    let waker = Waker::from(Arc::new(PanicsWhenWoken));
    let (promise, promised) = promise::<u32, PromiseError>();
    let mut readers: Vec<_> =
        (0..2).map(|_| ()).scan(promised.shared(), |one, ()| Some(one.clone())).collect();
    for reader in &mut readers {
        assert!(Pin::new(reader).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| promise.succeed(7))).is_ok());
    assert!(readers.iter().all(|reader| reader.peek() == Some(Ok(7))));
}

//! Every interleaving of the two ends, small enough to finish in seconds.
//!
//! Panics inside a listener are caught by the code under test, so the models note what they saw and judge it outside.

use loom::model;

use super::{Promise, PromiseError, Promised, promise};
use crate::sync::{Arc, Mutex, lock, thread};

type Ends<T> = (Promise<T>, Promised<T>);
type Seen = Arc<Mutex<Vec<&'static str>>>;

fn note<T>(seen: &Seen, line: &'static str) -> impl FnOnce(&T) + Send + 'static {
    let seen = seen.clone();
    move |_: &T| lock(&seen).push(line)
}

#[test]
fn loom_a_completion_always_reaches_a_polling_reader() {
    model(|| {
        let (promise, mut promised): Ends<u32> = promise();
        let writer = thread::spawn(move || promise.succeed(7));
        assert_eq!(promised.wait(), Ok(7)); // polls, parks until woken, polls again
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_dropped_writer_always_reaches_a_polling_reader() {
    model(|| {
        let (promise, mut promised): Ends<u32> = promise();
        let writer = thread::spawn(move || drop(promise));
        assert_eq!(promised.wait(), Err(PromiseError::Abandoned));
        writer.join().unwrap();
    });
}

#[test]
fn loom_a_completion_with_listeners_reaches_a_polling_reader_after_them() {
    model(|| {
        let seen = Seen::default();
        let (promise, mut promised): Ends<u32> = promise();
        promised.listen(note(&seen, "listener"));
        let writer = thread::spawn(move || promise.succeed(7));
        assert_eq!(promised.wait(), Ok(7));
        assert_eq!(*lock(&seen), ["listener"]);
        writer.join().unwrap();
    });
}

#[test]
fn loom_either_the_completion_or_the_cancel_wins() {
    model(|| {
        let seen = Seen::default();
        let (promise, mut promised): Ends<u32> = promise();
        promised.listen(note(&seen, "listener"));
        let writer = thread::spawn(move || promise.succeed(7));
        let cancelled = promised.cancel();
        let expected = if cancelled { Err(PromiseError::Cancelled) } else { Ok(7) };
        assert_eq!(promised.wait(), expected);
        assert_eq!(*lock(&seen), ["listener"]);
        writer.join().unwrap();
    });
}

#[test]
fn loom_either_the_claim_or_the_cancel_wins() {
    model(|| {
        let (mut promise, mut promised): Ends<u32> = promise();
        let writer = thread::spawn(move || {
            let claimed = promise.claim();
            assert_eq!(claimed, !promise.is_cancelled());
            promise.succeed(7);
            claimed
        });
        let cancelled = promised.cancel();
        let expected = if cancelled { Err(PromiseError::Cancelled) } else { Ok(7) };
        assert_eq!(promised.wait(), expected);
        assert_eq!(writer.join().unwrap(), !cancelled);
    });
}

#[test]
fn loom_a_listener_added_during_completion_runs_once_and_in_order() {
    model(|| {
        let seen = Seen::default();
        let (promise, promised): Ends<u32> = promise();
        promised.listen(note(&seen, "early"));
        let writer = thread::spawn(move || promise.succeed(7));
        promised.listen(note(&seen, "late"));
        promised.listen(note(&seen, "later"));
        writer.join().unwrap();
        assert_eq!(*lock(&seen), ["early", "late", "later"]);
        assert!(promised.is_done());
    });
}

#[test]
fn loom_late_listeners_of_two_threads_run_once_and_leave_the_result() {
    model(|| {
        let seen = Seen::default();
        let promised = Arc::new(Promised::<u32>::ready(Ok(7)));
        let other = thread::spawn({
            let (promised, line) = (promised.clone(), note(&seen, "a"));
            move || promised.listen(line)
        });
        promised.listen(note(&seen, "b"));
        other.join().unwrap();
        let mut lines = lock(&seen).clone();
        lines.sort_unstable();
        assert_eq!(lines, ["a", "b"]);
        assert!(promised.is_done());
    });
}

#[test]
fn loom_a_reader_that_detaches_during_completion_loses_no_listener() {
    model(|| {
        let seen = Seen::default();
        let (promise, mut promised): Ends<Arc<()>> = promise();
        let value = Arc::new(());
        promised.listen(note(&seen, "listener"));
        let writer = thread::spawn({
            let value = value.clone();
            move || promise.succeed(value)
        });
        drop(promised.try_take());
        drop(promised);
        writer.join().unwrap();
        assert_eq!(*lock(&seen), ["listener"]);
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

#[test]
fn loom_a_shared_result_reaches_a_waiting_clone_and_a_leaving_one_does_no_harm() {
    model(|| {
        let (promise, promised): Ends<u32> = promise();
        let shared = promised.shared();
        let leaving = shared.clone();
        let writer = thread::spawn(move || promise.succeed(7));
        let mut leaving = Box::pin(leaving);
        let _ = leaving.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
        drop(leaving);
        assert_eq!(shared.wait(), Ok(7));
        assert_eq!(shared.peek(), Some(Ok(7)), "and stays");
        writer.join().unwrap();
    });
}

#[test]
fn loom_sharing_during_completion_misses_nothing() {
    model(|| {
        let (promise, promised): Ends<u32> = promise();
        let writer = thread::spawn(move || promise.succeed(7));
        assert_eq!(promised.shared().wait(), Ok(7));
        writer.join().unwrap();
    });
}

//! What the two ends promise each other, on one thread and on two. The races are in `loom_tests`.

use std::{
    cell::Cell,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use super::{Promise, PromiseError, Promised, SharedPromised, promise, trampoline};
use crate::loop_thread;

type Ends<T> = (Promise<T>, Promised<T>);

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    /// A listener that writes `line`.
    fn on<T>(&self, line: &'static str) -> impl FnOnce(&T) + Send + 'static {
        let log = self.clone();
        move |_: &T| log.add(line)
    }

    fn add(&self, line: &'static str) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.add();
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Arc<Count>) -> Poll<F::Output> {
    let waker = Waker::from(waker.clone());
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

#[test]
fn a_result_is_taken_once_and_by_any_reading() {
    let (promise, mut promised): Ends<u32> = promise();
    assert!(!promised.is_done());
    assert_eq!(promised.try_take(), None);
    promise.succeed(7);
    assert!(promised.is_done());
    assert_eq!(promised.try_take(), Some(Ok(7)));
    assert_eq!(promised.try_take(), None);
    assert!(promised.is_done());
}

#[test]
fn listeners_run_in_the_order_in_which_they_were_added_also_late_ones() {
    let log = Log::default();
    let (promise, mut promised): Ends<u32> = promise();
    promised.listen(log.on("first"));
    promised.listen(log.on("second"));
    promise.succeed(1);
    promised.listen(log.on("late"));
    promised.listen(log.on("later"));
    assert_eq!(log.lines(), ["first", "second", "late", "later"]);
    assert_eq!(promised.try_take(), Some(Ok(1)), "listeners only look");
}

#[test]
fn a_listener_added_by_a_listener_runs_behind_those_still_to_run() {
    let log = Log::default();
    let (promise, promised): Ends<u32> = promise();
    let promised = promised.shared();
    let (again, inner) = (promised.clone(), log.clone());
    promised.listen(move |_| {
        again.listen(inner.on("nested"));
        inner.add("first");
    });
    promised.listen(log.on("second"));
    promise.succeed(1);
    assert_eq!(log.lines(), ["first", "second", "nested"]);
}

#[test]
fn a_listener_sees_the_result_before_the_reader_does() {
    let (promise, promised): Ends<u32> = promise();
    let promised = Arc::new(promised);
    let (seen, inside) = mpsc::channel();
    let weak = Arc::downgrade(&promised);
    promised.listen(move |result| {
        let done = weak.upgrade().is_some_and(|promised| promised.is_done());
        seen.send((*result, done)).unwrap();
    });
    promise.succeed(7);
    assert_eq!(inside.recv(), Ok((Ok(7), false)));
    assert!(promised.is_done());
}

#[test]
fn a_hundred_thousand_chained_promises_neither_overflow_the_stack_nor_nest_deeper_than_the_bound() {
    thread_local! {
        static NESTED: Cell<usize> = const { Cell::new(0) };
        static DEEPEST: Cell<usize> = const { Cell::new(0) };
    }
    let (first, mut last) = promise::<u32, PromiseError>();
    for _ in 0..100_000 {
        let (next, promised) = promise();
        last.listen(move |result| {
            NESTED.set(NESTED.get() + 1);
            DEEPEST.set(DEEPEST.get().max(NESTED.get()));
            next.complete(result.map(|count| count + 1));
            NESTED.set(NESTED.get() - 1);
        });
        last = promised;
    }
    first.succeed(0);
    assert_eq!(last.try_take(), Some(Ok(100_000)));
    assert_eq!(DEEPEST.get(), trampoline::NESTED_MAX);
}

#[test]
fn a_long_chain_that_is_abandoned_does_not_overflow_the_stack() {
    let (first, mut last) = promise::<(), PromiseError>();
    for _ in 0..100_000 {
        let (next, promised) = promise::<(), PromiseError>();
        last.listen(move |_| drop(next));
        last = promised;
    }
    drop(first);
    assert_eq!(last.try_take(), Some(Err(PromiseError::Abandoned)));
}

#[test]
fn listeners_that_make_and_listen_to_finished_promises_do_not_overflow_the_stack() {
    fn count_down(left: usize, end: Arc<Count>) {
        Promised::<usize>::ready(Ok(left)).listen(move |result| match result {
            Ok(0) => end.add(),
            _ => count_down(left - 1, end),
        });
    }
    let end = Arc::new(Count::default());
    count_down(100_000, end.clone());
    assert_eq!(end.get(), 1);
}

/// Calls `deepest` inside as many notifications as may nest.
fn at_the_bound(deepest: impl FnOnce() + Send + 'static) {
    fn descend(left: usize, deepest: Box<dyn FnOnce() + Send>) {
        Promised::<()>::ready(Ok(())).listen(move |_| match left {
            1 => deepest(),
            _ => descend(left - 1, deepest),
        });
    }
    descend(trampoline::NESTED_MAX, Box::new(deepest));
}

#[test]
fn a_wait_at_the_nesting_bound_does_not_wait_for_its_own_threads_queue() {
    let (seen, inside) = mpsc::channel();
    at_the_bound(move || {
        let log = Log::default();
        let (promise, mut promised): Ends<u32> = promise();
        promised.listen(log.on("queued"));
        promise.succeed(7);
        let queued = (log.lines(), promised.try_take());
        seen.send((queued, promised.wait(), log.lines())).unwrap();
    });
    assert_eq!(inside.recv(), Ok(((vec![], None), Ok(7), vec!["queued"])));
}

#[test]
fn a_shared_wait_at_the_nesting_bound_does_not_wait_for_its_own_threads_queue() {
    let (seen, inside) = mpsc::channel();
    at_the_bound(move || {
        let shared = Promised::<u32>::ready(Ok(7)).shared();
        seen.send((shared.peek(), shared.wait())).unwrap();
    });
    assert_eq!(inside.recv(), Ok((None, Ok(7))));
}

#[test]
fn a_panicking_listener_does_not_keep_the_others_from_running_nor_the_result_from_arriving() {
    let log = Log::default();
    let (promise, mut promised): Ends<u32> = promise();
    promised.listen(log.on("before"));
    promised.listen(|_| panic!("on purpose, in a test"));
    promised.listen(log.on("after"));
    promise.succeed(1);
    promised.listen(|_| panic!("on purpose, late, in a test"));
    promised.listen(log.on("late"));
    assert_eq!(log.lines(), ["before", "after", "late"]);
    assert_eq!(promised.try_take(), Some(Ok(1)));
}

#[test]
fn a_panicking_waker_does_not_reach_the_writer() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            panic!("on purpose, in a test");
        }
    }
    let (promise, mut promised): Ends<u32> = promise();
    let waker = Waker::from(Arc::new(Bomb));
    assert!(Pin::new(&mut promised).poll(&mut Context::from_waker(&waker)).is_pending());
    promise.succeed(1);
    assert_eq!(promised.try_take(), Some(Ok(1)));
}

#[test]
fn a_writer_dropped_without_completion_abandons_its_reader() {
    let woken = Arc::new(Count::default());
    let log = Log::default();
    let (promise, mut promised): Ends<u32> = promise();
    promised.listen(log.on("told"));
    assert!(poll(&mut promised, &woken).is_pending());
    drop(promise);
    assert_eq!((log.lines(), woken.get()), (vec!["told"], 1));
    assert_eq!(poll(&mut promised, &woken), Poll::Ready(Err(PromiseError::Abandoned)));
}

#[test]
fn a_cancel_before_the_claim_wins_and_the_late_result_is_dropped() {
    let value = Arc::new(());
    let log = Log::default();
    let (mut promise, mut promised): Ends<Arc<()>> = promise();
    promised.listen(log.on("cancelled"));
    assert!(!promise.is_cancelled());
    assert!(promised.cancel());
    assert_eq!(log.lines(), ["cancelled"], "listeners hear of it at once");
    assert!(!promised.cancel(), "done by now");
    assert!(promise.is_cancelled());
    assert!(!promise.claim());
    promise.succeed(value.clone());
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(promised.wait(), Err(PromiseError::Cancelled));
}

#[test]
fn a_cancel_after_the_claim_or_after_completion_changes_nothing() {
    let (mut claimed, mut promised): Ends<u32> = promise();
    assert!(claimed.claim());
    assert!(claimed.claim(), "claiming is not counted");
    assert!(!promised.cancel());
    assert!(!claimed.is_cancelled());
    claimed.succeed(1);
    assert!(!promised.cancel());
    assert_eq!(promised.wait(), Ok(1));

    let mut ready = Promised::<u32>::ready(Ok(2));
    assert!(!ready.cancel());
    assert_eq!(ready.wait(), Ok(2));
}

#[test]
fn a_cancelled_promise_that_is_dropped_stays_cancelled() {
    let (promise, mut promised): Ends<u32> = promise();
    assert!(promised.cancel());
    drop(promise);
    assert_eq!(promised.try_take(), Some(Err(PromiseError::Cancelled)));
}

#[test]
fn waiting_on_a_loop_thread_is_refused_and_the_promised_stays_usable() {
    let woken = Arc::new(Count::default());
    let (promise, mut promised): Ends<u32> = promise();
    assert!(poll(&mut promised, &woken).is_pending());
    let on_loop = loop_thread::enter(1);
    assert_eq!(promised.wait(), Err(PromiseError::WouldBlockLoop));
    assert_eq!(promised.wait_timeout(Duration::MAX), Some(Err(PromiseError::WouldBlockLoop)));
    promise.succeed(7);
    assert_eq!(woken.get(), 1, "the refused waits left the task's waker alone");
    assert_eq!(promised.wait(), Ok(7), "nothing to block for");
    drop(on_loop);
}

#[test]
fn waiting_for_a_shared_result_on_a_loop_thread_is_refused_too() {
    let (promise, promised): Ends<u32> = promise();
    let shared = promised.shared();
    let on_loop = loop_thread::enter(1);
    assert_eq!(shared.wait(), Err(PromiseError::WouldBlockLoop));
    assert_eq!(shared.wait_timeout(Duration::MAX), Some(Err(PromiseError::WouldBlockLoop)));
    assert_eq!(shared.peek(), None);
    promise.succeed(7);
    assert_eq!(shared.wait(), Ok(7));
    drop(on_loop);
}

#[test]
fn a_thread_waits_for_another_one() {
    let (promise, mut promised): Ends<u32> = promise();
    let waiting = thread::spawn(move || promised.wait());
    promise.succeed(7);
    assert_eq!(waiting.join().unwrap(), Ok(7));
}

#[test]
fn a_thread_waits_for_another_one_with_a_timeout_that_does_not_pass() {
    for timeout in [Duration::from_secs(3600), Duration::MAX] {
        let (promise, mut promised): Ends<u32> = promise();
        let waiting = thread::spawn(move || promised.wait_timeout(timeout));
        promise.succeed(7);
        assert_eq!(waiting.join().unwrap(), Some(Ok(7)));
    }
}

#[test]
fn a_timeout_that_passes_leaves_the_promised_usable() {
    let (promise, mut promised): Ends<u32> = promise();
    assert_eq!(promised.wait_timeout(Duration::ZERO), None);
    assert_eq!(promised.wait_timeout(Duration::from_millis(1)), None);
    promise.succeed(7);
    assert_eq!(promised.wait_timeout(Duration::ZERO), Some(Ok(7)));
}

#[test]
fn the_last_waker_is_the_one_that_is_woken() {
    let (first, last) = (Arc::new(Count::default()), Arc::new(Count::default()));
    let (promise, mut promised): Ends<u32> = promise();
    assert!(poll(&mut promised, &first).is_pending());
    assert!(poll(&mut promised, &last).is_pending());
    assert!(poll(&mut promised, &last).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "a replaced waker is dropped");
    promise.succeed(7);
    assert_eq!((first.get(), last.get()), (0, 1));
    assert_eq!(poll(&mut promised, &last), Poll::Ready(Ok(7)));
}

#[test]
fn a_dropped_promised_detaches_its_waker_goes_and_listeners_still_run() {
    let woken = Arc::new(Count::default());
    let log = Log::default();
    let (promise, mut promised): Ends<u32> = promise();
    promised.listen(log.on("heard"));
    assert!(poll(&mut promised, &woken).is_pending());
    drop(promised);
    assert_eq!(Arc::strong_count(&woken), 1);
    assert!(!promise.is_cancelled());
    promise.succeed(1);
    assert_eq!((log.lines(), woken.get()), (vec!["heard"], 0));
}

#[test]
#[should_panic(expected = "already taken")]
fn waiting_twice_is_a_mistake_and_panics_rather_than_hangs() {
    let mut promised = Promised::<u32>::ready(Ok(1));
    assert_eq!(promised.wait(), Ok(1));
    let _ = promised.wait();
}

#[test]
#[should_panic(expected = "already taken")]
fn listening_after_the_result_was_taken_is_a_mistake_and_panics() {
    let mut promised = Promised::<u32>::ready(Ok(1));
    assert_eq!(promised.try_take(), Some(Ok(1)));
    promised.listen(|_| {});
}

#[test]
fn every_clone_of_a_shared_result_is_woken_and_gets_it() {
    let wakers: Vec<_> = (0..3).map(|_| Arc::new(Count::default())).collect();
    let (promise, promised): Ends<String> = promise();
    let shared = promised.shared();
    let mut waiters: Vec<_> = wakers.iter().map(|_| shared.clone()).collect();
    for (waiter, waker) in waiters.iter_mut().zip(&wakers) {
        assert!(poll(waiter, waker).is_pending());
        assert!(poll(waiter, waker).is_pending());
    }
    assert_eq!((shared.waiters(), shared.peek()), (3, None));
    promise.succeed("all".to_owned());
    for (waiter, waker) in waiters.iter_mut().zip(&wakers) {
        assert_eq!(waker.get(), 1);
        assert_eq!(poll(waiter, waker), Poll::Ready(Ok("all".to_owned())));
    }
    assert!(shared.is_done());
    assert_eq!(shared.peek(), Some(Ok("all".to_owned())));
    assert_eq!(shared.clone().wait_timeout(Duration::ZERO), Some(Ok("all".to_owned())));
}

#[test]
fn a_shared_waiter_takes_its_waker_along_when_it_goes() {
    let woken = Arc::new(Count::default());
    let (promise, promised): Ends<u32> = promise();
    let shared = promised.shared();
    for _ in 0..100 {
        assert!(poll(&mut shared.clone(), &woken).is_pending());
        assert_eq!(shared.wait_timeout(Duration::ZERO), None);
    }
    assert_eq!((shared.waiters(), Arc::strong_count(&woken)), (0, 1));
    promise.succeed(1);
    assert_eq!(woken.get(), 0);
}

#[test]
fn threads_wait_for_one_shared_result() {
    let (promise, promised): Ends<u32> = promise();
    let shared = promised.shared();
    let waiting: Vec<_> = (0..4)
        .map(|_| {
            let shared = shared.clone();
            thread::spawn(move || shared.wait())
        })
        .collect();
    promise.succeed(7);
    for thread in waiting {
        assert_eq!(thread.join().unwrap(), Ok(7));
    }
}

#[test]
fn listeners_keep_their_order_across_sharing() {
    let log = Log::default();
    let (promise, promised): Ends<u32> = promise();
    promised.listen(log.on("before"));
    let shared = promised.shared();
    shared.listen(log.on("shared"));
    shared.clone().listen(log.on("by a clone"));
    promise.succeed(1);
    shared.listen(log.on("late"));
    assert_eq!(log.lines(), ["before", "shared", "by a clone", "late"]);
}

#[test]
fn a_result_whose_clone_panics_abandons_the_shared_readers_instead_of_leaving_them_waiting() {
    #[derive(Debug)]
    struct NoCopies;
    impl Clone for NoCopies {
        fn clone(&self) -> Self {
            panic!("on purpose, in a test");
        }
    }
    let shared = Promised::<NoCopies>::ready(Ok(NoCopies)).shared();
    assert_eq!(shared.wait().map(drop), Err(PromiseError::Abandoned));
}

#[test]
fn values_and_listeners_are_dropped_exactly_once_wherever_they_end() {
    struct Tracked(Arc<Count>);
    impl Drop for Tracked {
        fn drop(&mut self) {
            self.0.add();
        }
    }
    type Ending = fn(Promise<Tracked>, Promised<Tracked>, Tracked);

    let drops = Arc::new(Count::default());
    let endings: [(&str, Ending); 5] = [
        ("taken", |promise, mut promised, value| {
            promise.succeed(value);
            assert!(promised.try_take().is_some());
        }),
        ("never read", |promise, promised, value| {
            promise.succeed(value);
            drop(promised);
        }),
        ("reader gone before", |promise, promised, value| {
            drop(promised);
            promise.succeed(value);
        }),
        ("cancelled", |promise, promised, value| {
            promised.cancel();
            promise.succeed(value);
        }),
        ("listened to", |promise, promised, value| {
            promised.listen(|_| {});
            promise.succeed(value);
            promised.listen(|_| {});
        }),
    ];
    for (index, (ending, run)) in endings.into_iter().enumerate() {
        let (promise, promised) = promise();
        let captured = Tracked(drops.clone());
        promised.listen(move |_| drop(captured));
        run(promise, promised, Tracked(drops.clone()));
        assert_eq!(drops.get(), 2 * (index + 1), "{ending}");
    }
}

#[test]
fn both_ends_cross_threads_whenever_their_values_do() {
    fn crosses<X: Send + Sync + Unpin>() {}
    crosses::<Promise<Cell<u8>, PromiseError>>();
    crosses::<Promised<Cell<u8>, PromiseError>>();
    crosses::<SharedPromised<u8, PromiseError>>();
}

#[test]
fn errors_say_what_to_do_and_travel_as_io_errors() {
    let error = std::io::Error::from(PromiseError::WouldBlockLoop);
    assert_eq!(error.kind(), std::io::ErrorKind::Other);
    assert!(error.to_string().contains("await the promise or listen"), "{error}");
    let (promise, mut promised) = promise::<u32, std::io::Error>();
    drop(promise);
    assert!(promised.wait().is_err_and(|error| error.to_string().contains("dropped before")));
}

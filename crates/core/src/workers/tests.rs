//! The promises of the module header, one by one. Nothing sleeps: tasks are held with gates and meet at barriers.

use std::{
    cell::RefCell,
    io,
    panic::resume_unwind,
    pin::pin,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc::{Receiver, Sender, channel},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use super::{lane::LANE_TURN_MAX, *};
use crate::{ThreadFactory, loop_thread, refused::RefusedWhy};

/// Far more than any test needs: says "wait for it" and still fails instead of hanging a build for ever.
pub(super) const LONG: Duration = Duration::from_secs(120);

pub(super) fn pool(threads: usize) -> Workers {
    Workers::new(threads).unwrap()
}

/// Occupies one worker until the gate is opened (or dropped); returns once the worker is there.
pub(super) fn hold(workers: &Workers) -> Sender<()> {
    let (arrived, at_gate) = channel();
    let (gate, opened) = channel::<()>();
    let wait = move || {
        arrived.send(()).unwrap();
        let _ = opened.recv();
    };
    workers.execute(wait).unwrap();
    at_gate.recv_timeout(LONG).unwrap();
    gate
}

fn end(workers: &Workers) {
    workers.shutdown_gracefully(LONG).wait().unwrap();
}

/// Panics without the hook: ten thousand backtraces would help nobody.
pub(super) fn quiet_panic(message: &'static str) -> ! {
    resume_unwind(Box::new(message))
}

pub(super) fn received<T>(receiver: &Receiver<T>) -> T {
    receiver.recv_timeout(LONG).unwrap()
}

#[test]
fn each_lane_keeps_its_order_and_never_overlaps_itself_under_contention() {
    const LANES: usize = 24;
    const PRODUCERS: usize = 4;
    const TASKS: usize = 400;
    let workers = pool(8);
    let seen: Vec<_> = (0..LANES).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let inside: Vec<_> = (0..LANES).map(|_| Arc::new(AtomicBool::new(false))).collect();
    let overlaps = Arc::new(AtomicUsize::new(0));
    let lanes: Vec<_> = (0..LANES).map(|_| workers.lane()).collect();

    // Every producer feeds every lane, so a lane's order is the order of each producer within it.
    thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let (lanes, seen, inside, overlaps) = (&lanes, &seen, &inside, &overlaps);
            scope.spawn(move || {
                for n in 0..TASKS {
                    for ((lane, seen), inside) in lanes.iter().zip(seen).zip(inside) {
                        let (seen, inside, overlaps) =
                            (Arc::clone(seen), Arc::clone(inside), Arc::clone(overlaps));
                        let task = move || {
                            if inside.swap(true, SeqCst) {
                                overlaps.fetch_add(1, SeqCst);
                            }
                            seen.lock().unwrap().push((producer, n));
                            inside.store(false, SeqCst);
                        };
                        lane.execute(task).unwrap();
                    }
                }
            });
        }
    });
    end(&workers);

    assert_eq!(overlaps.load(SeqCst), 0);
    for seen in seen {
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), PRODUCERS * TASKS);
        for producer in 0..PRODUCERS {
            assert!(seen.iter().filter(|(by, _)| *by == producer).map(|(_, n)| *n).eq(0..TASKS));
        }
    }
    assert_eq!(workers.figures().completed, (LANES * PRODUCERS * TASKS) as u64);
}

#[test]
fn different_lanes_run_at_the_same_time() {
    let workers = pool(2);
    let meeting = Arc::new(Barrier::new(2));
    let met: Vec<_> = (0..2)
        .map(|_| {
            let meeting = Arc::clone(&meeting);
            workers
                .lane()
                .submit(move || {
                    meeting.wait();
                })
                .unwrap()
        })
        .collect();
    met.into_iter().for_each(|mut met| met.wait().unwrap());
}

#[test]
fn a_lane_without_tasks_and_a_lane_with_many_hold_at_most_one_thread_each() {
    let workers = pool(2);
    let idle: Vec<_> = (0..1_000).map(|_| workers.lane()).collect();
    idle.iter().for_each(|lane| lane.execute(|| ()).unwrap());
    let busy = workers.lane();
    let (gate, opened) = channel::<()>();
    busy.execute(move || opened.recv().unwrap_or_default()).unwrap();
    (0..100).for_each(|_| busy.execute(|| ()).unwrap());
    // The busy lane's hundred followers take no thread away: the other one still serves everybody else.
    assert_eq!(workers.submit(|| 1).unwrap().wait(), Ok(1));
    drop(gate);
    end(&workers);
}

#[test]
fn a_lane_with_an_endless_supply_lets_others_go_first_after_its_turn() {
    let workers = pool(1);
    let gate = hold(&workers);
    let (log, logged) = channel();
    let lane = workers.lane();
    for _ in 0..3 * LANE_TURN_MAX {
        let log = log.clone();
        lane.execute(move || log.send("lane").unwrap()).unwrap();
    }
    let other = workers.lane();
    let other_log = log.clone();
    other.execute(move || other_log.send("other lane").unwrap()).unwrap();
    workers.execute(move || log.send("no lane").unwrap()).unwrap();
    drop(gate);

    let order: Vec<_> = logged.iter().collect();
    assert!(order[..LANE_TURN_MAX].iter().all(|who| *who == "lane"));
    assert_eq!(order[LANE_TURN_MAX..][..2], ["other lane", "no lane"]);
    assert!(order[LANE_TURN_MAX + 2..].iter().all(|who| *who == "lane"));
    assert_eq!(order.len(), 3 * LANE_TURN_MAX + 2);
}

#[test]
fn a_lane_that_feeds_itself_does_not_starve_the_pool() {
    fn again(lane: Lane, stop: Arc<AtomicBool>) {
        if !stop.load(SeqCst) {
            let next = lane.clone();
            lane.execute(move || again(next, stop)).unwrap();
        }
    }
    let workers = pool(1);
    let stop = Arc::new(AtomicBool::new(false));
    let (lane, stopper) = (workers.lane(), Arc::clone(&stop));
    let first = lane.clone();
    lane.execute(move || again(first, stop)).unwrap();
    // With one thread this runs only if the lane lets go of it.
    workers.submit(move || stopper.store(true, SeqCst)).unwrap().wait().unwrap();
    end(&workers);
}

#[test]
fn equal_keys_keep_their_order_and_other_keys_go_on() {
    let workers = pool(4);
    let (log, logged) = channel();
    for n in 0..500 {
        for key in ["red", "green", "blue"] {
            let log = log.clone();
            workers.execute_keyed(key, move || log.send((key, n)).unwrap()).unwrap();
        }
    }
    drop(log);
    let order: Vec<_> = logged.iter().collect();
    for key in ["red", "green", "blue"] {
        assert!(order.iter().filter(|(of, _)| *of == key).map(|(_, n)| *n).eq(0..500));
    }
    // A lane asked for by key is the lane that tasks with that key run in.
    let (a, b) = (workers.lane_for("red"), workers.lane_for(&"red".to_owned()));
    assert!(crate::sync::Arc::ptr_eq(&a.queue, &b.queue));
    let lanes = (0..1_000).map(|key| crate::sync::Arc::as_ptr(&workers.lane_for(&key).queue));
    assert!(lanes.collect::<std::collections::HashSet<_>>().len() > 16, "keys spread over the lanes");
}

#[test]
fn a_full_queue_refuses_names_its_limit_and_hands_the_task_back() {
    let workers = Workers::builder().threads(1).max_pending(2).build().unwrap();
    let gate = hold(&workers);
    let lane = workers.lane();
    let (ran, runs) = channel();
    let task = |name: &'static str| {
        let ran = ran.clone();
        move || ran.send(name).unwrap()
    };
    workers.execute(task("first")).unwrap();
    lane.execute(task("second")).unwrap();

    let refused = workers.execute(task("third")).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::Full { limit: 2 });
    assert_eq!(refused.to_string(), "task refused: the queue is full, its limit is 2 pending tasks");
    assert_eq!(lane.execute(task("in a lane")).unwrap_err().why, RefusedWhy::Full { limit: 2 });
    assert_eq!(workers.execute_keyed("key", task("by key")).unwrap_err().why, RefusedWhy::Full { limit: 2 });
    assert_eq!(lane.submit(task("with result")).unwrap_err().why, RefusedWhy::Full { limit: 2 });
    assert_eq!(workers.figures().pending, 2);

    drop(gate);
    assert_eq!((received(&runs), received(&runs)), ("first", "second"));
    refused.into_task()();
    assert_eq!(received(&runs), "third");
    drop(ran);
    end(&workers);
    assert!(runs.recv().is_err(), "no refused task has run by itself");
}

#[test]
fn a_refused_submit_gives_back_the_closure_and_its_promise_is_gone() {
    let workers = pool(1);
    end(&workers);
    let refused = workers.submit(|| 41 + 1).err().unwrap();
    assert_eq!(refused.why, RefusedWhy::ShutDown);
    assert_eq!(refused.into_task()(), 42);
}

#[test]
fn submitted_results_and_panics_come_through_the_promise_and_are_counted_by_then() {
    let workers = pool(2);
    assert_eq!(workers.submit(|| "value").unwrap().wait(), Ok("value"));
    assert_eq!(workers.figures().completed, 1);
    let lane = workers.lane();
    let mut failed = lane.submit(|| -> u8 { quiet_panic("bad luck") }).unwrap();
    assert_eq!(failed.wait(), Err(TaskError::Panicked("bad luck".to_owned())));
    assert_eq!((workers.figures().completed, workers.figures().panics), (1, 1));
    assert_eq!(lane.submit(|| 3).unwrap().wait(), Ok(3), "the lane goes on after a panic");
}

#[test]
fn a_task_cancelled_before_it_starts_does_not_run_and_one_that_runs_cannot_be_cancelled() {
    let workers = pool(1);
    let gate = hold(&workers);
    let (ran, runs) = channel();
    let mut cancelled = workers.submit(move || ran.send(()).unwrap()).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(cancelled.wait(), Err(TaskError::Cancelled));
    assert_eq!(workers.figures().pending, 1, "it keeps its place until a worker finds it");
    drop(gate);

    let (arrived, at_gate) = channel();
    let (gate, opened) = channel::<()>();
    let mut running = workers.submit(move || (arrived.send(()), opened.recv()).0.is_ok()).unwrap();
    received(&at_gate);
    assert!(!running.cancel());
    drop(gate);
    assert_eq!(running.wait(), Ok(true));
    assert!(runs.try_recv().is_err());
    assert_eq!((workers.figures().cancelled, workers.figures().completed), (1, 2));
}

#[test]
fn ten_thousand_panics_cost_no_thread_and_no_task() {
    let workers = pool(4);
    let lanes = [workers.lane(), workers.lane()];
    let good = Arc::new(AtomicUsize::new(0));
    for n in 0..10_000 {
        let task = || quiet_panic("one of many");
        match n % 3 {
            0 => workers.execute(task).unwrap(),
            lane => lanes[lane - 1].execute(task).unwrap(),
        }
        let good = Arc::clone(&good);
        lanes[n % 2]
            .execute(move || {
                good.fetch_add(1, SeqCst);
            })
            .unwrap();
    }
    assert_eq!(workers.figures().threads, 4);
    end(&workers);
    let figures = workers.figures();
    assert_eq!((figures.panics, figures.completed), (10_000, 10_000));
    assert_eq!((figures.pending, figures.running, figures.threads), (0, 0, 0));
    assert_eq!(good.load(SeqCst), 10_000);
}

#[test]
fn a_result_that_panics_when_dropped_costs_no_thread() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic("from drop");
        }
    }
    let workers = pool(1);
    let gate = hold(&workers);
    // Nobody wants the first result; the second panic carries a bomb itself.
    drop(workers.submit(|| Bomb).unwrap());
    workers.execute(|| resume_unwind(Box::new(Bomb))).unwrap();
    drop(gate);
    assert_eq!(workers.submit(|| 1).unwrap().wait(), Ok(1));
    assert_eq!(workers.figures().threads, 1);
}

#[test]
fn shutdown_runs_everything_that_was_accepted_and_refuses_the_rest() {
    let workers = pool(2);
    let gates = [hold(&workers), hold(&workers)];
    let lane = workers.lane();
    let ran = Arc::new(AtomicUsize::new(0));
    for n in 0..300 {
        let ran = Arc::clone(&ran);
        let task = move || {
            ran.fetch_add(1, SeqCst);
        };
        match n % 3 {
            0 => workers.execute(task).unwrap(),
            1 => lane.execute(task).unwrap(),
            _ => workers.execute_keyed(&n, task).unwrap(),
        }
    }
    let termination = workers.shutdown_gracefully(LONG);
    assert_eq!(termination.wait_timeout(Duration::ZERO), None, "two tasks are held");
    assert_eq!(workers.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
    assert_eq!(lane.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
    assert_eq!(workers.execute_keyed("key", || ()).unwrap_err().why, RefusedWhy::ShutDown);

    drop(gates);
    termination.wait().unwrap();
    assert_eq!(ran.load(SeqCst), 300);
    assert_eq!(workers.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
    workers.termination().wait().unwrap();
    assert_eq!(workers.shutdown_gracefully(Duration::ZERO).wait(), Ok(()), "the same termination again");
}

#[test]
fn a_pool_that_never_ran_a_task_ends_even_without_time_to_do_so() {
    let workers = pool(3);
    assert_eq!(workers.shutdown_gracefully(Duration::ZERO).wait(), Ok(()));
    assert_eq!(workers.figures().threads, 0);
}

#[test]
fn an_overdue_shutdown_says_what_is_left_and_the_rest_still_runs() {
    let workers = pool(1);
    let gate = hold(&workers);
    let (ran, runs) = channel();
    for n in 0..3 {
        let ran = ran.clone();
        workers.execute(move || ran.send(n).unwrap()).unwrap();
    }
    let overdue = ShutdownError::Overdue { pending: 3, running: 1 };
    let termination = workers.shutdown_gracefully(Duration::ZERO);
    assert_eq!(termination.wait(), Err(overdue.clone()));
    assert_eq!(workers.shutdown_gracefully(LONG).wait(), Err(overdue.clone()), "the first call decides");
    let message = overdue.to_string();
    assert!(message.contains("3 tasks pending and 1 running"), "{message}");
    let ended = workers.termination();
    assert_eq!(ended.wait_timeout(Duration::ZERO), None);

    drop(gate);
    ended.wait().unwrap();
    drop(ran);
    assert!(runs.iter().eq(0..3));
}

#[test]
fn a_task_offered_in_the_race_with_shutdown_runs_or_is_refused() {
    for _ in 0..200 {
        let workers = pool(2);
        let (start, ran) = (Barrier::new(3), Arc::new(AtomicUsize::new(0)));
        let accepted: usize = thread::scope(|scope| {
            let producers = [0, 1].map(|producer| {
                let (workers, start, ran) = (&workers, &start, &ran);
                scope.spawn(move || {
                    let lane = workers.lane();
                    start.wait();
                    let offers = (0..100).map(|n| {
                        let ran = Arc::clone(ran);
                        let task = move || {
                            ran.fetch_add(1, SeqCst);
                        };
                        if (n + producer) % 2 == 0 { lane.execute(task) } else { workers.execute(task) }
                    });
                    offers.filter(Result::is_ok).count()
                })
            });
            start.wait();
            workers.shutdown_gracefully(LONG).wait().unwrap();
            producers.map(|producer| producer.join().unwrap()).iter().sum()
        });
        assert_eq!(ran.load(SeqCst), accepted);
        assert_eq!(workers.figures().completed, accepted as u64);
    }
}

#[test]
fn a_worker_that_waits_for_its_own_pool_gets_an_error_and_not_a_deadlock() {
    let workers = pool(1);
    let inside = workers.clone();
    let waited = workers.submit(move || {
        let termination = inside.shutdown_gracefully(LONG);
        (termination.wait(), inside.termination().wait_timeout(LONG))
    });
    let would_block = Err(ShutdownError::WouldBlockWorker);
    assert_eq!(waited.unwrap().wait(), Ok((would_block.clone(), Some(would_block))));
    workers.termination().wait().unwrap();

    // Waiting for another pool is fine.
    let (other, ended) = (pool(1), workers.termination());
    assert_eq!(other.submit(move || ended.wait()).unwrap().wait(), Ok(Ok(())));
}

#[test]
fn an_event_loop_that_waits_for_a_pool_gets_an_error() {
    let workers = pool(1);
    let gate = hold(&workers);
    let termination = workers.shutdown_gracefully(LONG);
    let entered = loop_thread::enter(1);
    assert_eq!(termination.wait(), Err(ShutdownError::WouldBlockLoop));
    drop(entered);
    drop(gate);
    termination.wait().unwrap();
}

#[test]
fn a_termination_can_be_awaited() {
    struct Notice(Mutex<Sender<()>>);
    impl Wake for Notice {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().unwrap().send(());
        }
    }
    let workers = pool(1);
    let gate = hold(&workers);
    let (sender, woken) = channel();
    let waker = Waker::from(Arc::new(Notice(Mutex::new(sender))));
    let mut cx = Context::from_waker(&waker);
    let mut termination = pin!(workers.shutdown_gracefully(LONG));
    assert_eq!(termination.as_mut().poll(&mut cx), Poll::Pending);
    drop(gate);
    received(&woken);
    assert_eq!(termination.as_mut().poll(&mut cx), Poll::Ready(Ok(())));
}

/// Tells when the thread whose thread-locals it sits in has ended.
struct ThreadEnd(Sender<()>);

impl Drop for ThreadEnd {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

thread_local! {
    static THREAD_END: RefCell<Option<ThreadEnd>> = const { RefCell::new(None) };
}

#[test]
fn dropping_every_handle_finishes_the_accepted_tasks_and_ends_the_threads() {
    const THREADS: usize = 4;
    let workers = pool(THREADS);
    let (ended, ends) = channel();
    let meeting = Arc::new(Barrier::new(THREADS + 1));
    for _ in 0..THREADS {
        let (meeting, ended) = (Arc::clone(&meeting), ended.clone());
        let mark = move || {
            THREAD_END.set(Some(ThreadEnd(ended)));
            meeting.wait(); // all threads are here: each is marked
            meeting.wait(); // the handles are gone
        };
        workers.execute(mark).unwrap();
    }
    drop(ended);
    meeting.wait();

    let (ran, runs) = channel();
    let (lane, keyed) = (workers.lane(), workers.lane_for("key"));
    for n in 0..50 {
        let ran = ran.clone();
        lane.execute(move || ran.send(n).unwrap()).unwrap();
    }
    drop(ran);
    let termination = workers.termination();
    drop(workers);
    drop(keyed);
    assert_eq!(termination.wait_timeout(Duration::ZERO), None, "a lane is a handle too");
    drop(lane);
    meeting.wait();

    assert!(runs.iter().eq(0..50));
    (0..THREADS).for_each(|_| received(&ends));
    assert!(ends.recv().is_err());
    termination.wait().unwrap();
}

#[test]
fn the_last_handle_may_go_with_a_task_on_a_worker() {
    let workers = pool(1);
    let gate = hold(&workers);
    let (termination, inside) = (workers.termination(), workers.lane());
    // Once inside a task that runs, once inside one that comes back refused and is dropped here.
    workers.execute(move || drop(inside)).unwrap();
    drop(gate);
    drop(workers);
    termination.wait().unwrap();

    let workers = pool(1);
    end(&workers);
    let inside = workers.clone();
    let refused = workers.execute(move || drop(inside));
    drop(workers);
    assert!(refused.is_err());
    drop(refused);
}

#[test]
fn zero_arguments_are_errors_that_name_argument_value_and_what_is_allowed() {
    let error = Workers::new(0).unwrap_err();
    assert_eq!(error.to_string(), "threads = 0: allowed is 1 to 32768");
    let error = Workers::builder().max_pending(0).build().unwrap_err();
    assert_eq!(error.to_string(), format!("max_pending = 0: allowed is 1 to {}", usize::MAX));
    let error = Workers::builder().threads(usize::MAX).build().unwrap_err();
    assert_eq!(error.to_string(), format!("threads = {}: allowed is 1 to 32768", usize::MAX));
    let error = Workers::builder().name("a\0b").build().unwrap_err();
    assert_eq!(error.to_string(), r#"name = "a\0b": allowed is any text without a zero byte"#);
}

#[test]
fn threads_carry_the_prefix_and_their_number() {
    let workers = Workers::builder().threads(3).name("disk").build().unwrap();
    let meeting = Arc::new(Barrier::new(3));
    let names = [(); 3].map(|()| {
        let meeting = Arc::clone(&meeting);
        workers.submit(move || {
            meeting.wait();
            thread::current().name().unwrap().to_owned()
        })
    });
    let mut names = names.map(|name| name.unwrap().wait().unwrap());
    names.sort();
    assert_eq!(names, ["disk-0", "disk-1", "disk-2"]);
    assert!(format!("{workers:?}").contains("disk"));
}

#[test]
fn a_thread_that_does_not_start_ends_the_earlier_ones_and_is_named() {
    let ((begun, begins), (ended, ends)) = (channel(), channel());
    let (begun, begins, ended) = (Mutex::new(begun), Mutex::new(begins), Mutex::new(ended));
    let left = AtomicUsize::new(2);
    let factory = ThreadFactory::new()
        .on_start(move |_| begun.lock().unwrap().send(()).unwrap())
        .on_end(move |_| ended.lock().unwrap().send(()).unwrap())
        .spawner(move |name, body| {
            if left.fetch_sub(1, SeqCst) == 0 {
                (0..2).for_each(|_| received(&begins.lock().unwrap()));
                return Err(io::Error::other("out of threads"));
            }
            thread::Builder::new().name(name).spawn(body).map(drop)
        });
    let error = Workers::builder().threads(5).name("w").thread_factory(factory).build().unwrap_err();
    assert_eq!(error.to_string(), r#"the thread "w-2" did not start: out of threads"#);
    assert!(std::error::Error::source(&error).is_some());
    // They were waited for: both have told by now.
    assert_eq!(ends.try_iter().count(), 2);
}

/// Builds two threads within `patience`, of which the second fails, and gives the error back; fails itself if that takes long.
fn build_fails(factory: ThreadFactory, patience: Duration) -> String {
    let (tell, told) = channel();
    let build = move || {
        let built = Workers::builder().threads(2).name("w").thread_factory(factory).build_within(patience);
        tell.send(built.unwrap_err().to_string()).unwrap();
    };
    thread::spawn(build);
    received(&told)
}

#[test]
fn a_pool_that_cannot_be_built_waits_for_no_thread_that_has_not_begun_and_none_begins_later() {
    let kept = Arc::new(Mutex::new(None));
    let (keep, made) = (kept.clone(), AtomicUsize::new(0));
    let hooks = Arc::new(AtomicUsize::new(0));
    let (begins, ends) = (hooks.clone(), hooks.clone());
    let factory = ThreadFactory::new()
        .on_start(move |_| _ = begins.fetch_add(1, SeqCst))
        .on_end(move |_| _ = ends.fetch_add(1, SeqCst))
        .spawner(move |_, body| match made.fetch_add(1, SeqCst) {
            0 => {
                *keep.lock().unwrap() = Some(body);
                Ok(())
            }
            _ => Err(io::Error::other("only one today")),
        });
    let error = build_fails(factory, Duration::MAX);
    assert_eq!(error, r#"the thread "w-1" did not start: only one today"#);
    let late = kept.lock().unwrap().take().unwrap();
    thread::spawn(late).join().unwrap();
    assert_eq!(hooks.load(SeqCst), 0, "a thread that comes after all has nothing to do");
}

#[test]
fn a_pool_that_cannot_be_built_does_not_wait_without_end_for_a_hook() {
    let ((begun, begins), (gate, opened), (ended, ends)) = (channel(), channel::<()>(), channel());
    let (begun, begins, opened, ended) =
        (Mutex::new(begun), Mutex::new(begins), Mutex::new(opened), Mutex::new(ended));
    let made = AtomicUsize::new(0);
    let factory = ThreadFactory::new()
        .on_start(move |_| {
            begun.lock().unwrap().send(()).unwrap();
            let _ = opened.lock().unwrap().recv();
        })
        .on_end(move |_| ended.lock().unwrap().send(()).unwrap())
        .spawner(move |name, body| match made.fetch_add(1, SeqCst) {
            0 => thread::Builder::new().name(name).spawn(body).map(drop),
            _ => {
                received(&begins.lock().unwrap());
                Err(io::Error::other("only one today"))
            }
        });
    let error = build_fails(factory, Duration::ZERO);
    assert_eq!(error, r#"the thread "w-1" did not start: only one today"#);
    drop(gate);
    received(&ends); // it ends when it can
}

#[test]
fn handles_can_be_shared_between_threads() {
    fn shared<T: Clone + Send + Sync>() {}
    shared::<Workers>();
    shared::<Lane>();
    shared::<WorkersTermination>();
}

#[test]
fn the_threads_of_a_factory_run_its_hooks_and_one_that_panics_costs_nothing() {
    let (sender, receiver) = channel();
    let (begins, ends) = (Mutex::new(sender.clone()), Mutex::new(sender));
    let factory = ThreadFactory::new()
        .stack_size(128 * 1024)
        .on_start(move |name| {
            begins.lock().unwrap().send(format!("{name} begins")).unwrap();
            quiet_panic("a hook");
        })
        .on_end(move |name| ends.lock().unwrap().send(format!("{name} ends")).unwrap());
    let workers = Workers::builder().threads(1).name("w").thread_factory(factory).build().unwrap();
    assert_eq!(workers.submit(|| 1).unwrap().wait(), Ok(1));
    end(&workers);
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), ["w-0 begins", "w-0 ends"], "before the end is told");
}

#[test]
fn a_factory_that_cannot_work_is_refused_and_what_its_threads_leave_undone_is_told() {
    let tiny = ThreadFactory::new().stack_size(1);
    let error = Workers::builder().threads(1).thread_factory(tiny).build().unwrap_err();
    assert!(error.to_string().starts_with("stack_size is 1, but must be between "), "{error}");

    let huge = ThreadFactory::new().stack_size(isize::MAX as usize / 2);
    let error = Workers::builder().threads(1).name("w").thread_factory(huge).build().unwrap_err().to_string();
    assert!(
        error.starts_with(r#"the thread "w-0" did not start: "#) && error.contains("with a stack of"),
        "{error}"
    );

    // A spawner that says yes and drops the body later: nobody runs what was accepted.
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = kept.clone();
    let forgets = ThreadFactory::new().spawner(move |_, body| {
        keep.lock().unwrap().push(body);
        Ok(())
    });
    let workers = Workers::builder().threads(1).thread_factory(forgets).build().unwrap();
    let mut never = workers.submit(|| ()).unwrap();
    kept.lock().unwrap().clear();
    assert_eq!(never.wait(), Err(TaskError::Abandoned));
    assert_eq!(workers.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
    workers.termination().wait().unwrap();
}

//! `cx.spawn`, `cx.offload`, `cx.schedule`: what comes back to a handler, and what never does.

use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, CloseCause, EmbeddedChannel, Workers, pipeline, time};
use netwright_testkit::allocations_during;
use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    future::{pending, poll_fn},
    rc::Rc,
    sync::mpsc,
    task::{Poll, Waker},
    time::Duration,
};

#[global_allocator]
static ALLOCATOR: netwright_testkit::CountingAllocator = netwright_testkit::CountingAllocator;

type Cx<'a> = AppContext<'a, App>;

type OnRead = Box<dyn FnMut(&mut Cx<'_>, BytesMut)>;

/// Runs a closure with every message.
struct App {
    seen: Rc<RefCell<Vec<String>>>,
    on_read: OnRead,
}

impl Application for App {
    type Read = BytesMut;
    type Write = Bytes;
    fn read(&mut self, cx: &mut Cx<'_>, msg: BytesMut) {
        (self.on_read)(cx, msg);
    }
    fn removed(&mut self) {
        self.seen.borrow_mut().push("removed".to_owned());
    }
}

fn channel(
    on_read: impl FnMut(&mut Cx<'_>, BytesMut) + 'static,
) -> (EmbeddedChannel<Infallible, Bytes>, Rc<RefCell<Vec<String>>>) {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let app = App { seen: seen.clone(), on_read: Box::new(on_read) };
    (EmbeddedChannel::new(pipeline().app(app)), seen)
}

/// Tells when it is dropped.
struct Dropped(Rc<Cell<bool>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn the_output_comes_back_with_the_handler_in_hand() {
    let (mut channel, seen) = channel(|cx, msg| {
        cx.spawn(async move { msg.len() }, |app, cx, len| {
            app.seen.borrow_mut().push(format!("{len}"));
            cx.write_and_flush(Bytes::from(vec![b'x'; len]));
        });
    });
    channel.write_inbound(b"four");
    assert_eq!(channel.read_outbound().unwrap(), "xxxx");
    assert_eq!(*seen.borrow(), ["4"]);
}

#[test]
fn a_future_that_waits_is_polled_when_it_is_woken_and_not_before() {
    let (waker, polls) = (Rc::new(RefCell::new(None::<Waker>)), Rc::new(Cell::new(0)));
    let (its_waker, its_polls) = (waker.clone(), polls.clone());
    let (mut channel, seen) = channel(move |cx, _| {
        let (waker, polls, mut woken) = (its_waker.clone(), its_polls.clone(), false);
        let future = poll_fn(move |cx| {
            polls.set(polls.get() + 1);
            if std::mem::replace(&mut woken, waker.borrow().is_some()) {
                return Poll::Ready(());
            }
            *waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        });
        cx.spawn(future, |app, _, ()| app.seen.borrow_mut().push("done".to_owned()));
    });
    channel.write_inbound(b"x");
    let at_first = polls.get();
    channel.run().run();
    assert_eq!(polls.get(), at_first, "nobody woke it");
    let wake = waker.borrow().clone().unwrap();
    std::thread::spawn(move || wake.wake()).join().unwrap();
    channel.run();
    assert_eq!(*seen.borrow(), ["done"]);
    waker.borrow().clone().unwrap().wake(); // late: nobody is left to hear it
    channel.run();
}

#[test]
fn the_end_of_the_channel_drops_the_future_and_nothing_comes_back() {
    let dropped = Rc::new(Cell::new(false));
    let guard = dropped.clone();
    let (mut channel, seen) = channel(move |cx, _| {
        let guard = Dropped(guard.clone());
        cx.spawn(
            async move {
                pending::<()>().await;
                drop(guard);
            },
            |app, _, ()| app.seen.borrow_mut().push("never".to_owned()),
        );
    });
    channel.write_inbound(b"x");
    assert!(!dropped.get());
    channel.close_by_peer();
    assert!(dropped.get());
    assert_eq!(*seen.borrow(), ["removed"]);
}

#[test]
fn an_aborted_future_is_dropped_at_once_and_only_once() {
    let dropped = Rc::new(Cell::new(false));
    let (guard, mut task) = (dropped.clone(), None);
    let (mut channel, seen) = channel(move |cx, _| match task.take() {
        None => {
            let guard = Dropped(guard.clone());
            let future = async move {
                pending::<()>().await;
                drop(guard);
            };
            task = Some(cx.spawn(future, |_, _, ()| ()));
        }
        Some(task) => {
            assert!(cx.abort(task));
            assert!(!cx.abort(task), "it is gone");
        }
    });
    channel.write_inbound(b"x");
    assert!(!dropped.get());
    channel.write_inbound(b"x");
    assert!(dropped.get() && seen.borrow().is_empty());
}

#[test]
fn a_panic_in_the_future_or_behind_it_closes_the_channel_with_the_message() {
    for behind in [false, true] {
        let (mut channel, seen) = channel(move |cx, _| {
            let future = async move { assert!(behind, "in the future") };
            cx.spawn(future, |_, _, ()| panic!("behind the future"));
        });
        channel.write_inbound(b"x");
        let Some(CloseCause::Panicked(message)) = channel.channel().close_cause() else { panic!() };
        assert_eq!(message, if behind { "behind the future" } else { "in the future" });
        assert_eq!(*seen.borrow(), ["removed"]);
    }
}

#[test]
fn offloaded_work_runs_elsewhere_and_comes_back_here() {
    let here = std::thread::current().id();
    let (done, wait) = mpsc::channel();
    let (mut channel, seen) = channel(move |cx, _| {
        let done = done.clone();
        let work = move || {
            done.send(()).unwrap();
            std::thread::current().id()
        };
        cx.offload(work, move |app, _, there| {
            assert_eq!(std::thread::current().id(), here);
            assert_ne!(there, here);
            app.seen.borrow_mut().push("back".to_owned());
        });
    });
    channel.write_inbound(b"x");
    wait.recv().unwrap();
    while seen.borrow().is_empty() {
        channel.run();
    }
    assert_eq!(*seen.borrow(), ["back"]);
}

#[test]
fn a_panic_in_offloaded_work_closes_the_channel_and_full_workers_are_an_error() {
    let workers = Workers::builder().threads(1).build().unwrap();
    let pool = workers.clone();
    let (mut panics, _) = channel(move |cx, _| {
        cx.offload_to(&pool, || panic!("no such row"), |_, _, ()| ());
    });
    panics.write_inbound(b"x");
    while panics.is_open() {
        panics.run();
    }
    let Some(CloseCause::Panicked(message)) = panics.channel().close_cause() else { panic!() };
    assert_eq!(message, "no such row");

    workers.shutdown_gracefully(Duration::MAX).wait().unwrap();
    let (mut refused, _) = channel(move |cx, _| {
        cx.offload_to(&workers, || (), |_, _, ()| ());
    });
    refused.write_inbound(b"x");
    let cause = refused.channel().close_cause().unwrap().to_string();
    assert!(cause.contains("refused offloaded work"), "{cause}");
}

#[test]
fn a_closure_for_later_runs_when_its_time_has_come_and_a_dropped_sleep_leaves_no_timer() {
    let (mut channel, seen) = channel(|cx, _| {
        cx.schedule(Duration::from_secs(5), |app, _| app.seen.borrow_mut().push("five".to_owned()));
        let short = time::timeout(Duration::from_secs(1), time::sleep(Duration::from_secs(3600)));
        cx.spawn(short, |app, _, result| app.seen.borrow_mut().push(result.unwrap_err().to_string()));
    });
    channel.write_inbound(b"x");
    channel.advance(Duration::from_millis(999));
    assert!(seen.borrow().is_empty());
    channel.advance(Duration::from_millis(1));
    assert_eq!(*seen.borrow(), ["not done within 1s"]);
    channel.advance(Duration::from_secs(4));
    assert_eq!(seen.borrow().last().unwrap(), "five");
    assert_eq!(channel.event_loop().handle().figures().timers_pending, 0, "the hour is not waited for");
}

#[test]
fn an_interval_leaves_out_the_ticks_that_it_missed() {
    let (mut channel, seen) = channel(|cx, _| {
        let told = Rc::new(RefCell::new(Vec::new()));
        let ticks = told.clone();
        let future = async move {
            let (start, mut interval) = (time::now(), time::interval(Duration::from_secs(1)));
            for _ in 0..3 {
                let due = interval.tick().await;
                ticks.borrow_mut().push((due - start).as_secs());
                time::sleep(Duration::from_millis(2500)).await;
            }
        };
        cx.spawn(future, move |app, _, ()| app.seen.borrow_mut().push(format!("{:?}", told.borrow())));
    });
    channel.write_inbound(b"x");
    channel.advance(Duration::from_secs(60));
    assert_eq!(*seen.borrow(), ["[1, 2, 4]"], "the tick of 2 is seen at 3.5, and that of 3 is left out");
}

#[test]
fn a_ready_future_costs_one_allocation_in_steady_state() {
    let count = Rc::new(Cell::new(0));
    let told = count.clone();
    let (mut channel, _) = channel(move |cx, msg| {
        drop(msg);
        let told = told.clone();
        let allocated = allocations_during(|| {
            cx.spawn(std::future::ready(1), |_, _, one: i32| assert_eq!(one, 1));
        });
        told.set(allocated.0);
    });
    for _ in 0..10 {
        channel.write_inbound(b"x");
    }
    assert!(count.get() <= 1, "{} allocations", count.get());
}

/// Whoever calls a channel a thousand times before it looks has called it once: others on the loop wait for no more than that.
#[test]
fn calls_and_wake_ups_of_one_channel_cost_its_loop_one_task() {
    let (pending, calls) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    let (its_pending, its_calls) = (pending.clone(), calls.clone());
    let wakers = Rc::new(RefCell::new(Vec::<Waker>::new()));
    let its_wakers = wakers.clone();
    let (mut channel, seen) = channel(move |cx, msg| {
        if &msg[..] == b"wait" {
            for _ in 0..100 {
                let (wakers, mut woken) = (its_wakers.clone(), false);
                let waits = poll_fn(move |cx| {
                    if std::mem::replace(&mut woken, true) {
                        return Poll::Ready(());
                    }
                    wakers.borrow_mut().push(cx.waker().clone());
                    Poll::Pending
                });
                let calls = its_calls.clone();
                cx.spawn(waits, move |_, _, ()| calls.set(calls.get() + 1));
            }
            return;
        }
        let before = cx.view().event_loop().figures().tasks_pending;
        its_wakers.borrow_mut().drain(..).for_each(Waker::wake);
        for _ in 0..1000 {
            let back = cx.caller();
            back.call(|app, _| app.seen.borrow_mut().push("called".to_owned()));
        }
        its_pending.set(cx.view().event_loop().figures().tasks_pending - before);
    });
    channel.write_inbound(b"wait");
    channel.write_inbound(b"go");
    assert_eq!(pending.get(), 1);
    assert_eq!(seen.borrow().len(), 1000);
    assert_eq!(calls.get(), 100);
}

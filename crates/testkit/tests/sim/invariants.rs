//! What must never be is noticed, whoever is to blame; and programs that have much to do are not.

use super::{faults::failure, programs::echo_server};
use bytes::Bytes;
use netwright_core::{
    EventLoop, LocalLoop, PromiseError, Workers, WriteError,
    driver::{Event, Source, Token},
    pipeline, promise, world,
};
use netwright_testkit::sim::{Host, Link, Sim};
use netwright_transport::{Client, Server};
use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs something on the host's own loop.
fn on_loop(host: &Host, task: impl FnOnce(&LocalLoop) + Send + 'static) {
    host.event_loop().execute(move || task(&LocalLoop::current().unwrap())).unwrap();
}

/// Does what it is told when it is called, and ends when its loop does, or not.
struct Restless {
    called: fn(&LocalLoop, Token),
    token: Token,
    stays: bool,
}

impl Restless {
    fn begin(local: &LocalLoop, stays: bool, called: fn(&LocalLoop, Token)) -> Token {
        let token = local
            .register_with(|token| Ok::<_, netwright_core::RefusedWhy>(Self { called, token, stays }))
            .unwrap();
        local.call(token);
        token
    }
}

impl Source for Restless {
    fn ready(&mut self, _: Event) {
        (self.called)(&LocalLoop::current().unwrap(), self.token);
    }

    fn signal(&mut self, _: u64) {
        (self.called)(&LocalLoop::current().unwrap(), self.token);
    }

    fn shut_down(&mut self) {
        if !self.stays {
            LocalLoop::current().unwrap().deregister(self.token);
        }
    }
}

/// What a run says at its end, or in the middle, in which this was done on a host's loop.
fn failure_of(task: impl FnOnce(&LocalLoop) + Send + 'static) -> String {
    failure(|| {
        Sim::seed(1).run(|sim| {
            on_loop(&sim.host("a"), task);
            sim.run_for(secs(600));
        });
    })
}

#[test]
fn a_source_that_does_not_leave_with_its_loop_is_a_failure() {
    let text = failure_of(|local| _ = Restless::begin(local, true, |_, _| {}));
    assert!(text.contains("1 sources that did not end"), "{text}");
}

#[test]
fn a_timer_that_outlives_its_source_is_a_failure() {
    let text = failure_of(|local| {
        let token = Restless::begin(local, false, |_, _| {});
        local.arm(token, secs(7200), 1);
        local.deregister(token);
    });
    assert!(text.contains("1 timers of sources that had gone"), "{text}");
}

#[test]
fn a_promise_of_which_nobody_hears_is_a_failure_and_one_that_is_dropped_is_not() {
    let text = failure_of(|_| {
        let (done, _promised) = promise::<(), WriteError>();
        mem::forget(done);
        let (done, _promised) = promise::<u32, PromiseError>();
        drop(done); // whoever waits for it hears that it was abandoned
    });
    assert!(text.contains("1 promises of a") && text.contains("WriteError"), "{text}");
    assert!(!text.contains("u32"), "{text}");
}

#[test]
fn what_a_program_finds_wrong_in_its_own_books_is_a_failure() {
    let text = failure_of(|_| world::current().unwrap().flaw("two and two are five".to_owned()));
    assert!(text.contains("two and two are five"), "{text}");
}

#[test]
fn a_source_that_calls_itself_for_ever_spins() {
    let text = failure_of(|local| _ = Restless::begin(local, false, |local, token| local.call(token)));
    assert!(text.contains("spins"), "{text}");
}

#[test]
fn a_source_that_is_called_by_its_own_caller_for_ever_spins() {
    let text =
        failure_of(|local| _ = Restless::begin(local, false, |local, token| local.caller(token).call()));
    assert!(text.contains("spins"), "{text}");
}

#[test]
fn a_future_that_wakes_itself_for_ever_spins() {
    let text = failure_of(|local| {
        let restless = std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        drop(local.spawn(restless).unwrap());
    });
    assert!(text.contains("spins"), "{text}");
}

#[test]
fn a_task_that_submits_itself_for_ever_spins() {
    fn again() {
        LocalLoop::current().unwrap().handle().execute(again).unwrap();
    }
    let text = failure_of(|_| again());
    assert!(text.contains("spins"), "{text}");
}

#[test]
fn timers_that_are_always_due_spin() {
    let at_once = failure_of(|local| {
        Restless::begin(local, false, |local, token| _ = local.arm(token, Duration::ZERO, 1));
    });
    assert!(at_once.contains("spins"), "{at_once}");
    let behind = failure_of(|local| {
        drop(local.handle().schedule_at_fixed_rate(Duration::ZERO, Duration::from_nanos(1), || ()).unwrap());
    });
    assert!(behind.contains("spins"), "{behind}");
}

#[test]
fn a_spin_beside_a_conversation_is_noticed_as_well() {
    let text = failure(|| {
        Sim::seed(2).run(|sim| {
            sim.host("server").start(echo_server).unwrap();
            let host = sim.host("client");
            on_loop(&host, |local| _ = Restless::begin(local, false, |local, token| local.call(token)));
            let tick = |local: &LocalLoop| {
                let often = Duration::from_millis(50);
                drop(local.handle().schedule_at_fixed_rate(often, often, || ()).unwrap());
            };
            on_loop(&host, tick);
            for _ in 0..1_000 {
                on_loop(&host, |_| ());
                sim.run_for(Duration::from_millis(50));
            }
        });
    });
    assert!(text.contains("spins"), "{text}");
}

#[test]
fn loops_that_have_much_to_do_do_not_spin() {
    Sim::seed(3).run(|sim| {
        sim.link(Link::default().latency(Duration::from_micros(50)));
        sim.host("server").start(echo_server).unwrap();
        let host = sim.host("client");
        // A clock that ticks as fast as timers go.
        on_loop(&host, |local| {
            let tick = Duration::from_millis(1);
            drop(local.handle().schedule_at_fixed_rate(tick, tick, || ()).unwrap());
        });
        // A long computation in pieces.
        let pieces = Arc::new(AtomicUsize::new(0));
        let counted = pieces.clone();
        let mut computed = host
            .spawn(std::future::poll_fn(move |cx| {
                if counted.fetch_add(1, Ordering::Relaxed) == 20_000 {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                Poll::Pending
            }))
            .unwrap();
        host.enter(|| computed.wait()).unwrap();
        // Two loops that never leave each other in peace.
        fn throw(to: EventLoop, back: EventLoop, left: u32) {
            if left > 0 {
                to.clone().execute(move || throw(back, to, left - 1)).unwrap();
            }
        }
        let (a, b) = (host.event_loop(), host.enter(EventLoop::new));
        host.enter(|| throw(a, b, 60_000));
        // And a conversation that never pauses.
        let got = Arc::new(AtomicUsize::new(0));
        let count = got.clone();
        host.enter(|| {
            let client = Client::builder()
                .pipeline(move || {
                    let count = count.clone();
                    pipeline().handle(move |cx, bytes: bytes::BytesMut| {
                        count.fetch_add(bytes.len(), Ordering::Relaxed);
                        cx.write_and_flush(bytes.freeze());
                    })
                })
                .unwrap();
            let channel = client.connect("server:7").wait().unwrap();
            channel.write_and_flush(Bytes::from(vec![7; 1_000]));
            sim.run_for(secs(2));
            assert!(got.load(Ordering::Relaxed) > 100_000, "{got:?}");
        });
    });
}

#[test]
fn a_handler_a_listener_or_a_task_of_workers_that_panics_is_a_failure() {
    let text = failure(|| {
        Sim::seed(31).run(|sim| {
            sim.host("server")
                .start(|| {
                    Server::builder()
                        .pipeline(|_| pipeline().handle(|_, _| panic!("in a handler")))
                        .bind("0.0.0.0:7")
                        .wait()
                })
                .unwrap();
            sim.host("client").enter(|| {
                let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
                let channel = client.connect("server:7").wait().unwrap();
                channel.write_and_flush("x");
                channel.closed().wait().unwrap();
            });
        });
    });
    assert!(text.contains("1 panics were contained") && text.contains("in a handler"), "{text}");
    let run = || {
        Sim::seed(32).allow_panics().run(|sim| {
            let panics = |code: fn()| {
                sim.host("a").enter(|| Workers::new(1).unwrap().submit(code).unwrap().wait()).is_err()
            };
            assert!(panics(|| panic!("in a worker")));
        })
    };
    run();
}

#[test]
fn a_worker_that_waits_for_what_never_comes_is_told_by_a_panic() {
    let text = failure(|| {
        Sim::seed(33).run(|sim| {
            let (never, mut waited_for) = promise::<(), PromiseError>();
            sim.host("a").enter(|| {
                let workers = Workers::new(1).unwrap();
                let mut task = workers.submit(move || waited_for.wait()).unwrap();
                sim.run_for(Duration::from_secs(1));
                drop(task.wait());
            });
            drop(never);
        });
    });
    assert!(text.contains("nothing is left that could happen"), "{text}");
}

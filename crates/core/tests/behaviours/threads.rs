//! How the threads of loops are made, and what happens if they cannot be.

use super::*;
use netwright_core::{
    BuildError, EventLoopGroup, LoopError, RefusedWhy, TaskError, ThreadFactory,
    driver::{Driver, DriverSeed, DriverWaker, ParkSeed},
};
use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Tells of both ends of each thread.
fn telling(log: &Log) -> ThreadFactory {
    let (begins, ends) = (log.clone(), log.clone());
    ThreadFactory::new()
        .on_start(move |name| {
            assert_eq!(thread::current().name(), Some(name));
            begins.add(format!("{name} begins"));
        })
        .on_end(move |name| {
            assert_eq!(thread::current().name(), Some(name));
            ends.add(format!("{name} ends"));
        })
}

#[test]
fn the_hooks_run_on_each_thread_the_first_before_any_task_and_the_last_before_the_end_is_told() {
    let log = Log::default();
    let group =
        EventLoopGroup::builder().loops(1).name("hooked").thread_factory(telling(&log)).build().unwrap();
    let event_loop = group.next();
    assert!(event_loop.has_thread(), "from the beginning");
    on(&event_loop, log.writer("task"));
    group.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert_eq!(log.take(), ["hooked-0 begins", "task", "hooked-0 ends"]);
}

#[test]
fn a_loop_that_gives_its_thread_back_runs_the_hooks_for_each_of_its_threads() {
    let log = Log::default();
    let event_loop = EventLoop::builder().name("hooked").thread_factory(telling(&log)).build().unwrap();
    on(&event_loop, || ());
    eventually("the thread is given back", || {
        event_loop.suspend_if_idle();
        !event_loop.has_thread()
    });
    eventually("its end was told", || log.0.lock().unwrap().len() == 2);
    on(&event_loop, || ());
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert_eq!(log.take(), ["hooked begins", "hooked ends", "hooked begins", "hooked ends"]);
}

#[test]
fn a_hook_that_panics_is_counted_and_its_loop_goes_on() {
    quiet_panics();
    let factory = ThreadFactory::new()
        .on_start(|_| panic!("on purpose: at the start"))
        .on_end(|_| panic!("on purpose: at the end"));
    let event_loop = EventLoop::builder().thread_factory(factory).build().unwrap();
    assert_eq!(on(&event_loop, || 1), 1);
    assert_eq!(event_loop.figures().panics, 1);
    event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap().wait().unwrap();
    assert_eq!(event_loop.figures().panics, 2);
}

#[test]
fn a_small_stack_holds_a_loop() {
    let factory = ThreadFactory::new().stack_size(64 * 1024);
    let group = EventLoopGroup::builder().loops(2).thread_factory(factory).build().unwrap();
    for event_loop in &group {
        assert_eq!(event_loop.submit(|| 1).unwrap().wait(), Ok(1));
    }
}

#[test]
fn a_stack_that_the_system_refuses_is_named_and_nothing_is_left_of_the_group() {
    let size = isize::MAX as usize / 2;
    let factory = ThreadFactory::new().stack_size(size);
    let builder = EventLoopGroup::builder().loops(2).name("huge").thread_factory(factory);
    let error = builder.build().expect_err("nobody has such a stack");
    assert!(matches!(&error, BuildError::Thread { thread, .. } if thread == "huge-0"), "{error:?}");
    let text = error.to_string();
    assert!(text.starts_with(r#"the thread "huge-0" could not be made: "#), "{text}");
    assert!(text.ends_with(&format!("(with a stack of {size} bytes)")), "{text}");
    let tiny = EventLoop::builder().thread_factory(ThreadFactory::new().stack_size(4096)).build();
    assert!(matches!(tiny, Err(BuildError::Argument(error)) if error.argument == "stack_size"));
}

#[test]
fn a_factory_that_fails_for_one_loop_ends_those_before_it() {
    let (log, made) = (Log::default(), AtomicUsize::new(0));
    let factory = telling(&log).spawner(move |name, body| match made.fetch_add(1, Ordering::Relaxed) {
        2 => Err(io::Error::other("only two today")),
        _ => thread::Builder::new().name(name).spawn(body).map(drop),
    });
    let built = EventLoopGroup::builder().loops(4).name("group").thread_factory(factory).build();
    let error = built.expect_err("the third thread fails").to_string();
    assert_eq!(error, r#"the thread "group-2" could not be made: only two today"#);
    let mut seen = log.take();
    seen.sort();
    assert_eq!(seen, ["group-0 begins", "group-0 ends", "group-1 begins", "group-1 ends"], "when it returns");
}

#[test]
fn a_spawner_of_ones_own_makes_the_threads_and_later_ones_too() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let factory = ThreadFactory::new().spawner(move |name, body| {
        count.fetch_add(1, Ordering::Relaxed);
        thread::Builder::new().name(format!("own {name}")).spawn(body).map(drop)
    });
    let event_loop = EventLoop::builder().name("loop").thread_factory(factory).build().unwrap();
    let name = || thread::current().name().map(str::to_owned);
    assert_eq!(on(&event_loop, name).as_deref(), Some("own loop"));
    eventually("the thread is given back", || {
        event_loop.suspend_if_idle();
        !event_loop.has_thread()
    });
    assert_eq!(on(&event_loop, name).as_deref(), Some("own loop"));
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

#[test]
fn a_spawner_that_fails_later_gives_the_task_back_and_is_tried_again() {
    let fails = Arc::new(AtomicUsize::new(0));
    let failing = fails.clone();
    let factory = ThreadFactory::new().spawner(move |name, body| match failing.load(Ordering::Relaxed) {
        0 => thread::Builder::new().name(name).spawn(body).map(drop),
        _ => Err(io::ErrorKind::OutOfMemory.into()),
    });
    let event_loop = EventLoop::builder().thread_factory(factory).build().unwrap();
    on(&event_loop, || ());
    eventually("the thread is given back", || {
        event_loop.suspend_if_idle();
        !event_loop.has_thread()
    });
    fails.store(1, Ordering::Relaxed);
    let refused = event_loop.submit(|| 7).unwrap_err();
    assert_eq!(refused.why, RefusedWhy::NoThread(io::ErrorKind::OutOfMemory));
    fails.store(0, Ordering::Relaxed);
    assert_eq!(event_loop.submit(refused.into_task()).unwrap().wait(), Ok(7));
}

#[test]
fn a_loop_whose_thread_was_promised_and_never_comes_ends_and_tells_every_promise() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = kept.clone();
    let factory = ThreadFactory::new().spawner(move |_, body| {
        keep.lock().unwrap().push(body);
        Ok(())
    });
    let event_loop = EventLoop::builder().thread_factory(factory).build().unwrap();
    let mut waits = event_loop.submit(|| ()).unwrap();
    let bodies = std::mem::take(&mut *kept.lock().unwrap());
    drop(bodies);
    assert_eq!(waits.wait(), Err(TaskError::Abandoned));
    let end = event_loop.termination().wait();
    assert!(
        matches!(&end, Err(LoopError::Start(error)) if error.to_string().contains("dropped the body")),
        "{end:?}"
    );
    assert_eq!(event_loop.execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
}

#[test]
fn a_spawner_that_gives_a_task_to_the_loop_it_makes_a_thread_for_is_refused_and_does_not_hang() {
    let (place, refused) = (Arc::new(Mutex::new(None::<EventLoop>)), Arc::new(AtomicUsize::new(0)));
    let (known, count) = (place.clone(), refused.clone());
    let factory = ThreadFactory::new().spawner(move |name, body| {
        let event_loop = known.lock().unwrap().clone();
        if event_loop.is_some_and(|event_loop| event_loop.execute(|| ()).is_err()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        thread::Builder::new().name(name).spawn(body).map(drop)
    });
    let event_loop = EventLoop::builder().thread_factory(factory).build().unwrap();
    eventually("the thread is given back", || {
        event_loop.suspend_if_idle();
        !event_loop.has_thread()
    });
    *place.lock().unwrap() = Some(event_loop.clone());
    assert_eq!(on(&event_loop, || 1), 1);
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    place.lock().unwrap().take();
}

/// A group of one loop without a thread. Whoever makes the next one does `first` to the loop, then fails or makes it.
fn without_a_thread(first: fn(&EventLoop), fails: bool) -> EventLoopGroup {
    let place = Arc::new(Mutex::new(None::<EventLoop>));
    let known = place.clone();
    let factory = ThreadFactory::new().spawner(move |name, body| {
        let event_loop = known.lock().unwrap().take();
        if let Some(event_loop) = event_loop {
            first(&event_loop);
            if fails {
                return Err(io::ErrorKind::OutOfMemory.into());
            }
        }
        thread::Builder::new().name(name).spawn(body).map(drop)
    });
    let group = EventLoopGroup::builder().loops(1).thread_factory(factory).build().unwrap();
    let event_loop = group.next();
    eventually("the thread is given back", || {
        event_loop.suspend_if_idle();
        !event_loop.has_thread()
    });
    *place.lock().unwrap() = Some(event_loop);
    group
}

#[test]
fn a_spawner_that_shuts_down_the_loop_it_makes_a_thread_for_has_it_end_and_does_not_hang() {
    let now: fn(&EventLoop) = |event_loop| drop(event_loop.shutdown_now());
    let gracefully: fn(&EventLoop) =
        |event_loop| drop(event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap());
    let all_of_them: fn(&EventLoop) = |event_loop| drop(event_loop.parent().unwrap().shutdown_now());
    let both: fn(&EventLoop) = |event_loop| {
        drop(event_loop.shutdown_gracefully(Duration::ZERO, PATIENCE).unwrap());
        assert!(event_loop.execute(|| ()).is_err(), "as without the shutdown");
        drop(event_loop.shutdown_now());
    };
    let no_thread = || Err(RefusedWhy::NoThread(io::ErrorKind::OutOfMemory));
    for (shut_down, fails, expected) in [
        (now, true, no_thread()),
        (now, false, Ok(Err(TaskError::Abandoned))),
        (gracefully, true, no_thread()),
        (gracefully, false, Ok(Ok(7))),
        (all_of_them, true, no_thread()),
        (all_of_them, false, Ok(Err(TaskError::Abandoned))),
        (both, true, no_thread()),
        (both, false, Ok(Err(TaskError::Abandoned))),
    ] {
        let group = without_a_thread(shut_down, fails);
        let (event_loop, (tell, told)) = (group.next(), mpsc::channel());
        let submitter = thread::spawn(move || {
            let submitted = event_loop.submit(|| 7);
            tell.send(submitted.map(|mut promised| promised.wait()).map_err(|refused| refused.why)).unwrap();
        });
        assert_eq!(told.recv_timeout(PATIENCE).expect("the submitter returns"), expected);
        submitter.join().unwrap();
        assert_eq!(group.termination().wait_timeout(PATIENCE).map(|end| end.is_ok()), Some(true));
        assert_eq!(group.next().execute(|| ()).unwrap_err().why, RefusedWhy::ShutDown);
    }
}

#[test]
fn a_loop_does_not_turn_before_whoever_made_its_thread_has_returned() {
    /// Tells when the loop begins.
    struct Telling(mpsc::Sender<()>, ParkSeed);
    impl DriverSeed for Telling {
        fn waker(&self) -> Arc<dyn DriverWaker> {
            self.1.waker()
        }
        fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
            self.0.send(()).unwrap();
            Box::new(self.1).start()
        }
    }
    let ((tell, told), (runs, running)) = (mpsc::channel(), mpsc::channel());
    let (runs, running, told) = (Mutex::new(runs), Mutex::new(running), Arc::new(Mutex::new(told)));
    let begins = told.clone();
    let early = Arc::new(AtomicUsize::new(0));
    let count = early.clone();
    let factory = ThreadFactory::new().on_start(move |_| runs.lock().unwrap().send(()).unwrap()).spawner(
        move |name, body| {
            let made = thread::Builder::new().name(name).spawn(body).map(drop);
            running.lock().unwrap().recv_timeout(PATIENCE).expect("the thread runs");
            // It has a task to wait for, and would look for it again and again.
            let begun = begins.lock().unwrap().recv_timeout(ms(20));
            count.fetch_add(usize::from(begun.is_ok()), Ordering::Relaxed);
            made
        },
    );
    let driver = Telling(tell, ParkSeed::new());
    let event_loop = EventLoop::builder().driver(driver).thread_factory(factory).build().unwrap();
    assert_eq!(on(&event_loop, || 1), 1);
    assert_eq!(early.load(Ordering::Relaxed), 0);
    told.lock().unwrap().recv_timeout(PATIENCE).expect("it has begun by now");
}

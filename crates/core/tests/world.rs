//! Loops and workers that a world drives, with the smallest world that there is.
#![cfg(not(loom))]

use netwright_core::{
    EventLoop, EventLoopGroup, LoopError, PromiseError, ShutdownError, ThreadFactory, Workers,
    driver::{DriverSeed, DriverWaker, ParkSeed},
    promise, time,
    world::{self, Common, DrivenLoop, LoopBody, Turned, Worked, WorkersBody, World},
};
use std::{
    cell::RefCell,
    collections::BTreeSet,
    io,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

/// Drives what is built in it, one after the other. Time passes when nobody has anything to do.
struct Tiny {
    begun: Instant,
    passed: Mutex<Duration>,
    tags: Mutex<u64>,
    woken: Arc<Mutex<BTreeSet<u64>>>,
    bodies: Mutex<Vec<LoopBody>>,
    pools: Mutex<Vec<WorkersBody>>,
    common: Common,
}

thread_local! {
    static LOOPS: RefCell<Vec<DrivenLoop>> = const { RefCell::new(Vec::new()) };
    static POOLS: RefCell<Vec<Rc<WorkersBody>>> = const { RefCell::new(Vec::new()) };
}

struct Bell(u64, Arc<Mutex<BTreeSet<u64>>>);

impl DriverWaker for Bell {
    fn wake(&self) {
        self.1.lock().unwrap().insert(self.0);
    }
}

struct Seed(Bell);

impl DriverSeed for Seed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        Arc::new(Bell(self.0.0, self.0.1.clone()))
    }
    fn start(self: Box<Self>) -> io::Result<Box<dyn netwright_core::driver::Driver>> {
        Box::new(ParkSeed::new()).start()
    }
}

impl Tiny {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            begun: Instant::now(),
            passed: Mutex::default(),
            tags: Mutex::default(),
            woken: Arc::default(),
            bodies: Mutex::default(),
            pools: Mutex::default(),
            common: Common::default(),
        })
    }

    /// Runs `code` in a world of its own, and ends what is left of it.
    fn run(code: impl FnOnce(&Arc<Self>)) {
        let tiny = Self::new();
        let entered = world::enter(tiny.clone());
        code(&tiny);
        tiny.common.end();
        drop((LOOPS.take(), POOLS.take()));
        drop(entered);
    }

    /// Turns of all loops, and tasks of all workers, that have something to do. Whether there was any.
    fn round(&self) -> bool {
        let bodies = std::mem::take(&mut *self.bodies.lock().unwrap());
        let new: Vec<DrivenLoop> = bodies.into_iter().filter_map(LoopBody::drive).collect();
        let mut busy = !new.is_empty();
        LOOPS.with_borrow_mut(|loops| loops.extend(new));
        POOLS.with_borrow_mut(|pools| {
            pools.extend(std::mem::take(&mut *self.pools.lock().unwrap()).into_iter().map(Rc::new))
        });
        for mut driven in LOOPS.take() {
            self.woken.lock().unwrap().remove(&driven.tag());
            let turned = driven.turn();
            busy |= turned == Turned::Busy;
            if turned != Turned::Over {
                LOOPS.with_borrow_mut(|loops| loops.push(driven));
            }
        }
        for pool in POOLS.with_borrow(Clone::clone) {
            for worker in 0..pool.len() {
                busy |= pool.work(worker) == Worked::Ran;
            }
        }
        POOLS.with_borrow_mut(|pools| pools.retain(|pool| !pool.is_over()));
        busy || !self.woken.lock().unwrap().is_empty() || !self.bodies.lock().unwrap().is_empty()
    }

    fn settle(&self) {
        while self.round() {}
    }
}

impl World for Tiny {
    fn now(&self) -> Instant {
        self.begun + *self.passed.lock().unwrap()
    }
    fn system_time(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + *self.passed.lock().unwrap()
    }
    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
    fn cores(&self) -> usize {
        3
    }
    fn driver(&self) -> (u64, Box<dyn DriverSeed>) {
        let mut tags = self.tags.lock().unwrap();
        *tags += 1;
        (*tags, Box::new(Seed(Bell(*tags, self.woken.clone()))))
    }
    fn take_loop(&self, body: LoopBody) {
        self.bodies.lock().unwrap().push(body);
    }
    fn take_workers(&self, body: WorkersBody) {
        self.pools.lock().unwrap().push(body);
    }
    fn go_on(&self, deadline: Option<Instant>) -> bool {
        if self.round() {
            return true;
        }
        let loops = LOOPS.with_borrow(|loops| loops.iter().filter_map(DrivenLoop::next_timer).min());
        let pools = POOLS.with_borrow(|pools| pools.iter().filter_map(|pool| pool.next_timer()).min());
        let next = loops.into_iter().chain(pools).min();
        let Some(to) = next.into_iter().chain(deadline).min() else { return false };
        *self.passed.lock().unwrap() = to - self.begun;
        deadline.is_none_or(|deadline| to < deadline)
    }
    fn common(&self) -> &Common {
        &self.common
    }
}

#[test]
fn a_loop_that_is_built_in_a_world_has_no_thread_and_runs_when_somebody_waits() {
    Tiny::run(|_| {
        let here = std::thread::current().id();
        let event_loop = EventLoop::new();
        let mut task = event_loop.submit(|| std::thread::current().id()).unwrap();
        assert!(!task.is_done());
        assert_eq!(task.wait().unwrap(), here);
        assert_eq!(EventLoopGroup::builder().build().unwrap().len(), 3, "as many as the world has cores");
    });
}

#[test]
fn hours_pass_in_a_world_when_nobody_has_anything_to_do() {
    Tiny::run(|_| {
        let hour = Duration::from_secs(3600);
        let mut slept = EventLoop::new().spawn(async move {
            let begun = time::now();
            time::sleep(hour).await;
            time::now() - begun
        });
        let slept = slept.as_mut().unwrap();
        // The last handle has gone, and the loop with it, unless the future keeps it busy: it does not.
        assert!(slept.wait().is_err());
        let event_loop = EventLoop::new();
        let begun = world::now();
        let mut tea = event_loop.schedule(hour, world::system_time).unwrap();
        assert!(tea.wait().unwrap() >= SystemTime::UNIX_EPOCH + hour);
        assert!(world::now() - begun >= hour);
    });
}

#[test]
fn a_wait_with_an_end_ends_then_and_one_for_nothing_panics() {
    Tiny::run(|_| {
        let (promise, mut promised) = promise::<(), PromiseError>();
        let begun = world::now();
        assert!(promised.wait_timeout(Duration::from_secs(5)).is_none());
        assert_eq!(world::now() - begun, Duration::from_secs(5));
        let waits = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || promised.wait()));
        let text = *waits.unwrap_err().downcast::<&str>().unwrap();
        assert!(text.contains("nothing is left that could happen"), "{text}");
        drop(promise);
    });
}

#[test]
fn workers_of_a_world_run_their_tasks_and_lanes_in_order_and_end() {
    Tiny::run(|tiny| {
        let workers = Workers::new(2).unwrap();
        let lane = workers.lane();
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..50 {
            let order = order.clone();
            lane.execute(move || order.lock().unwrap().push(number)).unwrap();
        }
        let mut nested = workers.submit({
            let workers = workers.clone();
            move || workers.submit(|| 5).unwrap().wait().unwrap() // a world goes on for whoever waits, also for its workers
        });
        assert_eq!(nested.as_mut().unwrap().wait().unwrap(), 5);
        tiny.settle();
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
        let mut later = workers.schedule(Duration::from_secs(60), || 1).unwrap();
        assert_eq!(later.wait().unwrap(), 1);
        workers.execute(|| ()).unwrap();
        workers.shutdown_gracefully(Duration::from_secs(1)).wait().unwrap();
        assert!(workers.execute(|| ()).is_err());
        assert_eq!(workers.figures().threads, 0);
    });
}

#[test]
fn workers_that_are_cut_drop_what_waits_in_a_lane_that_one_of_them_holds_between_two_tasks() {
    Tiny::run(|tiny| {
        let workers = Workers::new(1).unwrap();
        let lane = workers.lane();
        let (promise, mut never) = promise::<(), PromiseError>();
        lane.execute(|| ()).unwrap();
        let within = lane.clone(); // as a stage on workers has it: what waits in a lane keeps the lane
        lane.execute(move || drop((within, promise))).unwrap();
        drop(lane);
        let pool = std::mem::take(&mut *tiny.pools.lock().unwrap()).remove(0);
        assert_eq!(pool.work(0), Worked::Ran);
        assert!(never.try_take().is_none());
        drop(pool);
        assert_eq!(never.try_take(), Some(Err(PromiseError::Abandoned)));
        drop(workers);
    });
}

#[test]
fn what_a_process_has_once_a_world_has_once() {
    let outside = Workers::common().unwrap().figures().threads;
    Tiny::run(|_| {
        assert_eq!(Workers::common().unwrap().figures().threads, 6, "two for each core of the world");
        let mut drawn = [0; 4];
        assert!(world::fill_random(&mut drawn) && drawn == [7; 4]);
    });
    assert_eq!(Workers::common().unwrap().figures().threads, outside);
    assert!(!world::fill_random(&mut [0; 4]));
}

#[test]
fn hooks_of_threads_run_for_loops_and_workers_of_a_world() {
    Tiny::run(|_| {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (begins, ends) = (begun.clone(), ended.clone());
        let threads = ThreadFactory::new()
            .on_start(move |_| _ = begins.fetch_add(1, Ordering::Relaxed))
            .on_end(move |_| _ = ends.fetch_add(1, Ordering::Relaxed));
        let group = EventLoopGroup::builder().loops(2).thread_factory(threads.clone()).build().unwrap();
        let workers = Workers::builder().threads(3).thread_factory(threads).build().unwrap();
        group.shutdown_gracefully(Duration::ZERO, Duration::ZERO).unwrap().wait().unwrap();
        workers.shutdown_now().wait().unwrap();
        assert_eq!((begun.load(Ordering::Relaxed), ended.load(Ordering::Relaxed)), (5, 5));
    });
}

#[test]
fn a_loop_that_its_world_drops_says_so() {
    Tiny::run(|tiny| {
        let event_loop = EventLoop::new();
        let mut task = event_loop.submit(|| ()).unwrap();
        tiny.bodies.lock().unwrap().clear();
        assert!(task.wait().is_err());
        assert!(matches!(event_loop.termination().wait(), Err(LoopError::Start(_))));
    });
}

#[test]
fn a_loop_that_is_cut_drops_what_it_had_to_do() {
    Tiny::run(|tiny| {
        let event_loop = EventLoop::new();
        event_loop.execute(|| ()).unwrap();
        tiny.settle();
        let mut task = event_loop.submit(|| ()).unwrap();
        LOOPS.take().into_iter().for_each(DrivenLoop::cut);
        assert!(task.wait().is_err());
        assert!(event_loop.execute(|| ()).is_err());
    });
}

#[test]
fn a_loop_that_gives_its_thread_back_is_driven_again_when_it_has_something_to_do() {
    Tiny::run(|tiny| {
        let event_loop = EventLoop::new();
        event_loop.submit(|| ()).unwrap().wait().unwrap();
        event_loop.suspend_if_idle();
        tiny.settle();
        assert!(!event_loop.has_thread());
        assert_eq!(event_loop.submit(|| 3).unwrap().wait().unwrap(), 3);
    });
}

#[test]
fn a_shutdown_that_takes_too_long_is_told_in_the_worlds_time() {
    Tiny::run(|tiny| {
        let workers = Workers::new(1).unwrap();
        let body = tiny.pools.lock().unwrap().pop().unwrap();
        workers.execute(|| ()).unwrap();
        let end = workers.shutdown_gracefully(Duration::from_secs(1));
        assert_eq!(body.next_timer(), Some(tiny.now() + Duration::from_secs(1)));
        *tiny.passed.lock().unwrap() += Duration::from_secs(1);
        assert_eq!(body.work(0), Worked::Ran, "what was accepted runs nevertheless");
        assert!(matches!(end.wait(), Err(ShutdownError::Overdue { pending: 1, running: 0 })));
        assert_eq!(body.work(0), Worked::Over);
        workers.termination().wait().unwrap();
    });
}

//! Every interleaving, up to a bound of preemptions, of the races that matter: a task against the shutdown, against
//! a lane that is just going idle, and against workers that are just falling asleep, one of them until a deadline.

use std::time::Duration;

use loom::model::Builder;

use super::Workers;
use crate::{
    ManualClock, ThreadFactory,
    sync::{Arc, AtomicUsize, Condvar, Mutex, Ordering, lock, thread},
};

const HOUR: Duration = Duration::from_secs(3600);

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    // Three take about fifteen seconds in a release build, and each further one multiplies that.
    builder.preemption_bound = Some(3);
    builder.check(model);
}

fn counting(ran: &Arc<AtomicUsize>) -> impl FnOnce() + Send + 'static {
    let ran = Arc::clone(ran);
    move || {
        ran.fetch_add(1, Ordering::SeqCst);
    }
}

/// Two tasks that wait for each other, so that they end only if two workers run them at the same time. Otherwise they wait for
/// ever, which loom reports as a deadlock.
fn meeting() -> [impl FnOnce() + Send + 'static; 2] {
    let place = Arc::new((Mutex::new(0), Condvar::new()));
    [(); 2].map(|()| {
        let place = Arc::clone(&place);
        move || {
            let (here, bell) = &*place;
            let mut here = lock(here);
            *here += 1;
            bell.notify_all();
            while *here < 2 {
                here = bell.wait(here).unwrap();
            }
        }
    })
}

#[test]
fn a_task_offered_in_the_race_with_shutdown_runs_or_is_refused() {
    explore(|| {
        let workers = Workers::new(1).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (other, task) = (workers.clone(), counting(&ran));
        let offer = thread::spawn(move || usize::from(other.execute(task).is_ok()));
        workers.shutdown_gracefully(Duration::MAX).wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), offer.join().unwrap());
    });
}

#[test]
fn a_lane_that_goes_idle_while_a_task_comes_in_forgets_nothing() {
    explore(|| {
        let workers = Workers::new(1).unwrap();
        let (lane, termination) = (workers.lane(), workers.termination());
        drop(workers);
        let ran = Arc::new(AtomicUsize::new(0));
        lane.execute(counting(&ran)).unwrap();
        // Waited for while the pool is open: closing wakes everybody and would hide a lost wake-up.
        lane.submit(counting(&ran)).unwrap().wait().unwrap();
        drop(lane);
        termination.wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 2);
    });
}

#[test]
fn two_workers_share_lane_and_plain_tasks_and_none_is_slept_through() {
    explore(|| {
        let workers = Workers::new(2).unwrap();
        let (lane, termination) = (workers.lane(), workers.termination());
        let ran = Arc::new(AtomicUsize::new(0));
        lane.execute(counting(&ran)).unwrap();
        workers.execute(counting(&ran)).unwrap();
        lane.submit(counting(&ran)).unwrap().wait().unwrap();
        drop((lane, workers));
        termination.wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn a_task_for_later_that_is_due_is_not_slept_through() {
    explore(|| {
        let workers = Workers::builder().threads(1).clock(ManualClock::new()).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        // Waited for while the pool is open, as above: it is due at once, and whoever is about to sleep has to see it.
        workers.schedule(Duration::ZERO, counting(&ran)).unwrap().wait().unwrap();
        let termination = workers.termination();
        drop(workers);
        termination.wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn the_worker_that_watches_the_time_takes_a_task_if_nobody_else_is_free() {
    explore(|| {
        let workers = Workers::builder().threads(2).clock(ManualClock::new()).build().unwrap();
        let later = workers.schedule(HOUR, || ()).unwrap();
        let mut met = meeting().map(|task| workers.submit(task).unwrap());
        // Waited for while the pool is open, as above.
        met.iter_mut().for_each(|met| met.wait().unwrap());
        let termination = workers.termination();
        drop((later, workers));
        termination.wait().unwrap();
    });
}

#[test]
fn tasks_that_are_due_together_run_on_as_many_workers_as_are_free() {
    explore(|| {
        let clock = ManualClock::new();
        let workers = Workers::builder().threads(2).clock(clock.clone()).build().unwrap();
        let mut met = meeting().map(|task| workers.schedule(HOUR, task).unwrap());
        clock.advance(HOUR);
        workers.execute(|| ()).unwrap(); // looks at the clock
        met.iter_mut().for_each(|met| met.wait().unwrap());
        let termination = workers.termination();
        drop(workers);
        termination.wait().unwrap();
    });
}

#[test]
fn the_thread_that_watches_a_shutdown_ends_with_the_pool() {
    explore(|| {
        let workers = Workers::new(1).unwrap();
        let lane = workers.lane();
        let ran = Arc::new(AtomicUsize::new(0));
        (0..2).for_each(|_| lane.execute(counting(&ran)).unwrap());
        // It sleeps until the hour is over, which it never is here, or until the last task is.
        let patient = workers.shutdown_gracefully(HOUR);
        workers.shutdown_now().wait().unwrap();
        patient.wait().unwrap();
    });
}

#[test]
fn the_thread_that_watches_a_shutdown_ends_with_a_pool_whose_threads_never_came() {
    explore(|| {
        let kept = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let keep = kept.clone();
        let factory = ThreadFactory::new().spawner(move |_, body| {
            keep.lock().unwrap().push(body);
            Ok(())
        });
        let workers = Workers::builder().threads(1).thread_factory(factory).build().unwrap();
        workers.execute(|| ()).unwrap();
        let patient = workers.shutdown_gracefully(HOUR);
        let bodies = std::mem::take(&mut *kept.lock().unwrap());
        drop(bodies);
        patient.wait().unwrap();
    });
}

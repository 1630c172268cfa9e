//! Every interleaving, up to a bound of preemptions, of the races that matter: a task against the shutdown, against
//! a lane that is just going idle, and against workers that are just falling asleep.

use std::time::Duration;

use loom::model::Builder;

use super::Workers;
use crate::sync::{Arc, AtomicUsize, Ordering, thread};

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
        let clock = crate::ManualClock::new();
        let workers = Workers::builder().threads(1).clock(clock).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        // Waited for while the pool is open, as above: it is due at once, and whoever is about to sleep has to see it.
        workers.schedule(Duration::ZERO, counting(&ran)).unwrap().wait().unwrap();
        let termination = workers.termination();
        drop(workers);
        termination.wait().unwrap();
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    });
}

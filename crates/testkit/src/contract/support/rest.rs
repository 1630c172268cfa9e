//! Whether loops rest in the kernel too: a call that waits there, and tries again and again meanwhile, is no turn.

use super::{PATIENCE, Soon, assert_quiet};
use netwright_core::EventLoop;
use std::{fs, sync::mpsc, time::Duration, time::Instant};

/// Hundredths of a second that a loop may be busy in a fifth of one in which nothing happens.
const BUSY_MAX: u64 = 3;

/// Fails if a loop turns although nothing happens, or if its thread, or one that the kernel works with for it, is busy.
/// Like [`assert_quiet`] it gives the loop time to come to rest.
pub(crate) fn assert_rests(loops: &[EventLoop]) {
    assert_quiet(loops);
    if !cfg!(target_os = "linux") {
        return; // elsewhere nobody tells what single threads take
    }
    for event_loop in loops {
        let thread = thread_of(event_loop);
        let begun = Instant::now();
        loop {
            let before = busy(&thread);
            event_loop.schedule(Duration::from_millis(200), || ()).unwrap().soon().unwrap();
            let busy = busy(&thread) - before;
            if busy <= BUSY_MAX {
                break;
            }
            let name = event_loop.name();
            assert!(
                begun.elapsed() < PATIENCE,
                "{name} was busy for {busy}0 of 200 ms though nothing happened"
            );
        }
    }
}

/// The system's number for a loop's thread.
fn thread_of(event_loop: &EventLoop) -> String {
    let (tell, told) = mpsc::channel();
    event_loop.execute(move || tell.send(fs::read_link("/proc/thread-self").unwrap()).unwrap()).unwrap();
    let path = told.recv_timeout(PATIENCE).expect("the loop takes a task");
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The processor time of a thread and of those that the kernel has named after it, as far as they still exist.
fn busy(thread: &str) -> u64 {
    let helpers = format!("iou-wrk-{thread}");
    let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let stats = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?; // it may have ended meanwhile
        let (start, rest) = stat.rsplit_once(") ")?;
        let (number, name) = start.split_once(" (")?;
        let of_ours = number == thread || name == helpers;
        // Behind the name: the state, ten numbers, then the time in the program and in the kernel.
        of_ours.then(|| {
            rest.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>()
        })
    });
    stats.sum()
}

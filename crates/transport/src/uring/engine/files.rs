//! Operations on files: those that wait for their turn, those that the kernel has, and those whose end is to be told.
//!
//! ```text
//!   queue_file ─▶ waiting ─▶ flights: at most so many, of so many bytes ─▶ finished ─▶ the source tells
//!                    ▲                                     │
//!                    └── more of it to be read or written ─┘      (in front, if it is to be appended)
//! ```
//! Always true:
//! 1. An operation is in one of the three, so its memory has an owner (rules 1 and 2 of `uring`).
//! 2. One that was accepted is told how it ended: by the source, or by [`FileTable::end`].
//! 3. Operations leave through `finished`, also those that were cancelled: what they own is dropped by whoever holds no borrow.

use super::{Engine, State};
use crate::uring::{
    UringSettings,
    files::{FileOperation, Landed},
    slot::{GENERATIONS, Key, Kind},
};
use netwright_core::driver::Ready;
use std::collections::VecDeque;

/// Operations that may wait in one loop: as many as tasks of workers may.
const WAITING_MAX: usize = 65_536;

/// The file operations of one loop.
pub(super) struct FileTable {
    /// Whom to tell. None: nobody has asked for anything yet, or not for a while.
    source: Option<Key>,
    waiting: VecDeque<Box<dyn FileOperation>>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    /// How they ended is theirs to tell.
    finished: Vec<Box<dyn FileOperation>>,
    in_flight: usize,
    bytes_in_flight: usize,
    operations_max: usize,
    bytes_max: usize,
}

/// A place for an operation that the kernel has.
#[derive(Default)]
struct Flight {
    generation: u32,
    bytes: usize,
    operation: Option<Box<dyn FileOperation>>,
}

impl FileTable {
    pub(super) fn new(settings: &UringSettings) -> Self {
        Self {
            source: None,
            waiting: VecDeque::new(),
            flights: Vec::new(),
            free: Vec::new(),
            finished: Vec::new(),
            in_flight: 0,
            bytes_in_flight: 0,
            operations_max: settings.file_operations,
            bytes_max: settings.file_bytes,
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The names of all that the kernel has.
    pub(super) fn names(&self) -> Vec<u64> {
        let flying = (0..).zip(&self.flights).filter(|(_, flight)| flight.operation.is_some());
        flying.map(|(index, flight)| name(index, flight.generation)).collect()
    }

    /// The loop has ended: everybody who waits is told so, or what was not told yet. What the kernel still has stays in its place, and
    /// is leaked with it.
    pub(super) fn end(&mut self) {
        let (finished, waiting) = (std::mem::take(&mut self.finished), std::mem::take(&mut self.waiting));
        finished.into_iter().chain(waiting).for_each(|mut operation| operation.tell_loop_ended());
        let flying = self.flights.iter_mut().filter_map(|flight| flight.operation.as_mut());
        flying.for_each(|operation| operation.tell_loop_ended());
    }

    /// Puts an operation where its memory stays until the kernel has done with it.
    fn fly(&mut self, operation: Box<dyn FileOperation>, bytes: usize) -> u64 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.flights.push(Flight::default());
            self.flights.len() as u32 - 1 // no more than may be in flight
        });
        let flight = &mut self.flights[index as usize];
        flight.bytes = bytes;
        flight.operation = Some(operation);
        self.in_flight += 1;
        self.bytes_in_flight += bytes;
        name(index, flight.generation)
    }

    /// The kernel has done with an operation.
    fn land(&mut self, key: Key) -> Option<Box<dyn FileOperation>> {
        let flight = self.flights.get_mut(key.index as usize)?;
        if flight.generation != key.generation {
            return None;
        }
        let operation = flight.operation.take()?;
        flight.generation = (flight.generation + 1) % GENERATIONS;
        self.in_flight -= 1;
        self.bytes_in_flight -= flight.bytes;
        self.free.push(key.index);
        Some(operation)
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.in_flight == 0 || self.bytes_in_flight + bytes <= self.bytes_max
    }
}

fn name(index: u32, generation: u32) -> u64 {
    Key { index, generation }.name(Kind::File)
}

impl Engine {
    /// Whether the kernel knows all operations on files.
    pub(in crate::uring) fn knows_files(&self) -> bool {
        self.ring.knows_files()
    }

    pub(in crate::uring) fn file_source(&self) -> Option<Key> {
        self.state.files.source
    }

    /// From now on this source is told. It may be told at once, of what ended when there was none.
    pub(in crate::uring) fn set_file_source(&mut self, source: Option<Key>) {
        self.state.files.source = source;
        if source.is_some() && !self.state.files.finished.is_empty() {
            self.state.tell_file_source();
        }
    }

    /// Takes an operation in; it begins when the turn ends, if there is room for it.
    pub(in crate::uring) fn queue_file(&mut self, mut operation: Box<dyn FileOperation>) {
        let files = &mut self.state.files;
        if files.waiting.len() >= WAITING_MAX {
            operation.refuse(WAITING_MAX);
            files.finished.push(operation);
            return self.state.tell_file_source();
        }
        files.waiting.push_back(operation);
        self.state.look_at_files();
    }

    /// Whether nothing waits, flies, or is to be told.
    pub(in crate::uring) fn files_are_idle(&self) -> bool {
        let files = &self.state.files;
        files.in_flight == 0 && files.waiting.is_empty() && files.finished.is_empty()
    }

    /// What has ended since the last time, for room that was emptied.
    pub(in crate::uring) fn swap_finished(&mut self, room: &mut Vec<Box<dyn FileOperation>>) {
        std::mem::swap(&mut self.state.files.finished, room);
    }

    /// Hands over what waits, as far as there is room.
    pub(super) fn start_files(&mut self) {
        loop {
            let files = &mut self.state.files;
            if files.in_flight >= files.operations_max {
                return;
            }
            let Some(mut operation) = files.waiting.pop_front() else { return };
            if !operation.claim() {
                files.finished.push(operation);
                self.state.tell_file_source();
                continue;
            }
            let (entry, bytes) = operation.entry(&|bytes| files.has_room_for(bytes));
            let Some(entry) = entry else { return files.waiting.push_front(operation) };
            let name = files.fly(operation, bytes);
            self.state.in_flight += 1;
            self.push(entry.user_data(name));
        }
    }
}

impl State {
    /// A completion of a file operation.
    #[inline]
    pub(super) fn file_moved(&mut self, key: Key, result: i32, flags: u32) {
        let Some(mut operation) = self.files.land(key) else { return self.stray(flags) };
        self.in_flight -= 1;
        match operation.landed(result) {
            Landed::InFront => self.files.waiting.push_front(operation),
            Landed::Waits => self.files.waiting.push_back(operation),
            Landed::Over => {
                self.files.finished.push(operation);
                self.tell_file_source();
            }
        }
        if !self.files.waiting.is_empty() {
            self.look_at_files();
        }
    }

    fn tell_file_source(&mut self) {
        if let Some(source) = self.files.source {
            self.touch(source.index, Ready::READ);
        }
    }

    fn look_at_files(&mut self) {
        if let Some(source) = self.files.source {
            self.mark(source.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        files::{FileAction, FileError, Operation, Work, by_hand, start_on_workers},
        uring::{
            UringSeed,
            driver::UringDriver,
            files::{Ending, OnRing},
        },
    };
    use netwright_core::driver::{Driver, Events, Token};
    use std::{
        os::fd::AsRawFd,
        time::{Duration, Instant},
    };

    /// Ends a test that hangs.
    const HANGS: Duration = Duration::from_secs(60);

    /// A driver whose file operations somebody hears of; none where the machine has no io_uring, and then it says so.
    fn driver() -> Option<UringDriver> {
        let seed = UringSeed::new().map_err(|error| eprintln!("skipped: {error}")).ok()?;
        let driver = seed.into_driver().unwrap();
        driver.uring.add_file_source(Token::from_u64(1 << 32)).unwrap();
        Some(driver)
    }

    /// Takes an operation as one that the kernel has, and completes it with this.
    fn complete_with(driver: &UringDriver, operation: Operation, result: i32) {
        let mut engine = driver.uring.engine().unwrap();
        let mut operation = OnRing::new(operation);
        let (Some(_), bytes) = operation.entry(&|_| true) else { panic!("there is room") };
        let name = engine.state.files.fly(operation, bytes);
        engine.state.in_flight += 1;
        engine.state.complete(name, result, 0);
    }

    fn finished(driver: &UringDriver) -> Vec<(Operation, Ending)> {
        let mut finished = Vec::new();
        driver.uring.engine().unwrap().swap_finished(&mut finished);
        let parts = finished.into_iter().map(FileOperation::into_parts);
        parts.map(|(operation, ending)| (operation, ending.expect("it has ended"))).collect()
    }

    #[test]
    fn what_the_kernel_cannot_do_by_a_ring_is_done_by_workers() {
        let Some(driver) = driver() else { return };
        let file = by_hand::file_with(b"content");
        for code in [libc::EOPNOTSUPP, libc::EINVAL, libc::ENOSYS, libc::EAGAIN] {
            let (operation, mut read) = by_hand::read(&file, 3, 100);
            complete_with(&driver, operation, -code);
            let Some((operation, Ending::ForWorkers)) = finished(&driver).pop() else { panic!("{code}") };
            start_on_workers(operation);
            assert_eq!(read.wait_timeout(HANGS).unwrap().unwrap(), "tent", "{code}");
        }
        let (operation, _read) = by_hand::read(&file, 3, 100);
        complete_with(&driver, operation, -libc::EIO);
        assert!(matches!(finished(&driver).pop(), Some((_, Ending::Over(Err(_))))), "that would not help");
    }

    #[test]
    fn what_was_taken_back_waits_to_begin_again_and_a_close_has_its_file_again() {
        let Some(driver) = driver() else { return };
        let (file, plain) = (by_hand::file_with(b"content"), std::fs::File::open("/dev/null").unwrap());
        let number = plain.as_raw_fd();
        let (read, _) = by_hand::read(&file, 0, 7);
        let (close, _) = by_hand::close(plain);
        for operation in [read, close] {
            complete_with(&driver, operation, -libc::ECANCELED);
        }
        let engine = driver.uring.engine().unwrap();
        assert_eq!((engine.state.files.in_flight, engine.state.files.waiting.len()), (0, 2));
        let Work::Close(closing) = &engine.state.files.waiting[0].work() else { panic!("it waits in front") };
        assert_eq!(closing.file.as_ref().unwrap().as_raw_fd(), number);
    }

    #[test]
    fn the_rest_of_what_the_kernel_did_a_part_of_has_its_turn_again_and_that_of_an_append_at_once() {
        let Some(driver) = driver() else { return };
        let file = by_hand::file_with(b"content");
        let (read, _) = by_hand::read(&file, 0, 7);
        let (write, _) = by_hand::write(&file, Some(0), "1234567");
        let (append, _) = by_hand::write(&file, None, "1234567");
        for operation in [read, write, append] {
            complete_with(&driver, operation, 3);
        }
        let engine = driver.uring.engine().unwrap();
        let waiting: Vec<_> = engine.state.files.waiting.iter().map(|one| one.work().action()).collect();
        let offset = 0;
        let expected = [
            FileAction::Append { len: 7 },
            FileAction::Read { offset, len: 7 },
            FileAction::Write { offset, len: 7 },
        ];
        assert_eq!(waiting, expected);
    }

    #[test]
    fn operations_are_carried_out_by_the_ring_that_a_driver_is_rebuilt_with() {
        let Some(mut driver) = driver() else { return };
        let file = by_hand::file_with(&[7; 300_000]);
        let mut reads = Vec::new();
        let mut queue = |driver: &UringDriver| {
            for n in 0..100 {
                let (operation, read) = by_hand::read(&file, n, 200_000);
                let (sync, _) = by_hand::sync(&file);
                reads.push(read);
                driver.uring.engine().unwrap().queue_file(OnRing::new(operation));
                driver.uring.engine().unwrap().queue_file(OnRing::new(sync));
            }
        };
        queue(&driver);
        driver.poll(Some(Duration::ZERO), &mut Events::default()).unwrap(); // the kernel has some of them
        driver.rebuild().unwrap();
        queue(&driver);
        let begun = Instant::now();
        while reads.iter().any(|read| !read.is_done()) {
            assert!(begun.elapsed() < HANGS, "they do not end");
            match driver.poll(Some(Duration::from_secs(1)), &mut Events::default()) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => result.unwrap(),
            }
            for (mut operation, ending) in finished(&driver) {
                let Ending::Over(outcome) = ending else { panic!("neither cancelled nor for workers") };
                operation.tell(outcome);
            }
        }
        for mut read in reads {
            assert_eq!(read.wait().unwrap().len(), 200_000);
        }
        assert_eq!(driver.uring.figures().strays, 0);
    }

    #[test]
    fn the_end_of_a_driver_is_told_to_all_who_wait() {
        let Some(driver) = driver() else { return };
        let file = by_hand::file_with(b"content");
        let (operation, mut read) = by_hand::read(&file, 0, 7);
        driver.uring.engine().unwrap().queue_file(OnRing::new(operation));
        drop(driver);
        let error = read.wait_timeout(HANGS).unwrap().unwrap_err();
        assert!(matches!(error, FileError::LoopEnded { begun: false, .. }), "{error}");
        assert!(error.to_string().ends_with("was not begun: the event loop has ended"), "{error}");
    }
}

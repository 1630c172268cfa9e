//! Operations of [`files`](crate::files) on a ring: the entries that say them to the kernel, and the source of a loop that tells how
//! they ended.
//!
//! The source is registered when the first operation is asked for, and leaves when none was for a second, so that a loop without files
//! has none. While the loop shuts down, it stays for as long as something is under way.

use super::{
    Uring,
    slot::{Key, Role},
};
use crate::files::{Done, FileAction, FileError, Next, Operation, Outcome, Step, Work, start_on_workers};
use io_uring::{opcode, squeue, types};
use netwright_core::{
    LocalLoop, RefusedWhy,
    driver::{Event, Source, Token},
};
use std::{
    fs, io,
    os::fd::{AsRawFd, FromRawFd, IntoRawFd},
    rc::Rc,
    time::Duration,
};

/// Bytes that one entry reads or writes: what is larger goes in parts, between which others have their turn.
const PART_MAX: usize = 192 * 1024;
/// Bytes that are appended at once, as many as systems write by one call: in parts they could have other bytes between them.
const WHOLE_MAX: usize = 0x7fff_f000;
/// For so long without an operation, and the source leaves.
const IDLE: Duration = Duration::from_secs(1);
/// To the kernel: where the file itself says, which is behind its end if it was opened for appending.
const BY_ITSELF: u64 = u64::MAX;

/// An operation, as the table of a ring knows it. A trait object, so that a program that asks nothing of files has none of their code.
pub(super) trait FileOperation {
    /// It begins now. If whoever waited has cancelled it, it has ended.
    fn claim(&mut self) -> bool;
    /// Its next step as an entry, and how many bytes that counts for; `None` if there is no room for so many. The addresses in it are
    /// good while the operation is held, wherever it is moved.
    fn entry(&mut self, has_room: &dyn Fn(usize) -> bool) -> (Option<squeue::Entry>, usize);
    /// What follows from the completion of that entry.
    fn landed(&mut self, result: i32) -> Landed;
    /// It has ended, because so many wait.
    fn refuse(&mut self, limit: usize);
    /// Tells how it ended. Runs code of others.
    fn tell(self: Box<Self>);
    /// Tells how it ended, or that the loop has.
    fn tell_loop_ended(&mut self);
    #[cfg(test)]
    fn work(&self) -> &Work;
    #[cfg(test)]
    fn into_parts(self: Box<Self>) -> (Operation, Option<Ending>);
}

/// Where an operation goes that the kernel has done with.
pub(super) enum Landed {
    /// It has ended.
    Over,
    /// Its rest waits in turn.
    Waits,
    /// It waits in front of all others.
    InFront,
}

/// How an operation left the ring.
pub(super) enum Ending {
    /// With this result.
    Over(Result<Done, FileError>),
    /// Whoever waited for it took it back before it began.
    Cancelled,
    /// The kernel cannot do this one by a ring: workers can.
    ForWorkers,
}

/// An operation on a ring.
pub(super) struct OnRing {
    operation: Operation,
    ending: Option<Ending>,
}

impl OnRing {
    pub(super) fn new(operation: Operation) -> Box<Self> {
        Box::new(Self { operation, ending: None })
    }
}

impl FileOperation for OnRing {
    fn claim(&mut self) -> bool {
        let claimed = self.operation.claim();
        if !claimed {
            self.ending = Some(Ending::Cancelled);
        }
        claimed
    }

    fn entry(&mut self, has_room: &dyn Fn(usize) -> bool) -> (Option<squeue::Entry>, usize) {
        entry(&mut self.operation.work, has_room)
    }

    fn landed(&mut self, result: i32) -> Landed {
        let work = &mut self.operation.work;
        let ending = match step(work, result) {
            // Taken back for another ring, on which it begins again; if there is none, it is told so.
            Outcome::Cancelled => return Landed::InFront,
            Outcome::NotByRing => Ending::ForWorkers,
            Outcome::Took(step) => match (work.took(step), work) {
                // What others append is not to come between, as far as that is ours to say.
                (Next::More, Work::Write(writing)) if writing.is_append() => return Landed::InFront,
                (Next::More, _) => return Landed::Waits,
                (Next::Over(outcome), _) => Ending::Over(outcome),
            },
        };
        self.ending = Some(ending);
        Landed::Over
    }

    fn refuse(&mut self, limit: usize) {
        let (action, path) = (self.operation.work.action(), self.operation.work.path().clone());
        let why = RefusedWhy::Full { limit };
        self.ending = Some(Ending::Over(Err(FileError::Refused { action, path, why })));
    }

    fn tell(mut self: Box<Self>) {
        match self.ending.take() {
            Some(Ending::Over(outcome)) => self.operation.tell(outcome),
            Some(Ending::ForWorkers) => start_on_workers(self.operation),
            Some(Ending::Cancelled) | None => {}
        }
    }

    fn tell_loop_ended(&mut self) {
        match self.ending.take() {
            Some(Ending::Over(outcome)) => self.operation.tell(outcome),
            Some(Ending::Cancelled) => {}
            Some(Ending::ForWorkers) | None => self.operation.tell_loop_ended(),
        }
    }

    #[cfg(test)]
    fn work(&self) -> &Work {
        &self.operation.work
    }

    #[cfg(test)]
    fn into_parts(self: Box<Self>) -> (Operation, Option<Ending>) {
        (self.operation, self.ending)
    }
}

/// The next step of this work as an entry: see [`FileOperation::entry`].
fn entry(work: &mut Work, has_room: impl FnOnce(usize) -> bool) -> (Option<squeue::Entry>, usize) {
    let (len, bytes) = span(work);
    if !has_room(bytes) {
        return (None, bytes);
    }
    let flags = flags(work);
    let descriptor = |file: io::Result<&fs::File>| types::Fd(file.map_or(-1, AsRawFd::as_raw_fd));
    let entry = match work {
        Work::Read(reading) => {
            let room = reading.buffer.spare_capacity_mut();
            let len = len.min(u32::try_from(room.len()).unwrap_or(u32::MAX)); // there is room: `Operation::read` saw to it
            opcode::Read::new(descriptor(reading.file.file()), room.as_mut_ptr().cast(), len)
                .offset(reading.offset)
                .build()
        }
        Work::Write(writing) => {
            opcode::Write::new(descriptor(writing.file.file()), writing.bytes.as_ptr(), len)
                .offset(writing.offset.unwrap_or(BY_ITSELF))
                .build()
        }
        Work::Sync(file, action) => {
            let flags = match action {
                FileAction::SyncData => types::FsyncFlags::DATASYNC,
                _ => types::FsyncFlags::empty(),
            };
            opcode::Fsync::new(descriptor(file.file())).flags(flags).build()
        }
        Work::Close(closing) => {
            closing.given = closing.file.take().map_or(-1, IntoRawFd::into_raw_fd);
            opcode::Close::new(types::Fd(closing.given)).build()
        }
        Work::Open(_) | Work::Metadata(_) => opcode::Nop::new().build(), // never get here
    };
    (Some(entry.flags(flags)), bytes)
}

/// How many bytes the next step moves, and how many it counts for: those that a thread of the kernel moves make no turn longer.
fn span(work: &Work) -> (u32, usize) {
    let (len, max) = match work {
        Work::Read(reading) => (reading.left, PART_MAX),
        Work::Write(writing) if writing.is_append() => (writing.bytes.len(), WHOLE_MAX),
        Work::Write(writing) => (writing.bytes.len(), PART_MAX),
        _ => (0, 0),
    };
    let len = len.min(max);
    (len as u32, len.min(PART_MAX)) // neither maximum is larger, so it fits
}

/// Whether the kernel may try it on this thread when it is handed over. What is in the cache is read cheapest so, but only of files
/// whose file system tells when it would have to wait. Everything else is done by a thread of the kernel, with whatever is behind it.
fn flags(work: &Work) -> squeue::Flags {
    let here = match work {
        Work::Read(reading) => reading.file.is_prompt(),
        // What is appended here and cannot go on without waiting would go on elsewhere, behind what others append meanwhile.
        Work::Write(writing) => writing.file.is_prompt() && !writing.is_append(),
        _ => false,
    };
    if here { squeue::Flags::empty() } else { squeue::Flags::ASYNC }
}

/// What a completion means to the operation that `entry` was asked for.
#[allow(unsafe_code)]
fn step(work: &mut Work, result: i32) -> Outcome {
    if result < 0 {
        match (-result, work) {
            (libc::ECANCELED, Work::Close(closing)) => {
                let given = std::mem::replace(&mut closing.given, -1);
                // SAFETY: the number was taken out of a `File` for this operation, which was cancelled and so closed nothing.
                closing.file = (given >= 0).then(|| unsafe { fs::File::from_raw_fd(given) });
                return Outcome::Cancelled;
            }
            (libc::ECANCELED, _) => return Outcome::Cancelled,
            (libc::EINTR, Work::Close(_)) => return Outcome::Took(Ok(Step::Moved(0))), // closed all the same
            (code, Work::Close(_)) => return Outcome::Took(Err(io::Error::from_raw_os_error(code))), // and so here
            (libc::EAGAIN | libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP, _) => return Outcome::NotByRing,
            (code, _) => return Outcome::Took(Err(io::Error::from_raw_os_error(code))),
        }
    }
    let moved = result as usize; // not negative
    match work {
        Work::Read(reading) => {
            let (len, room) = (reading.buffer.len(), reading.buffer.capacity());
            assert!(moved <= room - len, "the kernel reports {moved} bytes in {} bytes of room", room - len);
            // SAFETY: the room behind the buffer's bytes was the kernel's until the completion that was just reaped (rule 2), which
            // says that so many bytes were written to its start; and there were so many.
            unsafe { reading.buffer.set_len(len + moved) };
            Outcome::Took(Ok(Step::Moved(moved)))
        }
        _ => Outcome::Took(Ok(Step::Moved(moved))),
    }
}

/// Begins an operation on the ring of this thread's loop. Gives it back if there is no such ring, or it does not do such things.
pub(crate) fn start_on_ring(operation: Operation) -> Option<Operation> {
    if matches!(operation.work, Work::Open(_) | Work::Metadata(_)) {
        return Some(operation); // what was opened is found out by calls that a ring does not have, or has in another form
    }
    let Some(local) = LocalLoop::current() else { return Some(operation) };
    let Some(uring) = local.driver::<Uring>() else { return Some(operation) };
    if !uring.has_file_source() && !FileSource::register(&local, &uring) {
        return Some(operation);
    }
    uring.queue_file(operation)
}

/// Tells how operations ended.
struct FileSource {
    local: LocalLoop,
    uring: Rc<Uring>,
    token: Token,
    key: Key,
    finished: Vec<Box<dyn FileOperation>>,
    /// Whether a timer looks soon whether there is still something to do.
    armed: bool,
}

impl FileSource {
    /// False if the ring has nothing for files, or the loop takes no sources any more.
    fn register(local: &LocalLoop, uring: &Rc<Uring>) -> bool {
        let registered = local.register_with(|token| {
            let key = uring.add_file_source(token).ok_or(RefusedWhy::ShutDown)?;
            let (local, uring) = (local.clone(), uring.clone());
            Ok::<_, RefusedWhy>(Self { local, uring, token, key, finished: Vec::new(), armed: false })
        });
        registered.is_ok()
    }

    fn leave_if_idle(&mut self) {
        if self.uring.files_are_idle() {
            self.local.deregister(self.token);
        }
    }
}

impl Source for FileSource {
    fn ready(&mut self, _: Event) {
        self.uring.swap_finished(&mut self.finished);
        self.finished.drain(..).for_each(FileOperation::tell);
        if !self.armed && self.uring.files_are_idle() {
            self.armed = true;
            self.local.arm(self.token, IDLE, 0);
        }
    }

    fn signal(&mut self, _: u64) {
        self.armed = false;
        self.leave_if_idle();
    }

    fn shut_down(&mut self) {
        self.leave_if_idle();
    }
}

impl Drop for FileSource {
    fn drop(&mut self) {
        self.uring.remove_file_source(self.key);
    }
}

impl Uring {
    fn has_file_source(&self) -> bool {
        self.engine().is_some_and(|engine| engine.file_source().is_some())
    }

    pub(super) fn add_file_source(&self, token: Token) -> Option<Key> {
        let mut engine = self.engine()?;
        if !engine.knows_files() {
            return None;
        }
        let key = engine.insert(token, None, Role::Files);
        engine.set_file_source(Some(key));
        engine.mark(key);
        Some(key)
    }

    fn remove_file_source(&self, key: Key) {
        if let Some(mut engine) = self.engine() {
            engine.set_file_source(None);
            engine.close(key);
        }
    }

    fn queue_file(&self, operation: Operation) -> Option<Operation> {
        let Some(mut engine) = self.engine() else { return Some(operation) };
        engine.queue_file(OnRing::new(operation));
        None
    }

    fn files_are_idle(&self) -> bool {
        self.engine().is_none_or(|engine| engine.files_are_idle())
    }

    fn swap_finished(&self, room: &mut Vec<Box<dyn FileOperation>>) {
        if let Some(mut engine) = self.engine() {
            engine.swap_finished(room);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::{File, OpenOptions, by_hand};

    /// Whether the kernel is to do it by a thread, whatever it finds.
    fn is_for_a_thread(mut operation: Operation) -> bool {
        let (Some(entry), _) = entry(&mut operation.work, |_| true) else { panic!("there is room") };
        step(&mut operation.work, -libc::ECANCELED); // no kernel has seen it: a close has its file again
        // The entry tells what it holds in no other way.
        format!("{entry:?}").contains(&format!("flags: {},", squeue::Flags::ASYNC.bits()))
    }

    /// A file that a file system of memory keeps.
    fn in_memory() -> File {
        let memory = rustix::fs::memfd_create("netwright", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        OpenOptions::new().read(true).write(true).open(path).wait().unwrap()
    }

    #[test]
    fn an_append_is_one_entry_however_long_it_is_and_counts_for_a_part() {
        let file = in_memory();
        let long = vec![7; 3 * PART_MAX];
        let span_of = |(operation, _): (Operation, _)| span(&operation.work);
        assert_eq!(span_of(by_hand::write(&file, None, long.clone())), (3 * PART_MAX as u32, PART_MAX));
        assert_eq!(span_of(by_hand::write(&file, None, "x")), (1, 1));
        assert_eq!(span_of(by_hand::write(&file, Some(0), long)), (PART_MAX as u32, PART_MAX));
    }

    #[test]
    fn only_where_a_file_system_tells_when_it_would_wait_is_it_asked_on_the_loop() {
        let ours = OpenOptions::new().read(true).write(true).open("/proc/self/comm").wait().unwrap();
        for (file, by_thread) in [(ours, true), (in_memory(), false)] {
            assert_eq!(is_for_a_thread(by_hand::read(&file, 0, 100).0), by_thread, "{file:?}");
            assert_eq!(is_for_a_thread(by_hand::write(&file, Some(0), "x").0), by_thread, "{file:?}");
            assert!(is_for_a_thread(by_hand::sync(&file).0), "{file:?}");
        }
        let file = in_memory();
        assert!(is_for_a_thread(by_hand::write(&file, None, "x").0), "what is appended is appended at once");
        assert!(is_for_a_thread(by_hand::close(fs::File::open("/dev/null").unwrap()).0));
    }
}

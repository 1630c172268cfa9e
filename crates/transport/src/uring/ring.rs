//! The two queues shared with the kernel, and the call that enters it.

use super::{UringSettings, error::UringError};
use crate::return_stack::refill;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types::BufRingEntry};
use rustix::{
    io::Errno,
    io_uring::{IoringEnterFlags, Timespec, io_uring_enter_arg, io_uring_getevents_arg, io_uring_ptr},
};
use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd},
    ptr,
    time::Duration,
};

/// The one group of buffers that a ring has.
pub(super) const GROUP: u16 = 0;

/// What a ring is asked to be: the best first, and what a kernel does not know is left out step by step.
const WISHES: [Wish; 4] = [
    Wish {
        name: "single issuer, deferred task work, no array",
        single: true,
        deferred: true,
        no_array: true,
        coop: true,
    },
    Wish {
        name: "single issuer, deferred task work",
        single: true,
        deferred: true,
        no_array: false,
        coop: true,
    },
    Wish { name: "cooperative task work", single: false, deferred: false, no_array: false, coop: true },
    Wish { name: "plain", single: false, deferred: false, no_array: false, coop: false },
];

struct Wish {
    name: &'static str,
    single: bool,
    deferred: bool,
    no_array: bool,
    coop: bool,
}

impl Wish {
    fn build(&self, settings: &UringSettings) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        builder.setup_r_disabled().setup_submit_all().setup_clamp().setup_cqsize(settings.completions);
        if self.single {
            builder.setup_single_issuer();
        }
        if self.coop {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        if self.deferred {
            builder.setup_defer_taskrun();
        }
        if self.no_array {
            builder.setup_no_sqarray();
        }
        let uring = builder.build(settings.submissions)?;
        let has = uring.params();
        // Without the first a full queue loses completions, without the second a wait has no time limit.
        if !has.is_feature_nodrop() || !has.is_feature_ext_arg() {
            return Err(Errno::INVAL.into());
        }
        Ok(uring)
    }
}

/// How long an enter may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// Submits, and takes what is there.
    Not,
    /// Until something completes, but no longer than this; `None`: as long as it takes.
    AtMost(Option<Duration>),
}

/// How an enter ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// There may be completions.
    Done,
    /// The kernel was not asked: nothing was to be submitted, and nothing was waiting in it.
    Skipped,
    /// A signal came; the kernel wants its completions taken first, or is short of memory for a moment. There may be
    /// completions all the same.
    Failed(Errno),
}

/// A ring. Disabled until the thread that will use it says so.
pub(super) struct Ring {
    uring: IoUring,
    wish: &'static str,
}

impl Ring {
    /// A ring that is disabled: no thread owns it yet.
    pub(super) fn new(settings: &UringSettings) -> io::Result<Self> {
        let mut result = Err(io::Error::from(io::ErrorKind::Unsupported));
        for wish in &WISHES {
            result = wish.build(settings);
            match &result {
                // This one is not known here: less, then.
                Err(error) if Errno::from_io_error(error) == Some(Errno::INVAL) => {}
                _ => return result.map(|uring| Self { uring, wish: wish.name }).map_err(setup),
            }
        }
        result.map(|uring| Self { uring, wish: "" }).map_err(setup)
    }

    /// Makes the calling thread the ring's own.
    pub(super) fn enable(&self) -> io::Result<()> {
        self.uring
            .submitter()
            .register_enable_rings()
            .map_err(|error| UringError::at("enabling the ring", &error))
    }

    /// What the kernel agreed to.
    pub(super) fn mode(&self) -> &'static str {
        self.wish
    }

    /// Whether the kernel knows all operations on files.
    pub(super) fn knows_files(&self) -> bool {
        let mut probe = Probe::new();
        let codes = [opcode::Read::CODE, opcode::Write::CODE, opcode::Fsync::CODE, opcode::Close::CODE];
        self.uring.submitter().register_probe(&mut probe).is_ok()
            && codes.into_iter().all(|code| probe.is_supported(code))
    }

    /// Operations that are queued and not submitted.
    pub(super) fn queued(&mut self) -> usize {
        self.uring.submission().len()
    }

    /// Whether completions wait in the kernel for room in the queue.
    pub(super) fn overflown(&mut self) -> bool {
        self.uring.submission().cq_overflow()
    }

    /// Queues an operation. False if the queue is full.
    ///
    /// # Safety
    /// Every address in `entry` is good until its last completion is reaped (rules 1 and 2 of the module's header).
    #[allow(unsafe_code)]
    #[inline]
    pub(super) unsafe fn push(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.uring.submission().push(entry) }.is_ok()
    }

    /// Gives the kernel a ring of buffers, page-aligned and with so many entries.
    ///
    /// # Safety
    /// The memory stays where it is until this ring has been dropped.
    #[allow(unsafe_code)]
    pub(super) unsafe fn register_buffers(&self, entries: *mut BufRingEntry, count: u16) -> io::Result<()> {
        // SAFETY: the caller's promise.
        let result =
            unsafe { self.uring.submitter().register_buf_ring_with_flags(entries as u64, count, GROUP, 0) };
        result.map_err(|error| UringError::at("registering a ring of buffers", &error))
    }

    /// Submits what is queued and waits for what completes: the one system call of a turn.
    #[inline(always)]
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<Entered> {
        let entered = self.enter_again(wait);
        refill();
        entered
    }

    /// The same for who does not return before it has refilled the return stack (see `return_stack`).
    #[allow(unsafe_code)]
    #[inline(always)] // down to the system call
    pub(super) fn enter_again(&mut self, wait: Wait) -> io::Result<Entered> {
        let (submit, wanting) = {
            let queue = self.uring.submission();
            (queue.len() as u32, queue.taskrun() || queue.cq_overflow())
        };
        let (want, limit) = match wait {
            Wait::Not if submit == 0 && !wanting => return Ok(Entered::Skipped),
            Wait::Not => (0, None),
            Wait::AtMost(limit) => (1, limit),
        };
        let time = limit.map(|limit| Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        });
        let time = time.as_ref().map_or(ptr::null(), ptr::from_ref);
        let arg =
            io_uring_getevents_arg { ts: io_uring_ptr::new(time.cast_mut().cast()), ..Default::default() };
        let flags = IoringEnterFlags::GETEVENTS | IoringEnterFlags::EXT_ARG;
        // SAFETY: the descriptor is the ring's own and open. The time, if any, lives in this frame; the kernel only reads
        // it, and only during the call. What was queued keeps the promise of `push`.
        let result = unsafe {
            let fd = BorrowedFd::borrow_raw(self.uring.as_raw_fd());
            io_uring_enter_arg(fd, submit, want, flags, Some(&arg))
        };
        match result {
            Ok(_) | Err(Errno::TIME) => Ok(Entered::Done),
            Err(error @ (Errno::INTR | Errno::BUSY | Errno::AGAIN)) => Ok(Entered::Failed(error)),
            Err(error) => Err(error.into()),
        }
    }

    /// What has completed.
    #[inline]
    pub(super) fn completions(&mut self) -> cqueue::CompletionQueue<'_> {
        self.uring.completion()
    }
}

fn setup(error: io::Error) -> io::Error {
    UringError::at("setting up a ring", &error)
}

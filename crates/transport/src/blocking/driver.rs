//! The driver contract of `netwright_core::driver`, kept by a thread that blocks in `poll(2)`.
//!
//! ```text
//!   BlockingSeed { bell } ──start──▶ BlockingDriver ──suspend, if nothing is registered──▶ BlockingSeed
//!
//!   the thread:    poll(2) on the bell and the loop's sockets, which is usually one
//!   other threads: wake ─▶ lock ─▶ ring the present bell
//! ```
//! The thread blocks, the descriptors do not: a socket that blocked would hold up the timers and tasks of its channel
//! until its peer sends or takes something. So one wait is for all of them, and what is read and sent after it returns at
//! once.
//!
//! A connection with a thread of its own costs two descriptors, its socket and the bell: there is no kernel object to
//! register with, and so nothing that could misbehave and nothing to move.
//!
//! Always true:
//! 1. A wake-up ends the present or the next poll: the bell keeps ringing until the driver has seen it. A rebuild
//!    takes a new bell, swaps it under the lock and rings it, so a wake-up that went to the old one is made up for.
//! 2. A poll does not end early by its timeout: the system rounds up, and where it counts milliseconds, we do.
//! 3. With the driver its bell is closed, also if somebody keeps the waker for long.
//!
//! Not here: who is registered, and what is asked about each ([`Levels`](super::levels::Levels)).

use crate::readiness::Readiness;
use netwright_core::driver::{Driver, DriverSeed, DriverWaker, Event, Events};
use rustix::event::{PollFlags, Timespec};
use std::{
    any::Any,
    fmt, io,
    rc::Rc,
    sync::{Arc, Mutex, Once, PoisonError},
    time::Duration,
};

/// A driver that blocks in `poll(2)` and is not on its thread yet: for loops with few sockets, above all for one.
///
/// ```
/// use netwright_core::EventLoop;
/// use netwright_transport::BlockingSeed;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let event_loop = EventLoop::builder().driver(BlockingSeed::new()?).build()?;
/// # Ok(())
/// # }
/// ```
pub struct BlockingSeed {
    wiring: Wiring,
}

impl BlockingSeed {
    /// Asks the system for a bell: fails when descriptors have run out, and not later.
    pub fn new() -> io::Result<Self> {
        static LOOK: Once = Once::new();
        LOOK.call_once(crate::return_stack::look);
        let bell = Arc::new(Bell::new()?);
        let waker = Arc::new(BellWaker { present: Mutex::new(Some(bell.clone())) });
        Ok(Self { wiring: Wiring { bell, waker } })
    }

    fn into_driver(self) -> BlockingDriver {
        let readiness = Rc::new(Readiness::new_levels());
        BlockingDriver { readiness, wiring: self.wiring }
    }
}

impl DriverSeed for BlockingSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.wiring.waker.clone()
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(self.into_driver()))
    }
}

impl fmt::Debug for BlockingSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingSeed").finish_non_exhaustive()
    }
}

/// The bell of a driver, and who rings it.
struct Wiring {
    bell: Arc<Bell>,
    waker: Arc<BellWaker>,
}

impl Wiring {
    fn renew(&mut self) -> io::Result<()> {
        let bell = Arc::new(Bell::new()?);
        drop(self.waker.swap(Some(bell.clone())));
        self.bell = bell;
        self.waker.wake();
        Ok(())
    }
}

impl Drop for Wiring {
    fn drop(&mut self) {
        drop(self.waker.swap(None)); // rule 3
    }
}

/// Rings the bell that the driver has at the moment: producers keep this one for good.
struct BellWaker {
    present: Mutex<Option<Arc<Bell>>>,
}

impl BellWaker {
    fn swap(&self, bell: Option<Arc<Bell>>) -> Option<Arc<Bell>> {
        std::mem::replace(&mut *self.present.lock().unwrap_or_else(PoisonError::into_inner), bell)
    }
}

impl DriverWaker for BellWaker {
    fn wake(&self) {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        // After the driver's end there is nobody to wake.
        if let Some(bell) = &*present
            && let Err(error) = bell.ring()
        {
            tracing::error!(%error, "an event loop could not be woken");
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod bell {
    use rustix::{
        event::{EventfdFlags, eventfd},
        io::{Errno, read, write},
    };
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    /// Ends a poll: readable from the first ring until it is heard.
    pub(super) struct Bell(OwnedFd);

    impl Bell {
        pub(super) fn new() -> Result<Self, Errno> {
            Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
        }

        pub(super) fn ring(&self) -> Result<(), Errno> {
            match write(&self.0, &1_u64.to_ne_bytes()) {
                Ok(_) | Err(Errno::AGAIN) => Ok(()), // it rings already, and has for 2^64 times
                Err(error) => Err(error),
            }
        }

        pub(super) fn hear(&self) {
            let _ = read(&self.0, &mut [0; 8]); // fails only if it does not ring
        }

        pub(super) fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod bell {
    use rustix::io::{Errno, read, write};
    use std::os::{
        fd::{AsFd, BorrowedFd},
        unix::net::UnixStream,
    };

    /// Ends a poll: readable from the first ring until it is heard.
    pub(super) struct Bell {
        ear: UnixStream,
        mouth: UnixStream,
    }

    impl Bell {
        pub(super) fn new() -> std::io::Result<Self> {
            let (ear, mouth) = UnixStream::pair()?;
            ear.set_nonblocking(true)?;
            mouth.set_nonblocking(true)?;
            Ok(Self { ear, mouth })
        }

        pub(super) fn ring(&self) -> Result<(), Errno> {
            match write(&self.mouth, &[1]) {
                Ok(_) | Err(Errno::AGAIN) => Ok(()), // it rings already
                Err(error) => Err(error),
            }
        }

        pub(super) fn hear(&self) {
            while read(&self.ear, &mut [0; 64]).is_ok_and(|len| len == 64) {}
        }

        pub(super) fn fd(&self) -> BorrowedFd<'_> {
            self.ear.as_fd()
        }
    }
}

use bell::Bell;

struct BlockingDriver {
    readiness: Rc<Readiness>,
    wiring: Wiring,
}

/// How a poll ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Polled {
    events: usize,
    woken: bool,
}

impl BlockingDriver {
    fn wait(&mut self, timeout: Option<Duration>, each: impl FnMut(Event)) -> io::Result<Polled> {
        let timeout = timeout.and_then(timespec);
        let bell = &self.wiring.bell;
        // The loop knows what to do if a signal came.
        let polled = self.readiness.levels()?.wait(bell.fd(), timeout.as_ref(), each)?;
        let woken = polled.rang.contains(PollFlags::IN);
        if woken {
            bell.hear();
        } else if !polled.rang.is_empty() {
            let text = format!("the wake-up descriptor of a loop is broken: {:?}", polled.rang);
            return Err(io::Error::other(text)); // somebody closed it; a rebuild helps
        }
        Ok(Polled { events: polled.events, woken })
    }
}

/// A time that the system can name; `None`: so long that it makes no difference.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "freebsd"))]
fn timespec(time: Duration) -> Option<Timespec> {
    Timespec::try_from(time).ok()
}

/// Rounded up, because these systems may count in milliseconds and cut the rest off, and no longer than what they take:
/// a loop that wakes up too soon after days goes back to sleep.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "freebsd")))]
fn timespec(time: Duration) -> Option<Timespec> {
    const MILLIS_MAX: u64 = i32::MAX as u64;
    let millis = time.as_nanos().div_ceil(1_000_000).min(MILLIS_MAX.into());
    Timespec::try_from(Duration::from_millis(millis as u64)).ok()
}

impl Driver for BlockingDriver {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        self.wait(timeout, |event| events.push(event)).map(drop)
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        self.wiring.renew()?;
        Ok(self.readiness.levels()?.forget())
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        match self.readiness.levels() {
            Ok(levels) if levels.len() == 0 => levels.leave(),
            _ => return Err(self),
        }
        Ok(Box::new(BlockingSeed { wiring: self.wiring }))
    }

    fn extension(&self) -> Option<Rc<dyn Any>> {
        Some(self.readiness.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::readiness::Interest;
    use netwright_core::{
        EventLoop, LocalLoop,
        driver::{Ready, Source, Token},
    };
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
        sync::mpsc,
        thread,
        time::Instant,
    };

    /// Ends a test that hangs. Nothing waits as long unless something is broken.
    const HANGS: Duration = Duration::from_secs(60);
    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
    const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

    fn driver() -> BlockingDriver {
        BlockingSeed::new().unwrap().into_driver()
    }

    fn token(index: u64) -> Token {
        Token::from_u64((1 << 32) + index)
    }

    fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        (near, far)
    }

    /// Polls until there are events: loopback may deliver a moment later than the write returns.
    fn events(driver: &mut BlockingDriver) -> Vec<Event> {
        let mut seen = Vec::new();
        while seen.is_empty() {
            let polled = driver.wait(Some(HANGS), |event| seen.push(event)).unwrap();
            assert_ne!(polled, Polled::default(), "nothing happened");
        }
        seen
    }

    fn nothing(driver: &mut BlockingDriver) {
        assert_eq!(driver.wait(AT_ONCE, |event| panic!("{event:?}")).unwrap(), Polled::default());
    }

    #[test]
    fn what_stands_is_told_again_and_again_to_those_who_want_it_and_to_nobody_else() {
        let mut driver = driver();
        let (near, mut far) = tcp_pair();
        driver.readiness.register(&near, token(7), Interest::READABLE).unwrap();
        nothing(&mut driver);
        far.write_all(b"x").unwrap();
        for _ in 0..2 {
            assert_eq!(events(&mut driver), [Event { token: token(7), ready: Ready::READ }]);
        }
        driver.readiness.set_interest(&near, false, false).unwrap();
        nothing(&mut driver);
        driver.readiness.set_interest(&near, true, true).unwrap();
        assert_eq!(events(&mut driver), [Event { token: token(7), ready: Ready::READ | Ready::WRITE }]);
        driver.readiness.reregister(&near, token(8), Interest::WRITABLE).unwrap();
        assert_eq!(events(&mut driver), [Event { token: token(8), ready: Ready::WRITE }]);
        driver.readiness.deregister(&near).unwrap();
        nothing(&mut driver);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_source_that_does_not_read_hears_of_the_end_once_and_of_a_reset_once() {
        let mut driver = driver();
        let (near, mut far) = tcp_pair();
        driver.readiness.register(&near, token(1), BOTH).unwrap();
        driver.readiness.set_interest(&near, false, false).unwrap();
        far.write_all(b"bytes that nobody reads").unwrap();
        nothing(&mut driver);
        far.shutdown(Shutdown::Write).unwrap();
        let [end] = events(&mut driver)[..] else { panic!("one event for one socket") };
        assert!(end.ready.contains(Ready::READ | Ready::READ_CLOSED), "{end:?}");
        nothing(&mut driver);

        socket2::SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
        drop(far);
        let [reset] = events(&mut driver)[..] else { panic!("one event for one socket") };
        assert!(reset.ready.contains(Ready::ERROR | Ready::WRITE), "{reset:?}");
        nothing(&mut driver); // although the system says it unasked
        driver.readiness.set_interest(&near, true, false).unwrap();
        assert!(events(&mut driver)[0].ready.contains(Ready::READ), "whoever reads again hears of it");
    }

    #[test]
    fn a_refused_connect_is_writable_and_an_error() {
        let socket = || socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        let deaf = socket(); // bound, so that nobody else takes the port, and not listening
        deaf.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let socket = socket();
        socket.set_nonblocking(true).unwrap();
        if socket
            .connect(&deaf.local_addr().unwrap())
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
        {
            return; // the system knew at once
        }
        let mut driver = driver();
        driver.readiness.register(&socket, token(1), Interest::WRITABLE).unwrap();
        let [event] = events(&mut driver)[..] else { panic!("one event per socket") };
        assert!(event.ready.contains(Ready::WRITE | Ready::ERROR), "{event:?}");
        assert!(socket.take_error().unwrap().is_some());
    }

    #[test]
    fn a_wake_up_before_the_poll_and_one_during_it_end_it() {
        let mut driver = driver();
        let waker = driver.wiring.waker.clone();
        waker.wake();
        let woken = Polled { events: 0, woken: true };
        assert_eq!(driver.wait(AT_ONCE, |_| ()).unwrap(), woken);
        nothing(&mut driver);

        let other = thread::spawn(move || waker.wake());
        assert_eq!(driver.wait(Some(HANGS), |_| ()).unwrap(), woken);
        other.join().unwrap();
    }

    #[test]
    fn no_wake_up_is_lost_however_it_falls_together_with_rebuilds() {
        let mut driver = driver();
        let waker = driver.wiring.waker.clone();
        let (sent, received) = mpsc::channel();
        let (seen, acknowledged) = mpsc::channel();
        let other = thread::spawn(move || {
            for round in 0..500 {
                sent.send(round).unwrap(); // as a task is queued before its wake-up
                waker.wake();
                acknowledged.recv().unwrap();
            }
        });
        for round in 0..500 {
            driver.rebuild().unwrap();
            let message = loop {
                match received.try_recv() {
                    Ok(message) => break message,
                    Err(_) => assert!(driver.wait(Some(HANGS), |_| ()).unwrap().woken, "round {round}"),
                }
            };
            assert_eq!(message, round);
            seen.send(()).unwrap();
        }
        other.join().unwrap();
    }

    #[test]
    fn a_poll_never_ends_before_its_time_and_a_time_without_end_is_none() {
        let mut driver = driver();
        for micros in [1, 500, 1_000, 1_001, 2_500] {
            let time = Duration::from_micros(micros);
            let begun = Instant::now();
            let polled = driver.wait(Some(time), |_| ()).unwrap();
            assert!(begun.elapsed() >= time, "{:?} of {time:?}", begun.elapsed());
            assert_eq!(polled, Polled::default());
        }
        driver.wiring.waker.wake();
        assert!(driver.wait(Some(Duration::MAX), |_| ()).unwrap().woken);
    }

    #[test]
    fn after_a_rebuild_what_stands_is_news_again() {
        let mut driver = driver();
        let (near, far) = tcp_pair();
        driver.readiness.register(&near, token(1), BOTH).unwrap();
        driver.readiness.set_interest(&near, false, false).unwrap();
        socket2::SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
        drop(far);
        assert_eq!(events(&mut driver).len(), 1);
        nothing(&mut driver);
        assert_eq!(driver.rebuild().unwrap(), 1);
        assert_eq!(events(&mut driver).len(), 1);
    }

    #[test]
    fn many_sockets_are_all_told_of_by_their_own_token() {
        let mut driver = driver();
        let pairs: Vec<_> = (0..20).map(|_| tcp_pair()).collect();
        for (index, (near, _)) in pairs.iter().enumerate().rev() {
            driver.readiness.register(near, token(index as u64), Interest::WRITABLE).unwrap();
        }
        for (near, _) in pairs.iter().step_by(3) {
            driver.readiness.deregister(near).unwrap();
        }
        let mut seen: Vec<_> = events(&mut driver).iter().map(|event| event.token.to_u64()).collect();
        seen.sort_unstable();
        let expected: Vec<_> =
            (0..20).filter(|index| index % 3 != 0).map(|index| token(index).to_u64()).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_descriptor_is_registered_once_and_only_a_registered_one_changes_or_leaves() {
        let driver = driver();
        let (near, _far) = tcp_pair();
        let readiness = &driver.readiness;
        for error in [
            readiness.reregister(&near, token(1), BOTH).unwrap_err(),
            readiness.set_interest(&near, true, true).unwrap_err(),
            readiness.deregister(&near).unwrap_err(),
        ] {
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
        }
        readiness.register(&near, token(1), BOTH).unwrap();
        let again = readiness.register(&near, token(2), BOTH).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        readiness.deregister(&near).unwrap();
        assert!(readiness.is_empty() && readiness.is_level());
    }

    #[test]
    fn a_number_that_names_no_descriptor_is_told_as_an_error_once_and_forgotten() {
        let mut driver = driver();
        let nobodys = 1_000_000_007; // above what any system allows
        driver.readiness.levels().unwrap().register(nobodys, token(1), Interest::READABLE).unwrap();
        assert!(events(&mut driver)[0].ready.contains(Ready::ERROR));
        nothing(&mut driver);
        assert!(driver.readiness.is_empty());
    }

    #[test]
    fn a_driver_without_registrations_moves_to_another_thread_with_its_waker() {
        let driver = driver();
        let waker: Arc<dyn DriverWaker> = driver.wiring.waker.clone();
        let kept = driver.readiness.clone(); // the loop itself still has one when it suspends
        let seed = Box::new(driver).suspend().ok().expect("nothing is registered");
        waker.wake();
        let (near, _far) = tcp_pair();
        kept.register(&near, token(1), BOTH).unwrap_err();
        let ended = thread::spawn(move || {
            let mut driver = seed.start().unwrap();
            driver.poll(Some(HANGS), &mut Events::default())
        });
        ended.join().unwrap().unwrap();
    }

    #[test]
    fn a_driver_with_registrations_stays() {
        let driver = driver();
        let (near, _far) = tcp_pair();
        driver.readiness.register(&near, token(1), BOTH).unwrap();
        let mut driver = Box::new(driver).suspend().err().expect("something is registered");
        let mut events = Events::default();
        driver.poll(Some(HANGS), &mut events).unwrap();
        assert_eq!(events.len(), 1, "and goes on");
    }

    #[test]
    fn the_bell_is_closed_with_the_driver_and_waking_it_later_does_nothing() {
        let driver = driver();
        let (waker, bell) = (driver.wiring.waker.clone(), Arc::downgrade(&driver.wiring.bell));
        drop(driver);
        assert!(bell.upgrade().is_none());
        waker.wake();
    }

    /// Registers itself at its first call, then passes on what it reads.
    struct Reader {
        stream: TcpStream,
        readiness: Rc<Readiness>,
        read: mpsc::Sender<Vec<u8>>,
    }

    impl Source for Reader {
        fn ready(&mut self, event: Event) {
            if event.ready == Ready::NONE {
                return self.readiness.register(&self.stream, event.token, Interest::READABLE).unwrap();
            }
            let mut bytes = [0; 64];
            while let Ok(len @ 1..) = self.stream.read(&mut bytes) {
                self.read.send(bytes[..len].to_vec()).unwrap();
            }
        }

        fn shut_down(&mut self) {}
    }

    impl Drop for Reader {
        fn drop(&mut self) {
            self.readiness.deregister(&self.stream).unwrap();
        }
    }

    #[test]
    fn a_loop_delivers_reads_and_takes_tasks_from_other_threads_while_it_blocks() {
        let event_loop = EventLoop::builder().driver(BlockingSeed::new().unwrap()).build().unwrap();
        let (stream, mut far) = tcp_pair();
        let (read, bytes) = mpsc::channel();
        event_loop
            .execute(move || {
                let local = LocalLoop::current().unwrap();
                let readiness = local.driver::<Readiness>().unwrap();
                local.call(local.register(Reader { stream, readiness, read }).unwrap());
            })
            .unwrap();
        for round in 0..200_u8 {
            far.write_all(&[round]).unwrap();
            assert_eq!(bytes.recv_timeout(HANGS).unwrap(), [round]);
            let (done, answer) = mpsc::channel();
            event_loop.execute(move || done.send(round).unwrap()).unwrap();
            assert_eq!(answer.recv_timeout(HANGS).unwrap(), round);
        }
        event_loop.shutdown_gracefully(Duration::ZERO, Duration::ZERO).unwrap().wait().unwrap();
        assert!(bytes.recv().is_err(), "the source is dropped with the loop");
    }
}

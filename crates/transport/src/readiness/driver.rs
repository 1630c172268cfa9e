//! The driver contract of `netwright_core::driver`, kept by `mio`.
//!
//! ```text
//!   ReadinessSeed { poll, waker } ──start──▶ ReadinessDriver ──suspend, if nothing is registered──▶ ReadinessSeed
//!
//!   any thread: wake ─▶ lock ─▶ the present mio::Waker      rebuild: 1 a new poll   2 move the registrations
//!                                                                    3 swap the waker under the lock   4 wake it
//! ```
//! Always true:
//! 1. A wake-up ends the present or the next poll. Before step 3 it may go to the old poll, which nobody polls again:
//!    step 4 makes up for it. After step 3 it goes to the new one. The lock is held while waking, so there is no
//!    in between; one wake-up too many costs one empty poll.
//! 2. A rebuild that fails changes nothing: the old poll goes on with all its registrations.
//!
//! Not here: who is registered ([`Readiness`]).

use super::{edges::WAKER, registry::Readiness, wait::Brought};
use netwright_core::driver::{Driver, DriverSeed, DriverWaker, Event, Events};
use std::{
    any::Any,
    fmt, io,
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Events that one poll can bring: a busy turn of most servers. 12 KiB with epoll.
const EVENTS: usize = 1024;
/// Where growing ends: beyond it the cost of a system call is spread thin enough, and tasks should have their turn.
const EVENTS_MAX: usize = 4096;

/// A readiness driver that is not on its thread yet: epoll, kqueue or IOCP, edge-triggered.
///
/// ```
/// use netwright_core::EventLoop;
/// use netwright_transport::ReadinessSeed;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let event_loop = EventLoop::builder().driver(ReadinessSeed::new()?).build()?;
/// # Ok(())
/// # }
/// ```
pub struct ReadinessSeed {
    poll: mio::Poll,
    waker: Arc<PollWaker>,
}

impl ReadinessSeed {
    /// Asks the system for what it takes: fails when descriptors have run out, and not later.
    pub fn new() -> io::Result<Self> {
        crate::return_stack::look();
        let poll = mio::Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        Ok(Self { poll, waker: Arc::new(PollWaker { present: Mutex::new(waker) }) })
    }

    fn into_driver(self, events: usize) -> ReadinessDriver {
        ReadinessDriver {
            readiness: Rc::new(Readiness::new(self.poll)),
            waker: self.waker,
            brought: Brought::with_capacity(events),
        }
    }
}

impl DriverSeed for ReadinessSeed {
    fn waker(&self) -> Arc<dyn DriverWaker> {
        self.waker.clone()
    }

    fn start(self: Box<Self>) -> io::Result<Box<dyn Driver>> {
        Ok(Box::new(self.into_driver(EVENTS)))
    }
}

impl fmt::Debug for ReadinessSeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadinessSeed").finish_non_exhaustive()
    }
}

/// Wakes the poll that the driver has at the moment: producers keep this one for good.
struct PollWaker {
    present: Mutex<mio::Waker>,
}

impl PollWaker {
    fn swap(&self, waker: mio::Waker) {
        let old = {
            let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *present, waker)
        };
        drop(old);
        self.wake();
    }
}

impl DriverWaker for PollWaker {
    fn wake(&self) {
        let present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = present.wake() {
            // An eventfd or its like that is open can always be written to. Nobody here could do anything about it.
            tracing::error!(%error, "an event loop could not be woken");
        }
    }
}

struct ReadinessDriver {
    readiness: Rc<Readiness>,
    waker: Arc<PollWaker>,
    brought: Brought,
}

/// How a poll ended.
#[derive(Debug, Default, PartialEq, Eq)]
struct Polled {
    events: usize,
    woken: bool,
}

impl ReadinessDriver {
    fn wait(&mut self, timeout: Option<Duration>, mut each: impl FnMut(Event)) -> io::Result<Polled> {
        self.readiness.poll(&mut self.brought, timeout)?; // the loop knows what to do if a signal came
        let mut polled = Polled::default();
        for (token, ready) in self.brought.iter() {
            if token == WAKER {
                polled.woken = true;
            } else if let Some(token) = self.readiness.whose(token) {
                polled.events += 1;
                each(Event { token, ready });
            }
        }
        let room = self.brought.capacity();
        if polled.events + usize::from(polled.woken) >= room && room < EVENTS_MAX {
            self.brought = Brought::with_capacity((room * 2).min(EVENTS_MAX));
        }
        Ok(polled)
    }

    fn try_suspend(self) -> Result<ReadinessSeed, Self> {
        // A leftover registration would follow the poll to the next thread without its entry in the table.
        if !self.readiness.is_empty() {
            return Err(self);
        }
        match self.readiness.take_poll() {
            Some(poll) => Ok(ReadinessSeed { poll, waker: self.waker }),
            None => Err(self),
        }
    }
}

impl Driver for ReadinessDriver {
    fn poll(&mut self, timeout: Option<Duration>, events: &mut Events) -> io::Result<()> {
        self.wait(timeout, |event| events.push(event)).map(drop)
    }

    fn rebuild(&mut self) -> io::Result<usize> {
        let poll = mio::Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKER)?;
        let moved = self.readiness.move_to(poll)?;
        self.waker.swap(waker);
        Ok(moved)
    }

    fn suspend(self: Box<Self>) -> Result<Box<dyn DriverSeed>, Box<dyn Driver>> {
        match self.try_suspend() {
            Ok(seed) => Ok(Box::new(seed)),
            Err(driver) => Err(Box::new(driver)),
        }
    }

    fn extension(&self) -> Option<Rc<dyn Any>> {
        Some(self.readiness.clone())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use mio::Interest;
    use netwright_core::{
        EventLoop, LocalLoop,
        driver::{Ready, Source, Token},
    };
    use std::{
        io::{Read, Write},
        net::{Shutdown, TcpListener, TcpStream},
        sync::mpsc,
        thread,
    };

    /// Ends a test that hangs. Nothing waits as long unless something is broken.
    const HANGS: Duration = Duration::from_secs(60);
    const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
    const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

    fn driver() -> ReadinessDriver {
        ReadinessSeed::new().unwrap().into_driver(EVENTS)
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
    fn events(driver: &mut ReadinessDriver) -> Vec<Event> {
        let mut seen = Vec::new();
        while seen.is_empty() {
            let polled = driver.wait(Some(HANGS), |event| seen.push(event)).unwrap();
            assert_ne!(polled, Polled::default(), "nothing happened");
        }
        seen
    }

    #[test]
    fn readiness_is_told_once_per_edge_and_again_after_reregister() {
        let mut driver = driver();
        let (near, mut far) = tcp_pair();
        driver.readiness.register(&near, token(7), Interest::READABLE).unwrap();
        assert_eq!(driver.wait(AT_ONCE, |_| ()).unwrap(), Polled::default());

        far.write_all(b"x").unwrap();
        assert_eq!(events(&mut driver), [Event { token: token(7), ready: Ready::READ }]);
        assert_eq!(driver.wait(AT_ONCE, |_| ()).unwrap(), Polled::default(), "the same edge is not repeated");

        driver.readiness.reregister(&near, token(8), BOTH).unwrap();
        assert_eq!(events(&mut driver), [Event { token: token(8), ready: Ready::READ | Ready::WRITE }]);

        driver.readiness.deregister(&near).unwrap();
        far.write_all(b"y").unwrap();
        assert_eq!(driver.wait(AT_ONCE, |_| ()).unwrap(), Polled::default());
    }

    #[test]
    fn the_end_of_a_stream_is_readable_and_says_so() {
        let mut driver = driver();
        let (near, far) = tcp_pair();
        driver.readiness.register(&near, token(1), Interest::READABLE).unwrap();
        far.shutdown(Shutdown::Write).unwrap();
        assert_eq!(events(&mut driver), [Event { token: token(1), ready: Ready::READ | Ready::READ_CLOSED }]);
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
        driver.readiness.register(&socket, token(1), BOTH).unwrap();
        let [event] = events(&mut driver)[..] else { panic!("one event per socket") };
        assert!(event.ready.contains(Ready::WRITE | Ready::ERROR), "{event:?}");
        assert!(socket.take_error().unwrap().is_some());
    }

    #[test]
    fn a_wake_up_before_the_poll_and_one_during_it_end_it() {
        let mut driver = driver();
        let waker = driver.waker.clone();
        waker.wake();
        let woken = Polled { events: 0, woken: true };
        assert_eq!(driver.wait(AT_ONCE, |_| ()).unwrap(), woken);
        assert_eq!(driver.wait(AT_ONCE, |_| ()).unwrap(), Polled::default(), "used up");

        let other = thread::spawn(move || waker.wake());
        assert_eq!(driver.wait(Some(HANGS), |_| ()).unwrap(), woken);
        other.join().unwrap();
    }

    #[test]
    fn a_rebuild_moves_all_registrations_and_what_is_ready_is_told_anew() {
        let mut driver = driver();
        let (near, mut far) = tcp_pair();
        let (quiet, _quiet_far) = tcp_pair();
        let readiness = driver.readiness.clone(); // as a source keeps it
        readiness.register(&near, token(1), Interest::READABLE).unwrap();
        readiness.register(&quiet, token(2), Interest::READABLE).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(events(&mut driver).len(), 1);

        assert_eq!(driver.rebuild().unwrap(), 2);
        assert_eq!(events(&mut driver), [Event { token: token(1), ready: Ready::READ }], "as if it were new");

        readiness.reregister(&quiet, token(3), Interest::WRITABLE).unwrap();
        assert_eq!(events(&mut driver), [Event { token: token(3), ready: Ready::WRITE }]);
        assert_eq!(driver.rebuild().unwrap(), 2);
        readiness.deregister(&near).unwrap();
        assert_eq!(driver.rebuild().unwrap(), 1);
        assert_eq!(events(&mut driver), [Event { token: token(3), ready: Ready::WRITE }]);
    }

    #[test]
    fn a_wake_up_before_a_rebuild_and_one_after_it_reach_the_new_poll() {
        let mut driver = driver();
        let waker = driver.waker.clone();
        waker.wake();
        driver.rebuild().unwrap();
        assert!(driver.wait(AT_ONCE, |_| ()).unwrap().woken, "sent to the old poll, seen by the new one");
        assert!(!driver.wait(AT_ONCE, |_| ()).unwrap().woken);
        waker.wake();
        assert!(driver.wait(AT_ONCE, |_| ()).unwrap().woken);
    }

    #[test]
    fn no_wake_up_is_lost_however_it_falls_together_with_rebuilds() {
        let mut driver = driver();
        let waker = driver.waker.clone();
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
                    // A wake-up that went to the old poll after the rebuild would leave nothing to end this one.
                    Err(_) => assert!(driver.wait(Some(HANGS), |_| ()).unwrap().woken, "round {round}"),
                }
            };
            assert_eq!(message, round);
            seen.send(()).unwrap();
        }
        other.join().unwrap();
    }

    #[test]
    fn a_full_poll_makes_room_for_the_next_and_loses_nothing() {
        let mut driver = ReadinessSeed::new().unwrap().into_driver(2);
        let pairs: Vec<_> = (0..7).map(|_| tcp_pair()).collect();
        for (index, (near, _)) in (0..).zip(&pairs) {
            driver.readiness.register(near, token(index), Interest::WRITABLE).unwrap();
        }
        let mut seen: Vec<u64> = Vec::new();
        while seen.len() < pairs.len() {
            seen.extend(events(&mut driver).iter().map(|event| event.token.to_u64()));
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..7).map(|index| token(index).to_u64()).collect::<Vec<_>>());
        assert_eq!(driver.brought.capacity(), 8, "2 and 4 were full");
    }

    #[test]
    fn a_driver_without_registrations_moves_to_another_thread_with_its_waker() {
        let driver = driver();
        let waker: Arc<dyn DriverWaker> = driver.waker.clone();
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

    /// Registers itself at its first call, then passes on what it reads.
    struct Reader {
        stream: TcpStream,
        readiness: Rc<Readiness>,
        read: mpsc::Sender<Vec<u8>>,
    }

    impl Source for Reader {
        fn ready(&mut self, event: Event) {
            if event.ready == Ready::NONE {
                return self.readiness.register(&self.stream, event.token, BOTH).unwrap();
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
    fn a_loop_delivers_reads_and_takes_tasks_from_other_threads_while_it_sleeps() {
        let event_loop = EventLoop::builder().driver(ReadinessSeed::new().unwrap()).build().unwrap();
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

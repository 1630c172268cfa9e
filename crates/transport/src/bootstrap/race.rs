//! Several addresses, one connection: the next attempt starts when the one before has failed, or has not answered for a
//! quarter of a second. The first to connect wins, and the others are given up.
//!
//! An attempt is a socket that connects, a source of the loop; or what a network or another transport connects by, a future of the loop.

use super::{ConnectError, attempts::Attempt, through::Through};
use crate::{
    open::Arrival,
    socket::{self, ConnectSettings},
    stream::Carried,
};
use netwright_core::{Address, JoinHandle, LocalLoop, Scheduled, driver::Token, time};
use std::{
    cell::RefCell,
    collections::{HashSet, VecDeque},
    io,
    rc::Rc,
    time::Duration,
};

/// How long an attempt has before the next one joins it (RFC 8305 recommends this).
const HEAD_START: Duration = Duration::from_millis(250);

type Done = Box<dyn FnOnce(Result<Arrival, ConnectError>)>;

struct Race {
    _attempt: Attempt,
    local: LocalLoop,
    through: Rc<Through>,
    settings: Rc<ConnectSettings>,
    left: VecDeque<Address>,
    running: Vec<(Address, Running)>,
    error: Option<ConnectError>,
    timer: Option<Scheduled<()>>,
    done: Option<Done>,
}

/// An attempt that has begun.
enum Running {
    Socket(Token),
    Future(JoinHandle<()>),
}

impl Running {
    fn give_up(self, local: &LocalLoop) {
        match self {
            Self::Socket(token) => _ = local.deregister(token),
            Self::Future(connecting) => _ = connecting.abort(),
        }
    }
}

/// Starts, on the loop of the calling thread.
pub(super) fn start(
    id: u64,
    local: LocalLoop,
    addresses: Vec<Address>,
    through: Through,
    settings: ConnectSettings,
    done: Done,
) {
    // An attempt is known by its address, and a second one to the same would not do better.
    let mut seen = HashSet::new();
    let left = addresses.into_iter().filter(|address| seen.insert(address.clone())).collect();
    let race = Race {
        _attempt: Attempt::new(id),
        local,
        through: Rc::new(through),
        settings: Rc::new(settings),
        left,
        running: Vec::new(),
        error: None,
        timer: None,
        done: Some(done),
    };
    let race = Rc::new(RefCell::new(race));
    let known = Rc::downgrade(&race);
    Attempt::on_abandon(id, move || {
        if let Some(race) = known.upgrade() {
            let done = race.borrow_mut().done.take();
            drop(done);
            stop(&race);
        }
    });
    next(&race);
}

fn stop(race: &Rc<RefCell<Race>>) {
    let (local, running, timer) = {
        let mut race = race.borrow_mut();
        race.left.clear();
        (race.local.clone(), std::mem::take(&mut race.running), race.timer.take())
    };
    for (_, attempt) in running {
        attempt.give_up(&local);
    }
    if let Some(timer) = timer {
        timer.cancel();
    }
}

/// Begins the next attempt. Those that fail at once are followed by another here, one after the other: one inside of the other
/// they would need as much stack as there are addresses.
fn next(race: &Rc<RefCell<Race>>) {
    let timer = race.borrow_mut().timer.take();
    if let Some(timer) = timer {
        timer.cancel(); // the attempt that it would start is this one
    }
    loop {
        let (local, address) = {
            let mut race = race.borrow_mut();
            let Some(address) = race.left.pop_front() else { break };
            (race.local.clone(), address)
        };
        match begin(race, &address) {
            Ok(attempt) => {
                race.borrow_mut().running.push((address, attempt));
                if !race.borrow().left.is_empty() {
                    let later = race.clone();
                    let timer = local.schedule(HEAD_START, move || next(&later)).ok();
                    race.borrow_mut().timer = timer;
                }
                return;
            }
            Err(error) => race.borrow_mut().failed(address, error),
        }
    }
    let lost = race.borrow_mut().take_lost();
    if let Some((done, error)) = lost {
        done(Err(error));
    }
}

fn begin(race: &Rc<RefCell<Race>>, to: &Address) -> io::Result<Running> {
    let (local, through, settings) = {
        let race = race.borrow();
        (race.local.clone(), race.through.clone(), race.settings.clone())
    };
    let (told, peer) = (race.clone(), to.clone());
    let connecting = match &*through {
        Through::Sockets => {
            let on_connect = Box::new(move |result: io::Result<_>| {
                let arrival = |socket| Arrival { carried: Carried::Socket(socket), peer: peer.clone() };
                finished(&told, &peer, result.map(arrival));
            });
            return socket::connect(&local, to.clone(), &settings, on_connect).map(Running::Socket);
        }
        Through::Network(network) => network.connect(to, &local, &settings)?,
        Through::Transport(means) => means.connect(to, &local, &settings.options)?,
    };
    let limit = settings.limit;
    // It is polled in a task of its own, so it has not ended before it is known as running.
    let attempt = local.spawn(async move {
        let result = match limit {
            Duration::ZERO => connecting.await,
            _ => {
                time::timeout(limit, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
        };
        finished(&told, &peer, result);
    });
    attempt.map(Running::Future).map_err(|refused| io::Error::other(refused.why))
}

impl Race {
    fn failed(&mut self, address: Address, error: io::Error) {
        let limit = self.settings.limit;
        // The first error is the one of the preferred address: that is the one to report.
        self.error.get_or_insert_with(|| ConnectError::io(address, limit, error));
    }

    /// Whom to tell that nobody has won, if so.
    fn take_lost(&mut self) -> Option<(Done, ConnectError)> {
        if !self.running.is_empty() || !self.left.is_empty() {
            return None;
        }
        self.done.take().zip(self.error.take())
    }
}

fn finished(race: &Rc<RefCell<Race>>, address: &Address, result: io::Result<Arrival>) {
    race.borrow_mut().running.retain(|(running, _)| running != address);
    match result {
        Ok(arrival) => {
            stop(race);
            let done = race.borrow_mut().done.take();
            if let Some(done) = done {
                done(Ok(arrival));
            }
        }
        Err(error) => {
            race.borrow_mut().failed(address.clone(), error);
            next(race);
        }
    }
}

//! Several addresses, one connection: the next attempt starts when the one before has failed, or has not answered for a
//! quarter of a second. The first to connect wins, and the others are given up.

use super::{ConnectError, attempts::Attempt};
use crate::socket::{self, ConnectSettings};
use netwright_core::{Address, LocalLoop, Scheduled, driver::Token};
use socket2::Socket;
use std::{
    cell::RefCell,
    collections::{HashSet, VecDeque},
    io,
    rc::Rc,
    time::Duration,
};

/// How long an attempt has before the next one joins it (RFC 8305 recommends this).
const HEAD_START: Duration = Duration::from_millis(250);

type Done = Box<dyn FnOnce(Result<(Socket, Address), ConnectError>)>;

struct Race {
    _attempt: Attempt,
    local: LocalLoop,
    settings: Rc<ConnectSettings>,
    left: VecDeque<Address>,
    running: Vec<(Address, Token)>,
    error: Option<ConnectError>,
    timer: Option<Scheduled<()>>,
    done: Option<Done>,
}

/// Starts, on the loop of the calling thread.
pub(super) fn start(
    id: u64,
    local: LocalLoop,
    addresses: Vec<Address>,
    settings: ConnectSettings,
    done: Done,
) {
    // An attempt is known by its address, and a second one to the same would not do better.
    let mut seen = HashSet::new();
    let left = addresses.into_iter().filter(|address| seen.insert(address.clone())).collect();
    let race = Race {
        _attempt: Attempt::new(id),
        local,
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
    for (_, token) in running {
        local.deregister(token);
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
        let (local, address, settings) = {
            let mut race = race.borrow_mut();
            let Some(address) = race.left.pop_front() else { break };
            (race.local.clone(), address, race.settings.clone())
        };
        let told = race.clone();
        let to = address.clone();
        let on_connect = Box::new(move |result| finished(&told, to, result));
        match socket::connect(&local, address.clone(), &settings, on_connect) {
            Ok(token) => {
                race.borrow_mut().running.push((address, token));
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

fn finished(race: &Rc<RefCell<Race>>, address: Address, result: io::Result<Socket>) {
    race.borrow_mut().running.retain(|(running, _)| *running != address);
    match result {
        Ok(socket) => {
            stop(race);
            let done = race.borrow_mut().done.take();
            if let Some(done) = done {
                done(Ok((socket, address)));
            }
        }
        Err(error) => {
            race.borrow_mut().failed(address, error);
            next(race);
        }
    }
}

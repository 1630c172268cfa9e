//! Accepts local connections on a loop.

use super::Door;
use crate::{
    socket::{ListenerFigures, Reception},
    stream::Connection,
};
use netwright_core::{
    LocalLoop, RefusedWhy,
    driver::{Event, Source, Token},
};
use std::{
    io,
    sync::{Arc, atomic::Ordering},
};

/// Connections accepted before others get their turn.
const ACCEPTS_PER_TURN: usize = 16;

pub(crate) struct LocalListener {
    local: LocalLoop,
    token: Token,
    door: Door,
    /// What the door knows us by.
    number: u64,
    figures: Arc<ListenerFigures>,
    reception: Box<dyn Reception>,
}

impl LocalListener {
    /// Has the loop of the calling thread accept at this door. Returns the token by which it is deregistered.
    pub(crate) fn start(
        local: &LocalLoop,
        door: Door,
        figures: Arc<ListenerFigures>,
        reception: Box<dyn Reception>,
    ) -> io::Result<Token> {
        let make = |token| {
            let number = door.attend(local.caller(token));
            Ok::<_, RefusedWhy>(Self { local: local.clone(), token, door, number, figures, reception })
        };
        let token = local.register_with(make).map_err(|why| io::Error::other(why.to_string()))?;
        local.call(token); // for who came before
        Ok(token)
    }
}

impl Source for LocalListener {
    fn ready(&mut self, _: Event) {
        for _ in 0..ACCEPTS_PER_TURN {
            if self.figures.held.load(Ordering::Acquire) {
                return;
            }
            let Some(end) = self.door.accept() else { return };
            self.figures.accepted.fetch_add(1, Ordering::Relaxed);
            let peer = end.peer().clone();
            self.reception.accepted(Connection::Local(end), peer);
        }
        self.local.call(self.token); // there may be more
    }

    fn shut_down(&mut self) {
        self.reception.loop_ends();
        self.local.deregister(self.token);
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        self.door.leave(self.number);
    }
}

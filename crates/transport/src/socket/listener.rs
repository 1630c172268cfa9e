//! Accepts connections of any [`Acceptor`], and keeps listening when the system has no descriptor left: see `accepting`.
//!
//! A socket that does not listen any more, because somebody else shut it down, is closed; so is whatever panics.
//! While it pauses, a level-triggered loop is told not to mind those who wait.

use super::{
    accepting::{ACCEPTS_PER_TURN, Accepting, ListenerFigures},
    mishaps::Mishap,
    reception::Reception,
};
use crate::open::{Acceptor, Arrival, contained};
use netwright_core::{
    LocalLoop,
    driver::{Event, Source, Token},
    internal::catch,
};
use std::{io, sync::Arc};

pub(crate) struct Listener {
    /// `None` when it listens no more. Before `accepting`: whoever is told hears of it when the socket is closed.
    acceptor: Option<Box<dyn Acceptor>>,
    accepting: Accepting,
}

impl Listener {
    /// Has the loop of the calling thread accept. Returns the token by which it is deregistered.
    pub(crate) fn start(
        local: &LocalLoop,
        attend: impl FnOnce(Token) -> io::Result<Box<dyn Acceptor>>,
        figures: Arc<ListenerFigures>,
        reception: Box<dyn Reception>,
    ) -> io::Result<Token> {
        let token = local.register_with(|token| {
            let acceptor = Some(contained(|| attend(token))?);
            Ok::<_, io::Error>(Self { acceptor, accepting: Accepting::new(local, token, figures, reception) })
        })?;
        local.call(token); // for who came before
        Ok(token)
    }

    fn accept_some(&mut self) {
        let mut share = 0;
        while share < ACCEPTS_PER_TURN {
            if !self.accepting.may_accept() {
                return;
            }
            let Some(acceptor) = &mut self.acceptor else { return };
            match catch(|| acceptor.accept()) {
                Ok(Ok(Arrival { carried, peer })) => share += self.accepting.accepted(carried, peer),
                Ok(Err(error)) => match self.accepting.judge(&error) {
                    Mishap::Nobody => return,
                    Mishap::Again | Mishap::Next => share += 1,
                    Mishap::Pause => {
                        let accept = || contained(|| acceptor.accept()).map(|one| (one.carried, one.peer));
                        return self.accepting.pause(&error, accept);
                    }
                    Mishap::Broken => return self.give_up(error),
                },
                Err(panic) => return self.panicked_accepting(&panic),
            }
        }
        self.accepting.call_again();
    }

    /// Whether the loop is to say that somebody waits.
    fn settle(&mut self) {
        let Some(acceptor) = &mut self.acceptor else { return };
        let wants = !self.accepting.pauses() && !self.accepting.is_held();
        if let Err(panic) = catch(|| acceptor.settle(wants)) {
            self.panicked_accepting(&panic);
        }
    }

    fn panicked_accepting(&mut self, panic: &str) {
        self.give_up(io::Error::other(format!("accepting panicked: {panic}")));
    }

    fn give_up(&mut self, error: io::Error) {
        self.accepting.broken(error);
        self.acceptor = None;
    }
}

impl Source for Listener {
    fn ready(&mut self, _: Event) {
        if !self.accepting.pauses() {
            self.accept_some();
        }
        self.settle();
    }

    fn signal(&mut self, timer: u64) {
        if self.accepting.go_on(timer) {
            self.accept_some();
        }
        self.settle();
    }

    fn shut_down(&mut self) {
        self.accepting.loop_ends();
        self.acceptor = None;
    }
}

//! Ctrl-C, SIGTERM and SIGHUP: the first asks for an orderly end, the second ends the process at once.

use crate::failure::Failure;
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::Duration,
};

/// What a shell reports for a program that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Tells when somebody wants the program to end.
pub(crate) struct Stop {
    asked: Receiver<()>,
}

impl Stop {
    /// Listens from now on. Once in a process.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let (ask, asked) = channel();
        let mut first = Some(ask);
        ctrlc::set_handler(move || match first.take() {
            Some(ask) => drop(ask.send(())),
            None => std::process::exit(EXIT_INTERRUPTED),
        })
        .map_err(|error| Failure::Failed(format!("cannot listen for Ctrl-C: {error}")))?;
        Ok(Self { asked })
    }

    /// Waits that long. True if the program should end.
    pub(crate) fn within(&self, time: Duration) -> bool {
        self.asked.recv_timeout(time) != Err(RecvTimeoutError::Timeout)
    }
}

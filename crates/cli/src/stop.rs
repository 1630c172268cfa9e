//! Ctrl-C, SIGTERM and SIGHUP: the first asks for an orderly end, the second ends the process at once.

use crate::failure::Failure;
use netwright::server::signals::Signals;
use std::time::Duration;

/// What a shell reports for a program that Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Tells when somebody wants the program to end.
pub(crate) struct Stop {
    signals: Signals,
}

impl Stop {
    /// Listens from now on.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let signals = Signals::listen().map_err(|error| Failure::Failed(error.to_string()))?;
        signals.second().listen(|_| std::process::exit(EXIT_INTERRUPTED));
        Ok(Self { signals })
    }

    /// Waits that long. True if the program should end.
    pub(crate) fn within(&self, time: Duration) -> bool {
        self.signals.first().wait_timeout(time).is_some()
    }
}

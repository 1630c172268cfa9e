//! Why a command did not work, as one line and an exit code.

use std::{fmt::Display, process::ExitCode};

/// What ends a command early.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The command line asks for something that cannot be: exit code 2.
    Usage(String),
    /// It was tried and did not work: exit code 1.
    Failed(String),
    /// It did not work, and everything has been said about it: exit code 1.
    Reported,
}

impl Failure {
    pub(crate) fn usage(text: impl Display) -> Self {
        Self::Usage(text.to_string())
    }

    /// One line on standard error, and the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (text, code) = match self {
            Self::Usage(text) => (text, 2),
            Self::Failed(text) => (text, 1),
            Self::Reported => return ExitCode::from(1),
        };
        eprintln!("netwright: {text}");
        ExitCode::from(code)
    }
}

/// Everything that goes wrong while a command runs.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

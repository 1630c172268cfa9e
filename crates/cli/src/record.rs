//! The options of `netwright serve` for its flight recorder, and what they make.

use crate::failure::Failure;
use clap::Args;
use netwright::{
    pipeline::ObserverStage,
    record::{Directory, FlightRecorder, Recorder, When},
};
use std::{path::PathBuf, time::Duration};

/// What they are listed under.
const HEADING: &str = "Flight recorder";
/// For what is still to be written when the server has ended.
const LAST_FILES: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct RecordArguments {
    /// Record what passes on each connection, the last 64 KiB of it, behind TLS; and write it to this directory if the connection ends
    /// by an error, a panic or a limit. Values of Authorization, Cookie and their like are replaced by `*`, but of
    /// HTTP/2, which compresses them, nothing is: add --http1-only if that matters. `netwright replay` plays such a file
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,

    /// Write a recording of every connection
    #[arg(long, requires = "record")]
    record_all: bool,

    /// How many recordings the directory may have: one more costs the oldest
    #[arg(long, value_name = "N", requires = "record", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    record_most: u32,
}

impl RecordArguments {
    pub(crate) fn is_on(&self) -> bool {
        self.record.is_some()
    }

    /// The recorder, if there is to be one, for this protocol.
    pub(crate) fn tape(&self, protocol: &str) -> Result<Tape, Failure> {
        let Some(path) = &self.record else { return Ok(Tape::default()) };
        let directory = Directory::new(path, self.record_most as usize)
            .map_err(|error| Failure::Failed(format!("cannot record to {}: {error}", path.display())))?;
        let when = if self.record_all { When::ALWAYS } else { When::TROUBLE };
        Ok(Tape(Some(FlightRecorder::builder().when(when).label(protocol).to(directory).build())))
    }

    /// What to say about it.
    pub(crate) fn text(&self) -> Option<String> {
        let which = if self.record_all { "every connection" } else { "connections that end in trouble" };
        self.record.as_ref().map(|path| format!("recording {which} to {}", path.display()))
    }
}

/// A flight recorder, or none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tape(Option<FlightRecorder>);

impl Tape {
    /// The first stage of a connection that is recorded, or nothing.
    pub(crate) fn stage(&self) -> Option<ObserverStage<Recorder>> {
        self.0.as_ref().map(FlightRecorder::stage)
    }

    /// Waits until everything is written.
    pub(crate) fn finish(&self) {
        if let Some(flight) = &self.0
            && !flight.wait_until_written(LAST_FILES)
        {
            tracing::warn!("recordings were not written in time");
        }
    }
}

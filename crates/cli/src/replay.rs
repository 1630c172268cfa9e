//! `netwright replay`: a recording as text, and whether our own server gives the same replies again.

use crate::{
    failure::Failure,
    record::Tape,
    serve::{Protocol, name},
    servers::{chat, echo, files, hello, room::Room, time, versions::Versions, ws_echo},
    terminal::say,
};
use clap::{Args, ValueEnum};
use netwright::{
    http::web::{AccessLog, Files},
    record::{Cause, CauseKind, Ending, Recording, Replay, Replayed, Seen},
};
use std::{path::PathBuf, thread, time::SystemTime};

/// Show what passed on a recorded connection, and play it to the same server again
///
/// The server runs in memory, without a socket: what came in comes again, in the same pieces at the same times. Its replies
/// are compared with the recorded ones, but for the values of Date headers, and of those that the recording has covered.
///
/// What others in a chat said is not in a recording: their lines are missing in a replay.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The file, written by `netwright serve --record` or by any program with netwright's flight recorder
    file: PathBuf,

    /// Which server to play it to [default: the one that the file names]
    #[arg(long, value_enum)]
    protocol: Option<Played>,

    /// The directory whose files `http` serves
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,

    /// Whether to take the time that it took
    #[arg(long, value_enum, default_value_t = Speed::Fast)]
    speed: Speed,

    /// How many bytes of each piece to show
    #[arg(long, value_name = "N", default_value_t = 512)]
    bytes: usize,

    /// Only show the recording, and play it to nobody
    #[arg(long, conflicts_with_all = ["protocol", "dir", "speed"])]
    show: bool,
}

const EXAMPLES: &str = "\
Examples:
  netwright serve hello --record recordings          keeps connections that end in trouble
  netwright replay recordings/recording-….nwr        what passed, and whether the replies are the same now
  netwright replay FILE --protocol http --dir public --speed real
  netwright replay FILE --show                       only what passed

Exit codes: 0 the replies are the same, 1 they differ or the file cannot be read, 2 the command line cannot be carried out,
or they differ and the file has lost its beginning, so that they cannot be compared.";

/// The servers that can be played to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Played {
    Echo,
    Time,
    Chat,
    /// Needs --dir
    Http,
    Hello,
    WsEcho,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Speed {
    /// All at once
    Fast,
    /// As long as it took
    Real,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let recording = Recording::open(&arguments.file)
        .map_err(|error| Failure::Failed(format!("{}: {error}", arguments.file.display())))?;
    if arguments.show {
        say!("{}", recording.show().bytes_of_each(arguments.bytes).to_string().trim_end());
        return Ok(());
    }
    let protocol = protocol(&arguments, &recording)?;
    let files = arguments.files(protocol)?;
    say!("{}", recording.show().bytes_of_each(arguments.bytes).to_string().trim_end());
    say!("\nplaying it to: {}", name(protocol));
    if !recording.is_from_the_start() {
        say!(
            "note: the recording begins in the middle of its connection, so the replies may differ for that alone"
        );
    }
    let mut replay = recording.replay();
    if arguments.speed == Speed::Real {
        replay = replay.pace(thread::sleep);
    }
    let again = play(replay, protocol, &recording, files);
    judge(&recording, &again)
}

/// The one that was asked for, or that the recording names.
fn protocol(arguments: &Arguments, recording: &Recording) -> Result<Played, Failure> {
    if let Some(protocol) = arguments.protocol {
        return Ok(protocol);
    }
    let known = || Played::value_variants().iter().map(|one| name(*one)).collect::<Vec<_>>().join(", ");
    let Some(label) = recording.label() else {
        return Err(Failure::usage(format!(
            "the file names no protocol: say --protocol, one of {}",
            known()
        )));
    };
    Played::from_str(label, false).map_err(|_| {
        let served = Protocol::from_str(label, false).is_ok();
        let why = if served { "cannot be played to" } else { "is no server of this program" };
        Failure::usage(format!(
            "{label:?}, of which the file is, {why}: --show shows it, --protocol takes {}",
            known()
        ))
    })
}

impl Arguments {
    fn files(&self, protocol: Played) -> Result<Option<Files>, Failure> {
        match (&self.dir, protocol) {
            (Some(dir), Played::Http) => Files::below(dir)
                .map(Some)
                .map_err(|error| Failure::Failed(format!("cannot serve {}: {error}", dir.display()))),
            (None, Played::Http) => Err(Failure::usage("a replay of http needs --dir PATH")),
            (Some(_), other) => {
                Err(Failure::usage(format!("--dir is for http only, not for {}", name(other))))
            }
            (None, _) => Ok(None),
        }
    }
}

fn play(replay: Replay<'_>, protocol: Played, recording: &Recording, files: Option<Files>) -> Replayed {
    let off = Tape::default();
    match (protocol, files) {
        (Played::Echo, _) => replay.run(echo::stages(&off)),
        (Played::Time, _) => {
            let then = recording.began().unwrap_or_else(SystemTime::now);
            replay.run(time::stages(time::Clock::from(then), &off))
        }
        (Played::Chat, _) => replay.run(chat::stages(&Room::default(), &off)),
        (Played::Http, Some(files)) => {
            replay.run(files::stages(&files, &AccessLog::tracing(), Versions::Both, &off))
        }
        (Played::Hello | Played::Http, _) => replay.run(hello::Stages::default().stages(&off)),
        (Played::WsEcho, _) => replay.run(ws_echo::stages(&ws_echo::accept(), Versions::Both, &off)),
    }
}

/// Tells whether the replies are the same.
fn judge(recording: &Recording, again: &Replayed) -> Result<(), Failure> {
    match recording.records().find_map(|record| match record.what {
        Seen::Inactive(cause) => Some(cause),
        Seen::Panicked(text) => {
            Some(Cause { kind: CauseKind::Panicked, text: format!("a handler panicked: {text}") })
        }
        _ => None,
    }) {
        Some(then) => say!("it ended then: {then}"),
        None => say!("it had not ended then"),
    }
    match again.end() {
        Some(now) => say!("it ended now:  {now}"),
        None => say!("it has not ended now"),
    }
    if let Some(missing) = again.missing() {
        say!("the replay ended where {missing} bytes of what came in are not in the recording");
    }
    if recording.ending() != Ending::Complete {
        say!("note: the file does not reach its end, so replies may be missing in it");
    }
    match again.compare(recording).ignore_header("date").as_far_as_recorded().check() {
        Ok(()) if again.missing().is_none() => {
            say!("the same: {} bytes went out, as in the recording", recording.written_len());
            return Ok(());
        }
        Ok(()) => {}
        Err(difference) => say!("different: {difference}"),
    }
    Err(match recording.lost() {
        Some(_) => {
            Failure::usage("the recording has lost its beginning: it cannot be compared from the beginning")
        }
        None => Failure::Reported,
    })
}

//! A flight recorder for the connections of a server, and their replay: a bug in production becomes a test.
//!
//! ```text
//!   socket ──▶ [ Tls ] ──▶ [ recorder ] ──▶ [ codec ] ──▶ [ application ]
//!                             │ the last 64 KiB: what came in and went out, when, in which pieces
//!                             ▼
//!            on an error, a panic, a limit, at the end, or by hand: a file, by a worker
//!                             │
//!                             ▼
//!              replay ──▶ the same pipeline, the same pieces and times ──▶ the same replies?
//! ```
//!
//! A [`FlightRecorder`] gives each channel a [stage](FlightRecorder::stage), or a [`Recorder`] for a [slot](netwright_core::slot) of one that lives already. What
//! it keeps is bounded; what it writes goes to a [`Directory`] with a bounded number of files, or to a function, and secrets are
//! [covered](Redaction) before. A [`Recording`] is read from a file, [shown](Recording::show), and
//! [played](Recording::replay) to a pipeline in a test:
//!
//! ```
//! use netwright_core::{EmbeddedChannel, IntoPipeline, Outgoing, pipeline};
//! use netwright_record::FlightRecorder;
//!
//! fn server() -> impl IntoPipeline<Outgoing> {
//!     pipeline().handle(|cx, bytes: bytes::BytesMut| cx.write_and_flush(format!("{} bytes", bytes.len())))
//! }
//!
//! let flight = FlightRecorder::builder().build();
//! let mut channel = EmbeddedChannel::of(pipeline().add(flight.stage()).joint(|_| server())); // or a real server's
//! channel.write_inbound("hello");
//!
//! let recording = flight.live()[0].recording(); // or `Recording::open(path)`
//! recording.replay().run(server()).compare(&recording).assert_same();
//! ```
//!
//! `docs/recording.md` leads from a bug to a test in five steps; `docs/recording-format.md` describes the file.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod flight;
mod format;
mod live;
mod pen;
mod recorder;
mod redact;
mod replay;
mod ring;
mod show;
mod sink;

pub use flight::{FlightRecorder, FlightRecorderBuilder, RecorderFigures, When};
pub use format::{Cause, CauseKind, Ending, FormatError, Piece, Record, Recording, Records, Seen, Why};
pub use live::LiveRecording;
pub use recorder::{Recorder, Wire};
pub use redact::{Direction, Redaction};
pub use replay::{Comparison, Context, Difference, Replay, Replayed, Sent};
pub use show::Conversation;
pub use sink::{Directory, NewRecording, Sink};

/// The code of that page is built and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

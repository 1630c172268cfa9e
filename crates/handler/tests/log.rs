//! What a log tells, and what never gets into it.

use netwright_codec::{LineFrames, Utf8};
use netwright_core::{EmbeddedChannel, pipeline};
use netwright_handler::{Direction, Log};
use std::{
    fmt,
    sync::{Arc, Mutex},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

/// Keeps each event as a line: level, message, fields.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("netwright_handler")
    }
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
    fn event(&self, event: &Event<'_>) {
        struct Line(String);
        impl Visit for Line {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                match field.name() {
                    "message" => self.0 = format!("{value:?}{}", self.0),
                    "channel" => {}
                    name => self.0.push_str(&format!(" {name}={value:?}")),
                }
            }
        }
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(format!("{} {}", event.metadata().level(), line.0));
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// What is told while `call` runs.
fn told(call: impl FnOnce()) -> Vec<String> {
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), call);
    lines.take()
}

#[test]
fn a_lifecycle_is_begin_errors_end_of_input_and_end() {
    let lines = told(|| {
        let stages = pipeline().filter(Log::lifecycle().level(Level::INFO)).handle(|cx, bytes| {
            cx.write_and_flush(bytes);
        });
        let mut channel = EmbeddedChannel::of(stages);
        channel.write_inbound("hello").close_input(); // the last stage wants nothing more, and closes
    });
    assert_eq!(lines, ["INFO active", "INFO input closed", "INFO inactive cause=closed by our side"]);
}

#[test]
fn lengths_say_nothing_of_what_is_said() {
    let lines = told(|| {
        let stages = pipeline().filter(Log::lengths()).handle(|cx, bytes| cx.write_and_flush(bytes));
        EmbeddedChannel::of(stages).write_inbound("secret");
    });
    assert_eq!(lines[1..3], ["DEBUG read len=6", "DEBUG write len=6"]);
    assert!(!lines.concat().contains("secret"));
}

#[test]
fn a_dump_shows_no_more_than_the_limit() {
    let lines = told(|| {
        let stages = pipeline().filter(Log::hex().max(4).level(Level::TRACE)).handle(|_, _| {});
        EmbeddedChannel::of(stages).write_inbound("hello");
    });
    let dump = "\n00000000  68 65 6c 6c                                       |hell|\n… and 1 bytes more";
    assert_eq!(lines[1], format!("TRACE read len=5 bytes={dump}"));
}

#[test]
fn nothing_that_a_peer_sends_looks_like_an_event_of_its_own() {
    let lines = told(|| {
        let stages = pipeline().filter(Log::text()).handle(|_, _| {});
        EmbeddedChannel::of(stages).write_inbound("\r\nERROR root logged in\x1b[2J");
    });
    assert_eq!(lines[1], r#"DEBUG read len=26 text="\r\nERROR root logged in\u{1b}[2J""#);
}

#[test]
fn secrets_are_covered_before_anybody_sees_them_and_what_passes_is_left_alone() {
    let lines = told(|| {
        let log = Log::text().redact(|direction, bytes| {
            if direction == Direction::Read {
                bytes.fill(b'*');
            }
        });
        let stages = pipeline().filter(log).handle(|cx, bytes| cx.write_and_flush(bytes));
        assert_eq!(EmbeddedChannel::of(stages).write_inbound("secret").outbound_bytes(), b"secret");
    });
    assert_eq!(lines[1..3], ["DEBUG read len=6 text=\"******\"", "DEBUG write len=6 text=\"secret\""]);
}

#[test]
fn whoever_panics_while_it_covers_shows_nothing_and_harms_nobody() {
    let lines = told(|| {
        let log = Log::text().redact(|_, bytes| assert!(!bytes.starts_with(b"secret"), "no"));
        let stages = pipeline().filter(log).handle(|cx, bytes| cx.write_and_flush(bytes));
        let mut channel = EmbeddedChannel::of(stages);
        assert_eq!(channel.write_inbound("secret").outbound_bytes(), b"secret");
        assert!(channel.is_open());
    });
    assert!(lines[1].starts_with("DEBUG read, and not shown"), "{lines:?}");
    assert!(!lines.concat().contains("secret"));
}

#[test]
fn who_makes_more_of_what_is_shown_than_there_may_be_is_cut() {
    let lines = told(|| {
        let log = Log::text().max(8).redact(|_, bytes| bytes.extend([b'x'; 100]));
        EmbeddedChannel::of(pipeline().filter(log).handle(|_, _| {})).write_inbound("hello");
    });
    assert_eq!(lines[1], "DEBUG read len=5 text=\"helloxxx\"");
}

#[test]
fn messages_are_shown_by_their_debug_as_far_as_the_limit() {
    let lines = told(|| {
        let stages =
            pipeline().add(LineFrames::max(2000)).add(Utf8::strict()).filter(Log::messages().max(10));
        let mut channel = EmbeddedChannel::of(stages.handle(|_, _: String| {}));
        channel.write_inbound("short\n").write_inbound(format!("{}\n", "ü".repeat(900)));
    });
    assert_eq!(lines[1], "DEBUG read shown=\"short\"");
    assert_eq!(lines[2], "DEBUG read shown=\"üüüü…");
}

#[test]
fn with_zero_bytes_lengths_are_told() {
    let lines = told(|| {
        EmbeddedChannel::of(pipeline().filter(Log::hex().max(0)).handle(|_, _| {})).write_inbound("hello");
    });
    assert_eq!(lines[1], "DEBUG read len=5");
}

#[test]
fn errors_are_told_on_their_way() {
    let lines = told(|| {
        let stages = pipeline().add(LineFrames::max(80)).add(Utf8::strict()).filter(Log::lifecycle());
        EmbeddedChannel::of(stages.handle(|_, _: String| {})).write_inbound(b"\xff\n");
    });
    assert!(lines[1].starts_with("DEBUG error error="), "{lines:?}");
}

#[test]
fn a_receiver_that_panics_does_so_for_itself() {
    struct Panics;
    impl Subscriber for Panics {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn event(&self, event: &Event<'_>) {
            assert!(!event.metadata().target().starts_with("netwright_handler"), "no");
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }
    tracing::subscriber::with_default(Panics, || {
        let stages = pipeline().filter(Log::hex()).handle(|cx, bytes| cx.write_and_flush(bytes));
        let mut channel = EmbeddedChannel::of(stages);
        assert_eq!(channel.write_inbound("hello").outbound_bytes(), b"hello");
    });
}

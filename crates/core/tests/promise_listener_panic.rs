//! A listener's panic is not swallowed: it comes out as one `tracing` error that carries the panic's message.
//!
//! Alone in its process: `tracing` remembers per call site whether anyone listens, so tests on other threads that reach
//! the same line would decide this one's outcome.
#![cfg(not(loom))]

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use netwright_core::Promised;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::Field,
    span::{Attributes, Id, Record},
};

/// Keeps the text of every error.
struct Errors(Arc<Mutex<Vec<String>>>);

impl Subscriber for Errors {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }
    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| text += &format!("{field}: {value:?}; "));
        self.0.lock().unwrap().push(text);
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn a_panicking_listener_is_reported_once_with_its_message() {
    let errors = Arc::new(Mutex::new(Vec::new()));
    tracing::subscriber::with_default(Errors(errors.clone()), || {
        Promised::<u32>::ready(Ok(1)).listen(|_| panic!("on purpose, number {}", 42));
    });
    let errors = errors.lock().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("listener panicked"), "{errors:?}");
    assert!(errors[0].contains("on purpose, number 42"), "{errors:?}");
}

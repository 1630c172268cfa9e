//! From behaviours to tests: which cases there are, and how one is run so that its failure can be read.

use super::{Setup, Subject, Transport, Variation, suite};
use std::{
    backtrace::{Backtrace, BacktraceStatus},
    cell::RefCell,
    io::{self, Write},
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::Once,
    thread,
};

/// Part of every panic that a test means to happen.
pub(super) const ON_PURPOSE: &str = "on purpose";

/// One test: a behaviour on a transport in a model.
#[derive(Debug, Clone)]
pub struct Case {
    setup: Setup,
    missing: Option<String>,
}

/// Every behaviour on every transport of ours that it applies to, in every model.
pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = Transport::ALL.iter().flat_map(|transport| cases_on(*transport)).collect();
    cases.retain(|case| case.setup.behaviour.does_not_apply(case.setup.transport).is_none());
    cases
}

/// Every behaviour on a transport from outside, in every model. What does not apply to it is missing, with the reason.
pub fn cases_of(subject: &'static dyn Subject) -> Vec<Case> {
    cases_on(Transport::Other(subject))
}

fn cases_on(transport: Transport) -> Vec<Case> {
    let (mut cases, missing) = (Vec::new(), transport.missing());
    for behaviour in suite() {
        let lacks = || behaviour.does_not_apply(transport).map(str::to_owned);
        let missing = missing.clone().or_else(lacks).or_else(|| not_here(behaviour));
        for &variation in Variation::ALL {
            for &model in behaviour.models(transport, variation) {
                let setup = Setup { transport, model, variation, behaviour };
                cases.push(Case { setup, missing: missing.clone() });
            }
        }
    }
    cases
}

/// Why this system cannot show a behaviour, if it cannot.
fn not_here(behaviour: &super::Behaviour) -> Option<String> {
    #[cfg(windows)]
    return super::windows::missing(behaviour);
    #[cfg(not(windows))]
    return {
        let _ = behaviour;
        None
    };
}

impl Case {
    /// The name of the test.
    pub fn name(&self) -> String {
        self.setup.test_name()
    }

    /// What it needs that this machine does not have.
    pub fn missing(&self) -> Option<&str> {
        self.missing.as_deref()
    }

    /// Runs it. An error is where and why it failed.
    pub fn run(&self) -> Result<(), String> {
        listen_to_panics();
        FAILURE.set(Some(String::new()));
        let result = panic::catch_unwind(AssertUnwindSafe(|| self.setup.behaviour.run(self.setup)));
        let failure = FAILURE.take().unwrap_or_default();
        result.map_err(|_| failure)
    }
}

thread_local! {
    /// On a thread that runs a case: what was wrong.
    static FAILURE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Nothing captures what a test prints. So a panic of the test itself is kept for its report, one on purpose is not shown,
/// and any other thread says which one it is.
fn listen_to_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| panic::set_hook(Box::new(hear)));
}

fn hear(info: &PanicHookInfo<'_>) {
    let payload = info.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no text");
    let place = info.location().map_or_else(String::new, ToString::to_string);
    let trace = Backtrace::capture();
    let trace =
        if trace.status() == BacktraceStatus::Captured { format!("\n{trace}") } else { String::new() };
    let kept = FAILURE.with_borrow_mut(|failure| match failure {
        Some(failure) => {
            *failure = format!("{place}: {message}{trace}");
            true
        }
        None => false,
    });
    if !kept && !message.contains(ON_PURPOSE) {
        let name = thread::current().name().unwrap_or("unnamed").to_owned();
        let line = format!("thread {name:?} panicked at {place}: {message}{trace}\n");
        let _ = io::stderr().write_all(line.as_bytes()); // in one piece, among the lines of the tests
    }
}

//! What must not compile, and that the compiler's message helps.
//!
//! The messages in `compile_fail/*.stderr` are those of one compiler version. With another one this test says so and
//! checks nothing. After a change: `TRYBUILD=overwrite cargo test -p netwright-core --test compile_fail`, then read what
//! the messages have become.
#![cfg(not(loom))]

use std::{io::Write, process::Command};

/// The compiler whose messages are in the `.stderr` files.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn what_does_not_fit_does_not_compile_and_the_message_says_why() {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(&rustc).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    let skipped = match version {
        Ok(version) if version.starts_with(COMPILER) => {
            return trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
        }
        Ok(version) => format!("the expected messages are those of {COMPILER}x, and this is {version}"),
        Err(error) => format!("the compiler's version is unknown: {rustc:?} did not run: {error}"),
    };
    // Past the test harness, which shows what is printed only when a test fails.
    let _ = writeln!(std::io::stderr(), "SKIPPED compile_fail: {skipped}");
}

/// Whatever the compiler's wording: both types are in the message.
#[test]
fn the_message_about_a_mismatched_stage_names_both_types() {
    let read = include_str!("compile_fail/mismatched_stage.stderr");
    for part in ["<Double as Application>::Read == String", "type Read = u64"] {
        assert!(read.contains(part), "{part} is not in:\n{read}");
    }
    let write = include_str!("compile_fail/mismatched_write.stderr");
    for part in ["<Shout as Handler>::WriteOut == String", "type WriteOut = Bytes"] {
        assert!(write.contains(part), "{part} is not in:\n{write}");
    }
    let file = include_str!("compile_fail/file_through_a_stage_of_bytes.stderr");
    assert!(file.contains("`Outgoing` cannot be written where `bytes::Bytes` is taken"), "{file}");
}

/// One mistake is one message: what follows from it is not told as well.
#[test]
fn one_mistake_is_one_error() {
    for (name, errors) in [
        ("closure", include_str!("compile_fail/closure_of_another_type.stderr")),
        ("file", include_str!("compile_fail/file_through_a_stage_of_bytes.stderr")),
        ("not Send", include_str!("compile_fail/handler_that_is_not_send_on_workers.stderr")),
        ("for loops", include_str!("compile_fail/application_for_loops_on_workers.stderr")),
        ("stage for loops", include_str!("compile_fail/stage_for_loops_on_workers.stderr")),
        ("future", include_str!("compile_fail/future_on_a_worker.stderr")),
        ("child", include_str!("compile_fail/child_of_a_stage_on_workers.stderr")),
        ("builder", include_str!("compile_fail/builder_for_one_thread.stderr")),
        ("outcome", include_str!("compile_fail/outcome_of_a_tail.stderr")),
        ("application", include_str!("compile_fail/application_as_a_stage.stderr")),
        ("no end", include_str!("compile_fail/no_last_stage.stderr")),
        ("read", include_str!("compile_fail/mismatched_stage.stderr")),
        ("write", include_str!("compile_fail/mismatched_write.stderr")),
        ("switch", include_str!("compile_fail/switch_to_what_does_not_fit.stderr")),
        ("other", include_str!("compile_fail/write_of_another_type.stderr")),
    ] {
        assert_eq!(errors.matches("error[").count(), 1, "{name}:\n{errors}");
    }
}

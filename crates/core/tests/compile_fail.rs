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
}

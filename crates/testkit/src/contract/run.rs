//! Cases as tests of a program.

use super::Case;
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::{num::NonZero, process::ExitCode, thread};

/// Runs cases as the tests of a program that has no harness. Filters, `--list`, `--test-threads` and exit codes are those of
/// `cargo test`; what this machine or the transport lacks is told, and counts as ignored.
///
/// Cases that need a process of their own start this program again, for one case: nothing may come before this call that would be in
/// their way.
pub fn run(cases: Vec<Case>) -> ExitCode {
    let test = |case: Case| {
        Trial::ignorable_test(case.name(), move || match case.missing() {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => case.run().map(|()| Completion::Completed).map_err(Failed::from),
        })
    };
    let mut arguments = Arguments::from_args();
    // Most of a case is waiting for somebody else: two for each core.
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(2 * cores);
    libtest_mimic::run(&arguments, cases.into_iter().map(test).collect()).exit_code()
}

//! The contract of `netwright_testkit::contract`, on every transport and in every reactor model that it runs in.
//!
//! Filters, `--list`, `--test-threads` and exit codes are those of `cargo test`. Names are
//! `transport::model::group::behaviour`: `cargo test --test contract -- readiness::one_loop` or `-- half_close`.

#[cfg(any(target_os = "linux", windows))]
fn main() {
    use libtest_mimic::{Arguments, Completion, Failed, Trial, run};
    use netwright_testkit::contract::cases;

    let test = |case: netwright_testkit::contract::Case| {
        Trial::ignorable_test(case.name(), move || match case.missing() {
            Some(why) => Ok(Completion::ignored_with(why)),
            None => case.run().map(|()| Completion::Completed).map_err(Failed::from),
        })
    };
    let mut arguments = Arguments::from_args();
    // Most of a case is waiting for somebody else: two for each core.
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    arguments.test_threads.get_or_insert(2 * cores);
    run(&arguments, cases().into_iter().map(test).collect()).exit();
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("ignored: the contract is written for Linux and Windows");
}

//! The contract of `netwright_testkit::contract`, on every transport and in every reactor model that it runs in.
//!
//! Names are `transport::model::group::behaviour`: `cargo test --test contract -- readiness::one_loop` or `-- half_close`.

#[cfg(any(target_os = "linux", windows))]
fn main() -> std::process::ExitCode {
    use netwright_testkit::contract::{cases, run};
    run(cases())
}

#[cfg(not(any(target_os = "linux", windows)))]
fn main() {
    println!("ignored: the contract is written for Linux and Windows");
}

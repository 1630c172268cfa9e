//! Prints the table of transports and behaviours, which is kept in `docs/contract.md`.

#[cfg(target_os = "linux")]
fn main() {
    print!("{}", netwright_testkit::contract::markdown());
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("the contract is written for Linux");
}

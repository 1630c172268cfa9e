//! A machine that forbids io_uring, as containers do: a seccomp filter in a process of its own. `Backend::Auto` takes readiness
//! there, says why, and everything works.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use bytes::BytesMut;
use netwright_core::pipeline;
use netwright_transport::{Backend, Probe, Server};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};
use std::{
    collections::BTreeMap,
    env,
    io::{Read, Write},
    net::TcpStream,
    process::Command,
};

/// Tells the process that it is the one under the filter, and what system calls answer there.
const INSIDE: &str = "NETWRIGHT_FORBID_URING";

/// io_uring_setup, io_uring_enter, io_uring_register.
const CALLS: [i64; 3] = [425, 426, 427];
const NOT_PERMITTED: u32 = 1;
const NOT_IMPLEMENTED: u32 = 38;
const NO_MEMORY: u32 = 12;

fn forbid(error: u32) {
    let rules: BTreeMap<i64, Vec<_>> = CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(error), TargetArch::x86_64);
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter_all_threads(&program).unwrap();
}

/// Runs this test again in a process of its own. True there.
fn inside(test: &str, error: u32) -> bool {
    if env::var_os(INSIDE).is_some() {
        return true;
    }
    let run = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, error.to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("auto took readiness"), "{said}");
    false
}

fn auto_falls_back(expected: &[&str]) {
    forbid(env::var(INSIDE).unwrap().parse().unwrap());
    let probe = Probe::run(Backend::Uring);
    assert!(!probe.works(), "{probe}");
    let choice = Backend::choose();
    assert_eq!(choice.backend, Backend::Readiness);
    let why = choice.why.to_ascii_lowercase();
    assert!(expected.iter().any(|text| why.contains(text)), "{}", choice.why);
    println!("auto took readiness: {}", choice.why);

    let echo = |_: &_| pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()));
    let server = Server::builder().pipeline(echo).bind("127.0.0.1:0").wait().unwrap();
    let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    stream.write_all(b"hello").unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"hello");
}

#[test]
fn forbidden_by_a_container_auto_takes_readiness_and_says_why() {
    if inside("forbidden_by_a_container_auto_takes_readiness_and_says_why", NOT_PERMITTED) {
        auto_falls_back(&["not permitted", "permission"]);
    }
}

#[test]
fn unknown_to_the_kernel_auto_takes_readiness_and_says_why() {
    if inside("unknown_to_the_kernel_auto_takes_readiness_and_says_why", NOT_IMPLEMENTED) {
        auto_falls_back(&["not implemented", "does not know", "no io_uring"]);
    }
}

#[test]
fn without_memory_that_may_be_locked_auto_takes_readiness_and_says_why() {
    if inside("without_memory_that_may_be_locked_auto_takes_readiness_and_says_why", NO_MEMORY) {
        auto_falls_back(&["memory", "locked"]);
    }
}

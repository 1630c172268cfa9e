//! A system whose `accept` fails every time, with an error that should concern one connection: a seccomp filter in a process of
//! its own.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use bytes::BytesMut;
use netwright_core::pipeline;
use netwright_transport::{Backend, Server};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter_all_threads};
use std::{
    collections::BTreeMap,
    env,
    net::TcpStream,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const INSIDE: &str = "NETWRIGHT_FAILING_ACCEPTS";
const ACCEPT4: i64 = 288;
const PROTOCOL_ERROR: u32 = 71;
const PATIENCE: Duration = Duration::from_secs(30);

fn fail_accepts() {
    let rules = BTreeMap::from([(ACCEPT4, Vec::new())]);
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(PROTOCOL_ERROR),
        TargetArch::x86_64,
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    apply_filter_all_threads(&program).unwrap();
}

/// One connection that failed is passed over. That every one fails cannot be what it says, and trying on would be a spin.
#[test]
fn accepts_that_fail_go_on_with_the_next_and_rest_when_all_fail() {
    const TEST: &str = "accepts_that_fail_go_on_with_the_next_and_rest_when_all_fail";
    if env::var_os(INSIDE).is_none() {
        let run = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(INSIDE, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
        return;
    }
    fail_accepts();
    for backend in [Backend::Readiness, Backend::Blocking] {
        let group = backend.event_loops(1).unwrap();
        let echo = |_: &_| pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()));
        let server =
            Server::builder().group(group.clone()).pipeline(echo).bind("127.0.0.1:0").wait().unwrap();
        let _waiting = TcpStream::connect(server.local_addr().unwrap()).unwrap();
        let begun = Instant::now();
        while !server.figures().paused {
            assert!(begun.elapsed() < PATIENCE, "{:?}", server.figures());
            thread::yield_now();
        }
        let figures = server.figures();
        assert!((2..100).contains(&figures.accept_failures), "{figures:?}");
        let before = group.next().figures().iterations;
        group.next().schedule(Duration::from_millis(20), || ()).unwrap().wait().unwrap();
        let turns = group.next().figures().iterations - before;
        assert!(turns < 20, "{turns} turns while accepting rests");
    }
}

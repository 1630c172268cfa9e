//! Real signals: each case is a process of its own, this very program, that signals itself.

#![cfg(unix)]

use netwright_core::pipeline;
use netwright_transport::{
    Client, Server,
    signals::{Signals, Until},
};
use rustix::process::{Signal, getpid, kill_process};
use std::{env, process::Command, time::Duration};

const CASE: &str = "NETWRIGHT_SIGNALS_CASE";

/// Runs this test again, as a process that has nothing else to do. Returns its exit code.
fn apart(test: &str) -> Option<i32> {
    let mut child = Command::new(env::current_exe().unwrap());
    let output = child.args(["--exact", test, "--nocapture"]).env(CASE, test).output().unwrap();
    println!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    output.status.code()
}

fn is_apart(test: &str) -> bool {
    env::var(CASE).as_deref() == Ok(test)
}

fn server() -> Server {
    Server::builder().pipeline(|_| pipeline().handle(|_, _| {})).bind("127.0.0.1:0").wait().unwrap()
}

fn signal(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
}

#[test]
fn a_server_serves_until_a_signal_comes() {
    const NAME: &str = "a_server_serves_until_a_signal_comes";
    if !is_apart(NAME) {
        return assert_eq!(apart(NAME), Some(0));
    }
    let _listening = Signals::listen().unwrap(); // or what comes before `serve_until_signal` ends us
    signal(Signal::TERM);
    let end = server().serve_until_signal(Duration::from_secs(60)).unwrap();
    assert!(matches!(end.until, Until::Signal), "{end:?}");
    assert_eq!(end.cut, 0);
}

#[test]
fn a_second_signal_cuts_connections_that_are_open() {
    const NAME: &str = "a_second_signal_cuts_connections_that_are_open";
    if !is_apart(NAME) {
        return assert_eq!(apart(NAME), Some(0));
    }
    let (server, signals) = (server(), Signals::listen().unwrap());
    let client = Client::builder().pipeline(|| pipeline().handle(|_, _| {})).unwrap();
    let channel = client.connect(server.address()).wait().unwrap();
    while server.figures().open == 0 {
        std::thread::yield_now();
    }
    let mut end = signals.drain(&[&server], Duration::from_secs(3600));
    signal(Signal::INT);
    signals.first().wait().unwrap();
    assert!(end.try_take().is_none(), "connections have an hour");
    signal(Signal::TERM);
    let end = end.wait().unwrap();
    assert!(matches!(end.until, Until::SecondSignal), "{end:?}");
    assert_eq!(end.cut, 1);
    channel.closed().wait().unwrap();
}

#[test]
fn a_third_signal_ends_a_process_that_hangs() {
    const NAME: &str = "a_third_signal_ends_a_process_that_hangs";
    if !is_apart(NAME) {
        return assert_eq!(apart(NAME), Some(130));
    }
    let signals = Signals::listen().unwrap();
    signal(Signal::HUP);
    signals.first().wait().unwrap();
    signal(Signal::INT);
    signals.second().wait().unwrap();
    signal(Signal::TERM);
    loop {
        std::thread::park(); // it hangs
    }
}

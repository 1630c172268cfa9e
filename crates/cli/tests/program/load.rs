use super::{Running, run, text};
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

fn load(address: SocketAddr, more: &[&str]) -> (Option<i32>, Value) {
    let address = address.to_string();
    let output = run(&[&["load", "echo", &address, "--json", "--seconds", "0.2"], more].concat());
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error} in {:?}; it said {:?}", text(&output.stdout), text(&output.stderr))
    });
    (output.status.code(), report)
}

/// A server that treats every connection as it likes.
fn server(treat: impl Fn(TcpStream) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || listener.incoming().flatten().for_each(treat));
    address
}

#[test]
fn a_right_server_has_figures_and_no_errors() {
    let (_echo, address) = Running::echo();
    for more in
        [["--connections", "8", "--size", "1", "--depth", "1"], ["-c", "3", "-s", "100000", "-d", "3"]]
    {
        let (code, report) = load(address, &more);
        assert_eq!(code, Some(0), "{report:#}");
        assert_eq!(report["errors"]["total"], 0, "{report:#}");
        assert_eq!(report["connections"].to_string(), more[1]);
        assert!(report["requests"].as_u64().unwrap() > 0);
        assert!(report["requests_per_second"].as_f64().unwrap() > 0.0);
        let latency = |name: &str| report["latency_us"][name].as_f64().unwrap();
        assert!(
            latency("p50") > 0.0 && latency("p50") <= latency("p99") && latency("p99") <= latency("p99_9")
        );
    }
}

#[test]
fn the_report_for_people_has_the_same_figures() {
    let (_echo, address) = Running::echo();
    let output = run(&["load", "echo", &address.to_string(), "--connections", "2", "--seconds", "0.1"]);
    let said = text(&output.stdout);
    for word in ["requests", "p50", "p99", "p99.9", "errors    none"] {
        assert!(said.contains(word), "{word} in {said}");
    }
    assert_eq!(text(&output.stderr), "", "no progress bar without a terminal");
}

#[test]
fn one_wrong_byte_fails_the_load() {
    let liar = server(|mut stream| {
        let mut bytes = [0; 64];
        while stream.read_exact(&mut bytes).is_ok() {
            bytes[33] ^= 1;
            if stream.write_all(&bytes).is_err() {
                break;
            }
        }
    });
    let (code, report) = load(liar, &["--connections", "1", "--size", "64"]);
    assert_eq!(code, Some(1));
    assert_eq!(report["errors"]["wrong_bytes"], 1);
    assert!(
        report["errors"]["examples"][0].as_str().unwrap().starts_with("byte 33 of a connection"),
        "{report:#}"
    );
}

#[test]
fn a_server_that_answers_with_the_bytes_of_another_connection_fails_the_load() {
    // Both connections get what the first one sent.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let (mut first, mut second) = (listener.accept().unwrap().0, listener.accept().unwrap().0);
        let mut bytes = [0; 16];
        first.read_exact(&mut bytes).unwrap();
        let _ = (first.write_all(&bytes), second.write_all(&bytes));
        let _ = first.read(&mut [0; 16]);
    });
    let (code, report) = load(address, &["--connections", "2", "--size", "16"]);
    assert_eq!(code, Some(1));
    assert_eq!(report["errors"]["wrong_bytes"], 1, "{report:#}");
}

#[test]
fn a_server_that_leaves_early_fails_the_load() {
    let rude = server(|mut stream| {
        let _ = stream.read(&mut [0]);
    });
    let (code, report) = load(rude, &["--connections", "3"]);
    assert_eq!(code, Some(1));
    assert_eq!(report["errors"]["ended_early"], 3, "{report:#}");
}

#[test]
fn where_nobody_listens_there_is_one_line_and_no_report() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = run(&["load", "echo", &nobody.to_string(), "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    let said = text(&output.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&nobody.to_string()), "{said}");
}

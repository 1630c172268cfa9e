//! The straight-line programs.

use crate::python;
use crate::support::{LOOPBACK, Server, Talk, program, run};
use std::{
    io::{Read, Write},
    net::Shutdown,
    process::Stdio,
};

#[test]
fn lines_are_added_up_and_everybody_is_told_of_the_end() {
    let server = Server::start("straight_lines", &[LOOPBACK]);
    let mut ada = Talk::with(&server);
    ada.hears("what is your name?");
    ada.says("ada");
    ada.hears("`bye` ends");
    ada.says("40");
    ada.hears("40");
    ada.says("2.5");
    ada.hears("42.5");
    ada.says("x");
    ada.hears("\"x\" is not a number");
    let mut other = Talk::with(&server);
    other.hears("what is your name?");
    other.says("grace");
    other.hears("`bye` ends");
    other.says("bye");
    other.hears("goodbye, grace");
    let ended = std::thread::spawn(|| server.end());
    ada.hears("the server ends: goodbye");
    assert_eq!(ended.join().unwrap().trim(), "ended; 0 clients did not finish in time");
}

#[test]
fn a_line_of_the_journal_is_in_the_file_when_it_is_confirmed_and_a_full_disk_is_told() {
    let path = std::env::temp_dir().join(format!("netwright-journal-{}", std::process::id()));
    let name = path.to_str().unwrap();
    std::fs::write(&path, "before\n").unwrap();
    let server = Server::start("journal", &[name, LOOPBACK]);
    let (mut ada, mut grace) = (Talk::with(&server), Talk::with(&server));
    ada.says("one");
    ada.hears("stored");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\none\n");
    grace.says("two");
    grace.hears("stored");
    ada.says("three");
    ada.hears("stored");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "before\none\ntwo\nthree\n");
    assert_eq!(server.end().trim(), format!("{name} has 21 bytes"));
    std::fs::remove_file(&path).unwrap();

    let full = Server::start("journal", &["/dev/full", LOOPBACK]);
    let mut ada = Talk::with(&full);
    ada.says("one");
    ada.hears("ERROR appending 4 bytes to \"/dev/full\" failed: No space left on device (os error 28)");
}

#[test]
fn everybody_in_the_chat_hears_everybody_else() {
    let server = Server::start("straight_chat", &[LOOPBACK]);
    let mut first = Talk::with(&server);
    first.hears("1 here");
    let mut second = Talk::with(&server);
    second.hears("2 here");
    first.hears("has come");
    second.says("hello");
    first.hears(": hello");
    first.says("hi");
    second.hears(": hi");
    first.says("bye");
    first.hears(""); // the end
    second.hears("has left");
}

#[test]
fn a_websocket_client_prints_what_comes_back_of_what_is_typed() {
    let server = Server::start("websocket_echo", &[LOOPBACK]);
    let url = format!("ws://{}/", server.address);
    let (said, told) = type_into("websocket_client", &url, "hello\ngrüße ✓\n");
    assert_eq!(said, "hello\ngrüße ✓\n");
    assert!(told.contains("echo, compressed") && told.contains("ended: "), "{told}");
}

#[test]
fn a_websocket_client_tells_what_a_server_says_that_has_none() {
    let server = Server::start("axum_server", &[LOOPBACK]);
    let (said, told) = type_into("websocket_client", &format!("ws://{}/nowhere", server.address), "");
    assert_eq!(said, "");
    assert!(told.contains("404"), "{told}");
}

/// What a program prints on standard output, and on standard error, when this is typed.
fn type_into(name: &str, argument: &str, input: &str) -> (String, String) {
    let mut command = program(name);
    command.arg(argument).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the example is built");
    let mut typing = child.stdin.take().expect("piped");
    let _ = typing.write_all(input.as_bytes()); // who has ended reads nothing
    drop(typing);
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr))
}

#[test]
fn hashing_prints_the_latency_with_and_without_workers() {
    let text = run("passwords", &["1"]);
    let rows: Vec<_> = text.lines().rev().take(2).collect();
    assert!(rows[1].starts_with("the loop") && rows[0].starts_with("workers"), "{text}");
}

#[test]
fn a_tokio_program_gets_its_answers() {
    let expected = "1: ada has 3 letters\n2: grace has 5 letters\n3: barbara has 7 letters\nclosed by our side\nended, 0 cut\n";
    assert_eq!(run("with_tokio", &[]), expected);
}

/// One exchange on a connection of its own.
fn http(server: &Server, request: &str) -> String {
    let mut stream = server.connect();
    stream.write_all(request.as_bytes()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn calls_of_grpc_of_every_kind_are_answered_beside_pages_of_axum() {
    let server = Server::start("grpc_server", &[LOOPBACK]);
    let page = http(&server, "GET / HTTP/1.1\r\nhost: test\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\nask in gRPC\n"), "{page}");
    python::peer("grpcio", "grpc_text.py", &[&server.address]);
    assert_eq!(server.end().trim(), "ended; 0 connections did not finish in time");
}

#[test]
fn axum_answers_over_our_loops_and_finishes_what_it_has_begun() {
    let server = Server::start("axum_server", &[LOOPBACK]);
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
    let hello = http(&server, &get("/hello/world"));
    assert!(hello.starts_with("HTTP/1.1 200 OK\r\n") && hello.ends_with("\r\n\r\nhello, world\n"), "{hello}");
    assert!(http(&server, &get("/nowhere")).starts_with("HTTP/1.1 404 Not Found\r\n"));
    assert!(http(&server, &get("/nap/99999")).starts_with("HTTP/1.1 400 Bad Request\r\n"));
    let body = "x".repeat(100_000);
    let post = format!("POST /upload HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    assert!(http(&server, &post).ends_with("100000 bytes\n"));
    let both = http(&server, &(get("/") + &get("/nap/1")));
    assert!(both.contains("hello from an event loop\n") && both.ends_with("1 ms later\n"), "{both}");

    // A request that is under way when the server is told to end is answered; an idle connection is closed.
    let (mut idle, mut busy) = (server.connect(), server.connect());
    idle.write_all(get("/").as_bytes()).unwrap();
    let mut some = [0; 1];
    idle.read_exact(&mut some).unwrap();
    busy.write_all(get("/nap/200").as_bytes()).unwrap();
    let (mut answer, mut rest) = (String::new(), String::new());
    let waiting = std::thread::spawn(move || {
        busy.read_to_string(&mut answer).unwrap();
        answer
    });
    let words = server.end();
    idle.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("hello from an event loop\n"));
    let answer = waiting.join().unwrap();
    assert!(answer.is_empty() || answer.ends_with("200 ms later\n"), "{answer}");
    assert_eq!(words.trim(), "ended; 0 connections did not finish in time");
}

//! The straight-line programs as their users see them: started, talked to, ended.
//!
//! `cargo test -p netwright-examples` builds them first; with `--test programs` alone they are what was built before.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    path::PathBuf,
    process::{Child, ChildStdin, Command, Stdio},
    time::Duration,
};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Cargo builds examples before tests, beside them.
fn program(name: &str) -> Command {
    let test = env::current_exe().expect("a program has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("…/deps/programs");
    let path: PathBuf = folder.join("examples").join(name);
    Command::new(path)
}

/// A server that runs; it is told to end by its standard input, and ends with this value at the latest.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    says: BufReader<std::process::ChildStdout>,
    address: String,
}

impl Server {
    fn start(name: &str) -> Self {
        let mut command = program(name);
        command.arg("127.0.0.1:0").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example is built");
        let (input, says) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let (mut says, mut line) = (BufReader::new(says), String::new());
        says.read_line(&mut line).expect("a server says where it listens");
        let address = line.split(" on ").nth(1).and_then(|rest| rest.split(';').next());
        let address = address.unwrap_or_else(|| panic!("no address in {line:?}")).to_owned();
        Self { child, input, says, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
        stream
    }

    /// Has it end, and returns its last words.
    fn end(mut self) -> String {
        let mut input = self.input.take().expect("piped");
        input.write_all(b"\n").expect("it listens to us");
        drop(input);
        let mut words = String::new();
        self.says.read_to_string(&mut words).expect("text");
        assert!(self.child.wait().expect("it ends").success());
        words
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends lines and expects lines.
struct Talk(BufReader<TcpStream>);

impl Talk {
    fn with(server: &Server) -> Self {
        Self(BufReader::new(server.connect()))
    }

    #[track_caller]
    fn hears(&mut self, expected: &str) {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        assert!(line.trim_end().ends_with(expected), "{line:?} instead of {expected:?}");
    }

    fn says(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }
}

#[test]
fn lines_are_added_up_and_everybody_is_told_of_the_end() {
    let server = Server::start("straight_lines");
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
fn everybody_in_the_chat_hears_everybody_else() {
    let server = Server::start("straight_chat");
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
fn hashing_prints_the_latency_with_and_without_workers() {
    let output = program("passwords").arg("1").output().expect("the example is built");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let rows: Vec<_> = text.lines().rev().take(2).collect();
    assert!(rows[1].starts_with("the loop") && rows[0].starts_with("workers"), "{text}");
}

#[test]
fn a_tokio_program_gets_its_answers() {
    let output = program("with_tokio").output().expect("the example is built");
    assert!(output.status.success());
    let expected = "1: ada has 3 letters\n2: grace has 5 letters\n3: barbara has 7 letters\nclosed by our side\nended, 0 cut\n";
    assert_eq!(String::from_utf8(output.stdout).unwrap().replace('\r', ""), expected);
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
fn axum_answers_over_our_loops_and_finishes_what_it_has_begun() {
    let server = Server::start("axum_server");
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

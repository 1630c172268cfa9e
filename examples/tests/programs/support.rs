//! Programs that run, and talks with them.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Any port of this machine that is free.
pub(crate) const LOOPBACK: &str = "127.0.0.1:0";

/// Cargo builds examples before tests, beside them.
pub(crate) fn program(name: &str) -> Command {
    let test = env::current_exe().expect("a program has a path");
    let folder = test.parent().and_then(|deps| deps.parent()).expect("…/deps/programs");
    Command::new(folder.join("examples").join(name))
}

/// What a program says that ends by itself, and well.
#[track_caller]
pub(crate) fn run(name: &str, arguments: &[&str]) -> String {
    let output = program(name).args(arguments).stdin(Stdio::null()).output().expect("the example is built");
    let text = String::from_utf8_lossy(&output.stdout).replace('\r', "");
    assert!(output.status.success(), "{name} said {text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A server that runs, and ends with this value at the latest.
pub(crate) struct Server {
    child: Child,
    input: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
    pub(crate) address: String,
}

impl Server {
    #[track_caller]
    pub(crate) fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = program(name);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the example is built");
        let (input, says) = (child.stdin.take(), child.stdout.take().expect("piped"));
        let mut server = Self { child, input, says: BufReader::new(says), address: String::new() };
        let line = server.next_line();
        // "… on 127.0.0.1:4711; stop with Ctrl-C", and such
        let place = line.split_once(" on ").or_else(|| line.split_once(" at ")).map(|(_, place)| place);
        let place = place.and_then(|place| place.split([';', ' ']).next());
        let address = place.unwrap_or_else(|| panic!("no address in {line:?}"));
        server.address = address.trim_start_matches("ws://").to_owned();
        server
    }

    /// The next line that it says.
    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.says.read_line(&mut line).expect("text");
        line.trim_end().to_owned()
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
        stream
    }

    /// Types a line into it.
    pub(crate) fn types(&mut self, line: &str) {
        let input = self.input.as_mut().expect("piped");
        input.write_all(format!("{line}\n").as_bytes()).expect("it listens to us");
    }

    /// Has it end by its standard input, and returns its last words.
    pub(crate) fn end(mut self) -> String {
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
pub(crate) struct Talk(BufReader<TcpStream>);

impl Talk {
    pub(crate) fn with(server: &Server) -> Self {
        Self(BufReader::new(server.connect()))
    }

    #[track_caller]
    pub(crate) fn hears(&mut self, expected: &str) {
        let line = self.next_line();
        assert!(line.ends_with(expected), "{line:?} instead of {expected:?}");
    }

    pub(crate) fn next_line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    pub(crate) fn says(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
    }
}

//! The `netwright` program as its users see it: started as a process, talked to over sockets, judged by its exit code.
//!
//! Nothing here depends on a speed: every wait ends with what is waited for, or after [`PATIENCE`] with a failure.

mod connect;
mod datagrams;
mod demo;
mod end;
mod guard;
mod load;
mod peers;
mod proxy;
mod record;
mod refusals;
mod serve;
#[cfg(unix)]
mod unix;
mod web;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn netwright(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netwright"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs the program to its end.
fn run(arguments: &[&str]) -> Output {
    netwright(arguments).output().expect("the program starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A program that runs until the test ends it.
struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = netwright(arguments).stdout(Stdio::piped()).spawn().expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (send, lines) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Self { child, lines }
    }

    /// Starts a server and waits until it listens on that many addresses.
    fn serve(arguments: &[&str], addresses: usize) -> (Self, Vec<SocketAddr>) {
        let running = Self::start(arguments);
        let found = (0..addresses).map(|_| running.address()).collect();
        (running, found)
    }

    /// An echo server on a free port.
    fn echo() -> (Self, SocketAddr) {
        let (running, addresses) = Self::serve(&["serve", "echo", "--listen", "127.0.0.1:0"], 1);
        (running, addresses[0])
    }

    /// The next line that it prints.
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("another line")
    }

    /// The next address that it says it listens on.
    fn address(&self) -> SocketAddr {
        loop {
            let line = self.line();
            if let Some((_, rest)) = line.split_once(" listens on ") {
                let address = rest.split([',', ' ']).next().unwrap_or(rest);
                let address = address.strip_prefix("udp:").unwrap_or(address);
                return address.parse().unwrap_or_else(|_| panic!("an address in {line:?}"));
            }
        }
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .expect("it runs");
    }

    /// Waits for its end. Its output ends with it.
    fn ended(&mut self) -> ExitStatus {
        while self.lines.recv_timeout(PATIENCE).map_err(|error| assert_disconnected(&error)).is_ok() {}
        self.child.wait().expect("it can be waited for")
    }
}

fn assert_disconnected(error: &std::sync::mpsc::RecvTimeoutError) {
    assert_eq!(*error, std::sync::mpsc::RecvTimeoutError::Disconnected, "the program should have ended");
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A peer that waits for nothing for ever.
struct Peer {
    stream: BufReader<TcpStream>,
}

impl Peer {
    fn connect(address: SocketAddr) -> Self {
        Self::new(TcpStream::connect_timeout(&address, PATIENCE).expect("somebody listens"))
    }

    fn new(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout can be set");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout can be set");
        Self { stream: BufReader::new(stream) }
    }

    fn socket(&self) -> &TcpStream {
        self.stream.get_ref()
    }

    fn name(&self) -> String {
        self.socket().local_addr().expect("it is connected").to_string()
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.socket().write_all(bytes.as_ref()).expect("the peer reads");
        self
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).expect("a line");
        assert!(line.ends_with('\n'), "a whole line instead of {line:?}");
        line.truncate(line.len() - 1);
        line
    }

    fn end_output(&mut self) -> &mut Self {
        self.socket().shutdown(Shutdown::Write).expect("it is connected");
        self
    }

    /// Everything until the peer's end.
    fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        self.stream.read_to_end(&mut rest).expect("the peer's end");
        rest
    }

    /// Sends everything while a second thread reads everything, then ends the output.
    fn exchange(mut self, bytes: &[u8]) -> Vec<u8> {
        let writer = self.socket().try_clone().expect("a second handle");
        thread::scope(|scope| {
            scope.spawn(move || {
                (&writer).write_all(bytes).expect("the peer reads");
                writer.shutdown(Shutdown::Write).expect("it is connected");
            });
            self.rest()
        })
    }
}

/// Bytes that show when one is lost, doubled or moved.
fn numbered(len: usize) -> Vec<u8> {
    (0_u32..).flat_map(u32::to_be_bytes).take(len).collect()
}

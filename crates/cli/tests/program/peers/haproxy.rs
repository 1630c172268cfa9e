//! haproxy in front of a server, by the configuration that is among the examples.

use super::program;
use crate::{PATIENCE, Running, run, text};
use std::{
    io::Read,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

struct Haproxy(Child);

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_load_through_haproxy_is_answered_and_whoever_comes_past_it_is_not() {
    let Some(haproxy) = program("haproxy", "haproxy") else { return };
    let arguments = ["serve", "hello", "--listen", "127.0.0.1:0", "--proxy-protocol", "127.0.0.1"];
    let (_server, addresses) = Running::serve(&arguments, 1);
    let front = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/peers/haproxy.cfg");
    let mut command = Command::new(haproxy);
    command.arg("-db").arg("-f").arg(configuration);
    command.env("FRONT", front.to_string()).env("BACK", addresses[0].port().to_string());
    let _haproxy = Haproxy(command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", front)).is_err() {
        assert!(begun.elapsed() < PATIENCE, "haproxy does not listen");
        thread::sleep(Duration::from_millis(10)); // it does not say when it does
    }

    let output = run(&["load", "http", &format!("http://127.0.0.1:{front}/"), "-c", "8", "-t", "0.3"]);
    assert!(output.status.success(), "{}", text(&output.stderr));

    // Whoever is trusted and sends no header is not served.
    let mut past = TcpStream::connect(addresses[0]).unwrap();
    past.set_read_timeout(Some(PATIENCE)).unwrap();
    std::io::Write::write_all(&mut past, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = past.read_to_end(&mut answer); // a reset is as good as an end
    assert_eq!(text(&answer), "");
}

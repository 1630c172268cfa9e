use super::{PATIENCE, Running, netwright, numbered, run, text};
use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::Stdio,
    thread,
};

/// A path of the test's own.
fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("netwright-cli-{name}-{}", std::process::id()))
}

/// An echo at that path.
fn echo(address: &str) -> Running {
    let server = Running::start(&["serve", "echo", "--listen", address]);
    while !server.line().contains(&format!("listens on {address}")) {}
    server
}

#[test]
fn an_echo_at_a_path_answers_and_its_file_goes_with_it() {
    let path = path("echo");
    let address = format!("unix:{}", path.display());
    let mut server = echo(&address);
    let bytes = numbered(300_000);
    let mut peer = UnixStream::connect(&path).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut writer = peer.try_clone().unwrap();
    let came = thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&bytes).unwrap();
            writer.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        peer.read_to_end(&mut came).unwrap();
        came
    });
    assert!(came == bytes);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.ended().success());
    assert!(!path.exists());
}

#[test]
fn connect_and_load_talk_to_a_path() {
    let path = path("talk");
    let address = format!("unix:{}", path.display());
    let _server = echo(&address);
    let mut client = netwright(&["connect", &address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    client.stdin.take().unwrap().write_all(b"hello").unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "hello");
    let load = run(&["load", "echo", &address, "-c", "4", "--seconds", "0.1"]);
    assert!(load.status.success(), "{}", text(&load.stderr));
    assert!(text(&load.stdout).contains(&address), "{}", text(&load.stdout));
    let _ = std::fs::remove_file(path);
}

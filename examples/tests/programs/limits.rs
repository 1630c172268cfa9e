//! Programs that keep limits, and one that keeps its connection.

use crate::support::{LOOPBACK, PATIENCE, Server, Talk, program};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::Stdio,
    sync::mpsc::channel,
    thread,
};

#[test]
fn a_file_that_is_sent_at_a_rate_comes_whole_and_the_rate_can_be_changed_meanwhile() {
    let folder = std::env::temp_dir().join(format!("limited-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let bytes: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    std::fs::write(folder.join("large.bin"), &bytes).unwrap();

    // At this rate it would take a day: it comes because of the next one.
    let mut server = Server::start("limited_files", &[LOOPBACK, folder.to_str().unwrap(), "4"]);
    server.next_line();
    let mut client = server.connect();
    client.write_all(b"GET /large.bin HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut first = [0; 1];
    client.read_exact(&mut first).unwrap();
    server.types("nothing");
    assert!(server.next_line().contains("is no rate"));
    server.types("100m");
    assert!(server.next_line().starts_with("100m from now on"));
    let mut reply = Vec::new();
    client.read_to_end(&mut reply).unwrap();
    assert!(reply.ends_with(&bytes), "{} bytes came", reply.len());
    assert!(server.end().contains("ended"));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn telnet_is_answered_and_a_third_connection_reads_why_it_is_not() {
    let server = Server::start("filtered_telnet", &[LOOPBACK]);
    let mut talks = [Talk::with(&server), Talk::with(&server)];
    for talk in &mut talks {
        talk.hears("`who`, `time` and `bye` are known");
        talk.says("what?");
        talk.hears("\"what?\" is not known");
    }
    let mut third = Talk::with(&server);
    third.hears("421 not now, or not you");
    assert_eq!(third.next_line(), "", "and is closed");
    talks[0].says("bye");
    assert_eq!(talks[0].next_line(), "");
    talks[1].says("who");
    assert!(talks[1].next_line().starts_with("channel "));
}

#[test]
fn the_log_shows_what_passes_but_no_password() {
    let mut server = program("logged_echo");
    let mut server = server.arg(LOOPBACK).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let (tell, told) = channel();
    let log = server.stderr.take().unwrap();
    thread::spawn(move || {
        BufReader::new(log).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });

    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("echo on ").and_then(|rest| rest.split(';').next()).unwrap();
    let mut talk = BufReader::new(TcpStream::connect(address).unwrap());
    talk.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    talk.get_mut().write_all(b"login ada opensesame\r\n").unwrap();
    let mut answer = String::new();
    talk.read_line(&mut answer).unwrap();
    assert_eq!(answer.trim(), "welcome, ada");
    drop(talk);

    let mut lines = String::new();
    while !lines.contains("ada ***") || !lines.contains("somebody logs in") {
        lines += &told.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("the log is not whole: {lines}"));
    }
    assert!(!lines.contains("opensesame") && lines.contains("ada"), "{lines}");
    let _ = server.kill();
    let _ = server.wait();
}

#[test]
fn a_client_that_keeps_its_connection_tells_of_its_end_and_comes_again() {
    let listener = std::net::TcpListener::bind(LOOPBACK).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut client = program("uptime");
    let mut client = client.arg(&address).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(client.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut hear = |words: &str| {
        said.find(|line| line.contains(words)).unwrap_or_else(|| panic!("it ended without {words:?}"));
    };
    hear("connected to");
    drop(listener.accept().unwrap());
    hear("was up for");
    hear("connected to");
    drop(client.stdin.take());
    assert!(client.wait().unwrap().success());
}

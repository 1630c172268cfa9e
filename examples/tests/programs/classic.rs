//! The classic programs: time, echo, discard, chat, proxy, files, datagrams, TLS; and those without a network.

use crate::support::{LOOPBACK, Server, Talk, program, run};
use netwright::Backend;
use netwright_examples::QUERY;
use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
};

#[test]
fn loops_run_tasks_timers_and_futures_and_survive_a_panic() {
    let said = run("event_loops", &[]);
    for words in ["task 1", "task 3", "the workers' sum is", "its handle learned:", "1 panics"] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
}

#[test]
fn all_time_servers_tell_the_time_and_refuse_other_orders() {
    let event_loop = "time_event_loop";
    for (name, arguments) in [
        ("time_thread_per_connection", &[LOOPBACK][..]),
        ("time_thread_pool", &[LOOPBACK]),
        (event_loop, &[LOOPBACK]),
        (event_loop, &[LOOPBACK, "blocking"]),
        (event_loop, &[LOOPBACK, "uring"]),
    ] {
        if let (true, Err(error)) = (arguments.contains(&"uring"), Backend::Uring.event_loops(2)) {
            println!("skipped: no io_uring on this machine: {error}");
            continue;
        }
        let server = Server::start(name, arguments);
        for client in ["time_client", "time_blocking_client"] {
            let said = run(client, &[&server.address, "3"]);
            let answers = said.lines().filter(|line| line.starts_with("now is 2")).count();
            assert_eq!(answers, 3, "{client} of {name}: {said}");
        }
        let mut talk = Talk::with(&server);
        talk.says("how are you?");
        talk.hears("BAD ORDER");
        talk.says("query Time ORDER");
        let now = talk.next_line();
        assert!(now.starts_with("20"), "{name}: {now}");
    }
}

#[test]
fn streams_of_one_connection_are_answered_each_by_itself() {
    let said = run("mux", &[]);
    for words in ["5 bytes", "200000 bytes", "70 bytes"] {
        assert_eq!(said.matches(words).count(), 2, "{words:?} is asked for and answered: {said}");
    }
}

#[test]
fn a_plain_client_says_who_hung_up_in_the_midst_of_an_answer() {
    let listener = TcpListener::bind(LOOPBACK).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut order = [0; QUERY.len() + 1];
        stream.read_exact(&mut order).unwrap();
        stream.write_all(b"2026-11").unwrap();
    });
    let output = program("time_blocking_client").arg(&address).output().unwrap();
    server.join().unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(&address) && error.contains("2026-11"), "{error}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_time_servers_are_compared() {
    let said = run("time_compare", &["20"]);
    let measured = said.lines().filter(|line| line.contains(" KiB | ")).count();
    let missing = said.lines().filter(|line| line.contains("not on this machine")).count();
    assert_eq!(
        (measured, missing),
        if Backend::Uring.event_loops(2).is_ok() { (5, 0) } else { (4, 1) },
        "{said}"
    );
}

#[test]
fn orders_stick_together_without_frames_and_all_are_answered_with_them() {
    let said = run("sticky", &[]);
    assert!(said.trim_end().ends_with("100 orders sent, 100 answers, 100 of them a time"), "{said}");
    assert!(!said.lines().nth(1).unwrap().contains("100 of them a time"), "{said}");
}

#[test]
fn what_is_typed_comes_back_and_the_end_of_input_ends_both() {
    let server = Server::start("echo", &[LOOPBACK]);
    let mut client = program("echo_client");
    let mut client =
        client.arg(&server.address).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"hello\nworld\n").unwrap();
    let said = client.wait_with_output().unwrap();
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stdout), "hello\nworld\nclosed by the peer\n");
}

#[test]
fn what_the_discard_client_sends_is_counted_by_its_server() {
    let mut server = Server::start("discard", &[LOOPBACK]);
    let said = run("discard_client", &[&server.address, "0"]);
    assert!(said.contains("MiB in 0ns"), "{said}");
    let counted = server.next_line();
    assert!(counted.ends_with("MiB in all"), "{counted}");
}

#[test]
fn the_chat_tells_who_comes_what_they_say_and_who_leaves() {
    let server = Server::start("chat", &[LOOPBACK]);
    let mut first = Talk::with(&server);
    first.hears("1 here");
    let mut second = Talk::with(&server);
    second.hears("2 here");
    first.hears("has come");
    second.says("hello");
    first.hears(": hello");
    second.says("bye");
    first.hears("has left (closed by our side)");
}

#[test]
fn the_proxy_passes_bytes_and_ends_of_input_both_ways() {
    let server = Server::start("echo", &[LOOPBACK]);
    let proxy = Server::start("proxy", &[LOOPBACK, &server.address]);
    let mut stream = proxy.connect();
    let sent = vec![b'x'; 300_000];
    let mut writer = stream.try_clone().unwrap();
    let bytes = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&bytes).unwrap();
        writer.shutdown(std::net::Shutdown::Write).unwrap();
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    writing.join().unwrap();
    assert!(received == sent, "{} bytes of {} came back", received.len(), sent.len());
}

#[test]
fn the_time_comes_by_datagrams() {
    let server = Server::start("udp_time", &["serve", LOOPBACK]);
    let said = run("udp_time", &["ask", &server.address]);
    assert!(said.starts_with(&format!("{} says: 2", server.address)), "{said}");
}

#[test]
fn a_file_is_fetched_as_it_is_and_others_are_refused() {
    let server = Server::start("file_server", &[env!("CARGO_MANIFEST_DIR"), LOOPBACK]);
    let said = run("file_client", &[&server.address, "Cargo.toml"]);
    assert_eq!(said, include_str!("../../Cargo.toml"));
    let refused = program("file_client").args([&server.address, ".."]).output().unwrap();
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is not a plain file name"));
}

#[test]
fn parts_of_one_program_talk_without_a_socket() {
    let said = run("local", &[]);
    assert!(said.contains("is connected to local:greeter") && said.contains("hello, "), "{said}");
}

#[test]
#[cfg(unix)]
fn a_transport_of_ones_own_is_found_by_its_scheme() {
    let said = run("own_transport", &[]);
    assert!(said.contains("hello, pipe:greeter") && said.contains("hello, 127.0.0.1:"), "{said}");
    assert!(said.contains("no transport is known by the scheme \"pipe\""), "{said}");
}

#[test]
#[cfg(unix)]
fn a_child_process_sorts_what_is_written_to_it() {
    let said = run("child_process", &[]);
    assert!(said.starts_with("apple\npear\nquince\n"), "{said}");
}

#[test]
#[cfg(unix)]
fn a_file_goes_along_with_a_message_over_a_unix_socket() {
    let said = run("unix_credentials", &[]);
    assert!(said.contains("connects") && said.contains("what the file says"), "{said}");
}

#[test]
fn both_sides_speak_tls_and_the_second_handshake_resumes_the_first() {
    let said = run("tls_echo", &[]);
    assert_eq!(said.matches("the server says \"hello in secret\"").count(), 2, "{said}");
    assert!(said.contains("resumed: false") && said.contains("resumed: true"), "{said}");
}

#[test]
fn a_conversation_that_fails_is_recorded_and_fails_again_until_it_is_mended() {
    let said = run("record", &[]);
    assert!(said.contains("a recording because of: panic"), "{said}");
    assert!(said.contains("again: a handler panicked: nobody has less than nothing"), "{said}");
    assert!(said.contains(r#"mended: "1 points\n0 points\n0 points\n""#), "{said}");
}

#[test]
fn a_websocket_message_comes_back() {
    let server = Server::start("websocket_echo", &[LOOPBACK]);
    let mut stream = server.connect();
    let request = "GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(b"\x81\x85\0\0\0\0hello").unwrap(); // text of five bytes, masked by zeros
    let mut reply = Vec::new();
    while !reply.ends_with(b"\x81\x05hello") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap_or_else(|_| panic!("{:?}", String::from_utf8_lossy(&reply)));
        reply.push(byte[0]);
    }
    assert!(reply.starts_with(b"HTTP/1.1 101 "));
}

#[test]
fn an_order_that_is_cut_into_bytes_is_an_order() {
    let server = Server::start("time_event_loop", &[LOOPBACK]);
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for byte in format!("{QUERY}\n").bytes() {
        stream.write_all(&[byte]).unwrap();
    }
    let mut century = [0; 2];
    stream.read_exact(&mut century).unwrap();
    assert_eq!(&century, b"20");
}

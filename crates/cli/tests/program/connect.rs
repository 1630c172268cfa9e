use super::{Running, netwright, run, text};
use std::{
    io::{Read, Write},
    net::TcpListener,
    process::Stdio,
    thread,
};

#[test]
fn what_is_typed_goes_to_the_peer_and_its_answers_are_printed() {
    let (_time, addresses) = Running::serve(&["serve", "time", "--listen", "127.0.0.1:0"], 1);
    let address = addresses[0].to_string();
    let mut client =
        netwright(&["connect", &address]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(b"QUERY TIME ORDER\nnonsense\n").unwrap(); // and its end
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = text(&output.stdout);
    let lines: Vec<_> = said.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with(" GMT") && lines[1] == "BAD ORDER", "{said}");
}

#[test]
fn it_ends_when_the_peer_ends_although_its_input_goes_on() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut client =
        netwright(&["connect", &address]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = client.stdin.take();
    listener.accept().unwrap().0.write_all(b"goodbye").unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"goodbye"[..]));
    drop(input);
}

#[test]
fn a_large_file_goes_through_an_echo_unchanged() {
    let (_echo, address) = Running::echo();
    let address = address.to_string();
    let mut client =
        netwright(&["connect", &address]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut input, mut output) = (client.stdin.take().unwrap(), client.stdout.take().unwrap());
    let bytes = super::numbered(5_000_000);
    let mut back = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            input.write_all(&bytes).unwrap();
            drop(input);
        });
        output.read_to_end(&mut back).unwrap();
    });
    assert!(back == bytes, "{} of {} bytes came back", back.len(), bytes.len());
    assert_eq!(client.wait().unwrap().code(), Some(0));
}

#[test]
fn a_refused_connection_is_one_line() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let output = run(&["connect", &nobody]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.lines().count() == 1 && said.contains(&nobody), "{said}");
}

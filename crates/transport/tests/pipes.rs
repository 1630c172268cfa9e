//! Channels over pairs of pipes and over child processes, on every backend.
#![cfg(unix)]

#[allow(unused)]
mod support;

use bytes::{Bytes, BytesMut};
use netwright_core::{CloseCause, FileRegion, Outgoing, WriteError, pipeline};
use netwright_transport::{Backend, Client, ClientBuilder, Pipes, PipesError};
use rustix::fs::{OFlags, fcntl_getfl};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};
use support::{Script, Soon, assert_quiet, pattern, script, settle};

/// What works on this machine; a thread for each channel with the last of them.
fn backends() -> Vec<Backend> {
    let all = [Backend::Readiness, Backend::Uring, Backend::Blocking];
    all.into_iter().filter(|backend| backend.event_loops(1).is_ok()).collect()
}

fn on(backend: Backend) -> ClientBuilder {
    Client::builder().backend(backend)
}

fn client(builder: ClientBuilder, script: Script) -> Client {
    builder.pipeline(move || pipeline().app(script.probe())).unwrap()
}

/// A program of this system, both of its streams piped.
fn run(command: &str) -> Child {
    let mut command_line = Command::new("sh");
    command_line.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command_line.spawn().unwrap()
}

#[test]
fn both_ends_of_a_pair_read_what_the_other_writes() {
    for backend in backends() {
        let ((ours, here), (theirs, there)) = (script(), script());
        let (one, two) = Pipes::pair().unwrap();
        let clients = (client(on(backend), ours), client(on(backend), theirs));
        let (one, two) = (clients.0.adopt(one).soon().unwrap(), clients.1.adopt(two).soon().unwrap());
        here.active();
        there.active();
        one.write_and_flush(Bytes::from("ping"));
        there.read(b"ping");
        two.write_and_flush(Bytes::from("pong"));
        here.read(b"pong");
        assert!(one.peer().unwrap().to_string().starts_with("pipe:"), "{:?}", one.peer());
        one.close().soon();
        assert!(matches!(there.end(), CloseCause::PeerClosed), "{backend}");
        assert!(matches!(here.end(), CloseCause::Requested));
    }
}

#[test]
fn more_than_a_pipe_holds_arrives_in_order_and_whoever_waits_for_room_rests() {
    let content = pattern(3_000_000);
    for backend in backends() {
        let ((ours, here), (theirs, there)) = (script(), script());
        let (one, two) = Pipes::pair().unwrap();
        let sender = client(on(backend), ours);
        let reader = client(on(backend).auto_read(false), theirs);
        let (one, two) = (sender.adopt(one).soon().unwrap(), reader.adopt(two).soon().unwrap());
        here.active();
        there.active();
        let mut sent: Vec<_> =
            content.chunks(70_001).map(|chunk| one.write_tracked(Bytes::copy_from_slice(chunk))).collect();
        one.flush();
        let loops = || [one.event_loop(), two.event_loop()];
        settle(loops());
        assert_quiet(loops()); // nobody reads, and nobody tries
        two.resume();
        there.read(&content);
        sent.iter_mut().for_each(|written| written.soon().unwrap());
        one.close().soon();
        there.skip_to_end();
    }
}

#[test]
fn output_that_is_shut_down_ends_the_peers_input_and_reading_goes_on() {
    for backend in backends() {
        let ((ours, here), (theirs, there)) = (script(), script());
        let (one, two) = Pipes::pair().unwrap();
        let half = || on(backend).half_closure(true);
        let clients = (client(half(), ours), client(half(), theirs));
        let (one, two) = (clients.0.adopt(one).soon().unwrap(), clients.1.adopt(two).soon().unwrap());
        here.active();
        there.active();
        one.write_and_flush(Bytes::from("last words"));
        one.shut_down_output_tracked().soon().unwrap();
        there.read(b"last words");
        there.input_closed();
        two.write_and_flush(Bytes::from("an answer"));
        here.read(b"an answer");
        let late = one.send(Bytes::from("more")).soon();
        assert!(matches!(late, Err(WriteError::OutputShutDown)), "{late:?}");
        two.close().soon();
        here.skip_to_end();
    }
}

#[test]
fn a_peer_that_has_gone_is_noticed_while_nobody_reads() {
    for backend in backends() {
        let (ours, here) = script();
        let (one, two) = Pipes::pair().unwrap();
        let client = client(on(backend).auto_read(false), ours);
        let _channel = client.adopt(one).soon().unwrap();
        here.active();
        drop(two);
        assert!(matches!(here.end(), CloseCause::PeerClosed), "{backend}");
    }
}

#[test]
fn a_write_that_finds_nobody_ends_the_channel_behind_what_had_arrived() {
    for backend in backends() {
        let (ours, here) = script();
        let ((input, mut theirs), (gone, output)) = (io::pipe().unwrap(), io::pipe().unwrap());
        theirs.write_all(b"no more, please").unwrap();
        drop(gone);
        let client = client(on(backend), ours);
        let channel = client.adopt(Pipes::new(input, output).unwrap()).soon().unwrap();
        here.active();
        let written = channel.send(Bytes::from("more")).soon();
        assert!(matches!(written, Err(WriteError::Closed(CloseCause::Io(_)))), "{backend}: {written:?}");
        here.read(b"no more, please");
        let CloseCause::Io(error) = here.end() else { panic!("another end") };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        drop(theirs);
    }
}

#[test]
fn a_child_that_was_never_written_to_ends_in_order_although_it_had_closed_its_input() {
    for half_closure in [true, false] {
        for backend in backends() {
            let (ours, here) = script();
            let client = client(on(backend).half_closure(half_closure), ours);
            let mut child = run("exec 0<&-; echo hello");
            let _channel = client.adopt(Pipes::of_child(&mut child).unwrap()).soon().unwrap();
            here.active();
            here.read(b"hello\n");
            let cause = here.skip_to_end();
            assert!(
                matches!(cause, CloseCause::PeerClosed),
                "{backend}, half-closure {half_closure}: {cause}"
            );
            child.wait().unwrap();
        }
    }
}

#[test]
fn a_child_process_is_a_channel_until_it_ends() {
    for backend in backends() {
        let (ours, here) = script();
        let client = client(on(backend), ours);
        let mut child = run("read line; echo \"you said $line\"");
        let channel = client.adopt(Pipes::of_child(&mut child).unwrap()).soon().unwrap();
        here.active();
        assert_eq!(channel.peer().unwrap().to_string(), format!("process:{}", child.id()));
        channel.write_and_flush(Bytes::from("hello\n"));
        here.read(b"you said hello\n");
        assert!(matches!(here.end(), CloseCause::PeerClosed));
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn a_child_gets_the_end_of_its_input_and_its_last_answers_are_read() {
    for backend in backends() {
        let (ours, here) = script();
        let client = client(on(backend).half_closure(true), ours);
        let mut child = run("wc -c | tr -d ' '");
        let channel = client.adopt(Pipes::of_child(&mut child).unwrap()).soon().unwrap();
        here.active();
        channel.write_and_flush(Bytes::from(vec![b'x'; 300_000]));
        channel.shut_down_output_tracked().soon().unwrap();
        here.read(b"300000\n");
        here.skip_to_end();
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn files_go_through_a_pipe_between_other_messages() {
    let content = pattern(200_000);
    let path = std::env::temp_dir().join(format!("netwright-pipes-{}", std::process::id()));
    std::fs::write(&path, &content).unwrap();
    for backend in backends() {
        let (one, two) = Pipes::pair().unwrap();
        let (theirs, there) = script();
        let (sending, reading) =
            (on(backend).pipeline(|| pipeline().app(Sends)).unwrap(), client(on(backend), theirs));
        let (sender, _two) = (sending.adopt(one).soon().unwrap(), reading.adopt(two).soon().unwrap());
        there.active();
        sender.write(Bytes::from("before "));
        sender.write(FileRegion::whole(File::open(&path).unwrap()).unwrap());
        sender.send(Bytes::from(" behind")).soon().unwrap();
        there.read(&[b"before ", &content[..], b" behind"].concat());
        sender.close().soon();
        there.skip_to_end();
    }
    std::fs::remove_file(path).unwrap();
}

/// Sends what it is told to, files too.
struct Sends;

impl netwright_core::Application for Sends {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, _: &mut netwright_core::AppContext<'_, Self>, _: BytesMut) {}
}

#[test]
fn descriptors_are_left_as_they_were_found() {
    for backend in backends() {
        let (input, mut theirs) = io::pipe().unwrap();
        let (mut their_input, output) = io::pipe().unwrap();
        let (kept_in, kept_out) = (input.try_clone().unwrap(), output.try_clone().unwrap());
        let (ours, here) = script();
        let client = client(on(backend), ours);
        let channel = client.adopt(Pipes::new(input, output).unwrap()).soon().unwrap();
        here.active();
        let blocks = |fd: &OwnedFd| !fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK);
        let kept = [OwnedFd::from(kept_in), OwnedFd::from(kept_out)];
        assert!(kept.iter().all(|fd| !blocks(fd)));
        theirs.write_all(b"x").unwrap();
        here.read(b"x");
        channel.send(Bytes::from("y")).soon().unwrap();
        their_input.read_exact(&mut [0]).unwrap();
        channel.close().soon();
        here.end();
        assert!(kept.iter().all(blocks), "{backend}");
    }
}

#[test]
fn what_cannot_be_waited_for_is_refused_by_its_kind() {
    let (input, output) = io::pipe().unwrap();
    let file = File::open("/proc/version").or_else(|_| File::open("/etc/hosts")).unwrap();
    let error = Pipes::new(input, file).unwrap_err();
    assert!(matches!(error, PipesError::NotWaitable { end: "output", what: "a file" }), "{error:?}");
    let error = Pipes::new(File::open("/").unwrap(), output).unwrap_err();
    let text = "the input is a folder, and the system does not tell when there is news of one";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_child_whose_streams_are_not_piped_keeps_what_it_has() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let error = Pipes::of_child(&mut child).unwrap_err();
    assert!(matches!(error, PipesError::NotPiped("stdout")), "{error:?}");
    assert!(child.stdin.take().is_some());
    child.wait().unwrap();
}

#[test]
fn a_loop_that_can_wait_for_nothing_refuses_pipes_with_the_reason() {
    let group = netwright_core::EventLoopGroup::builder().loops(1).build().unwrap();
    let (ours, _here) = script();
    let client = client(Client::builder().group(group), ours);
    let error = client.adopt(Pipes::pair().unwrap().0).soon().unwrap_err().to_string();
    assert!(error.contains("no readiness driver"), "{error}");
}

//! One test in a process of its own: it counts all descriptors, and limits them.
#![cfg(target_os = "linux")]

#[allow(unused)]
mod support;

use bytes::BytesMut;
use netwright_core::{AppContext, Application, CloseCause, Envelope, Outgoing, pipeline};
use netwright_transport::{Client, DescriptorError, Server, event_loops};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    fs::{self, File},
    io::Write,
    os::unix::net::UnixStream,
};
use support::{Echo, Soon, script, wait_until};

fn open() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

struct Mute;

impl Application for Mute {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
}

#[test]
fn whatever_ends_connections_no_descriptor_stays_open() {
    let path = std::env::temp_dir().join(format!("netwright-leaks-{}", std::process::id()));
    let address = format!("unix:{}", path.display());
    let (loops, descriptors) = (event_loops(1).unwrap(), 4);
    let builder = Server::builder().group(loops.clone()).receive_descriptors(descriptors);
    let server = builder.pipeline(|_| pipeline().app(Echo)).bind(&address).soon().unwrap();
    let client = Client::builder().group(loops.clone()).pipeline(|| pipeline().app(Mute)).unwrap();
    client.connect(&address).soon().unwrap().close().soon(); // everything is set up now
    wait_until(|| server.figures().open == 0, || "no connection".to_owned());
    let before = open();

    // Clients that go in the middle of a transfer, with answers unread.
    for round in 0..2000 {
        let mut peer = UnixStream::connect(&path).unwrap();
        for _ in 0..round % 4 {
            peer.write_all(&[0; 5000]).unwrap();
        }
    }
    // Descriptors that nobody takes, as many as may wait, and more.
    for round in 0..500 {
        let channel = client.connect(&address).soon().unwrap();
        for _ in 0..round % 4 {
            let mut envelope = Envelope::new("x");
            for _ in 0..=round % 3 {
                envelope = envelope.with_descriptor(File::open("/dev/null").unwrap());
            }
            channel.write_and_flush(envelope);
        }
        channel.close().soon();
    }
    let none_left = || server.figures().open == 0 && open() == before;
    wait_until(none_left, || format!("{before} descriptors, there are {}", open()));

    // The process has no room for what the peer sends.
    let (server_script, events) = script();
    let builder = Server::builder().group(loops.clone()).receive_descriptors(100);
    let builder = builder.pipeline(move |_| pipeline().app(server_script.probe()));
    let narrow = builder.bind(format!("{address}-2")).soon().unwrap();
    let channel = client.connect(narrow.address()).soon().unwrap();
    drop(events.active());
    let mut envelope = Envelope::new("x");
    for _ in 0..20 {
        envelope = envelope.with_descriptor(File::open("/dev/null").unwrap());
    }
    let held = envelope.clone(); // so that sending it makes no room
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(open() as u64 + 5), ..limit }).unwrap();
    drop(channel.send(envelope));
    let cause = events.skip_to_end();
    setrlimit(Resource::Nofile, limit).unwrap();
    let CloseCause::Io(error) = cause else { panic!("expected an error, got {cause}") };
    let error = error.get_ref().and_then(|error| error.downcast_ref::<DescriptorError>());
    assert_eq!(error, Some(&DescriptorError::Lost));
    channel.close().soon();
    drop((channel, held));
    narrow.drain(std::time::Duration::ZERO).soon().unwrap();
    drop(narrow);
    wait_until(|| open() == before, || format!("{before} descriptors, there are {}", open()));
}

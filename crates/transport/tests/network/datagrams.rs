//! Datagrams in a network.

use crate::{
    support::{PATIENCE, Soon, settle, wait_until},
    toy::Toy,
};
use bytes::Bytes;
use netwright_core::{
    AppContext, Application, Channel, Envelope, Event, EventLoopGroup, Outgoing, WriteError, pipeline,
};
use netwright_transport::{
    BindError, Datagram, DatagramOptions, DatagramSocket, Datagrams, DatagramsBuilder, Multicast,
    PortUnreachable, Truncated,
};
use std::{net::SocketAddr, sync::mpsc};

/// What a channel has seen.
#[derive(Debug, PartialEq)]
enum Seen {
    Read(String, Vec<u8>),
    Unreachable(String),
    Truncated(usize),
}

/// Tells what it sees, and answers if it is to.
struct Probe {
    tell: mpsc::Sender<Seen>,
    answers: bool,
}

impl Application for Probe {
    type Read = Datagram;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, datagram: Datagram) {
        let _ = self.tell.send(Seen::Read(datagram.from.to_string(), datagram.bytes.to_vec()));
        if self.answers {
            cx.write(datagram.into_answer());
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
    fn event(&mut self, _: &mut AppContext<'_, Self>, event: Event) {
        if let Some(PortUnreachable { to, .. }) = event.get() {
            let _ = self.tell.send(Seen::Unreachable(to.as_ref().unwrap().to_string()));
        } else if let Some(Truncated { length, .. }) = event.get() {
            let _ = self.tell.send(Seen::Truncated(*length));
        }
    }
}

fn datagrams(builder: DatagramsBuilder, answers: bool) -> (Datagrams, mpsc::Receiver<Seen>) {
    let (tell, told) = mpsc::channel();
    let make = move || pipeline().app(Probe { tell: tell.clone(), answers });
    (builder.pipeline(make).unwrap(), told)
}

fn on(group: EventLoopGroup) -> DatagramsBuilder {
    Datagrams::builder().group(group)
}

#[track_caller]
fn next(told: &mpsc::Receiver<Seen>) -> Seen {
    told.recv_timeout(PATIENCE).expect("something comes")
}

fn to(address: SocketAddr, bytes: &'static str) -> Outgoing {
    Envelope::to(address, bytes).into()
}

#[test]
fn datagrams_reach_who_receives_at_a_name_and_answers_come_back() {
    let toy = Toy::new().name("echo", &[[10, 0, 0, 1]]);
    let (server, asked) = datagrams(on(toy.loops(1)), true);
    let echo = server.bind("echo:53").soon().unwrap();
    assert_eq!(echo.local().unwrap().to_string(), "10.0.0.1:53");
    let (client, answers) = datagrams(on(toy.loops(1)), false);
    let bound = client.bind("10.0.0.9:0").soon().unwrap();
    let connected = client.connect("echo:53").soon().unwrap();
    for channel in [&bound, &connected] {
        let own = channel.local().unwrap().to_string();
        channel.send(to(echo.local_addr().unwrap(), "ping")).soon().unwrap();
        assert_eq!(next(&asked), Seen::Read(own, b"ping".to_vec()));
        assert_eq!(next(&answers), Seen::Read("10.0.0.1:53".to_owned(), b"ping".to_vec()));
    }
    connected.send(Bytes::from("plain")).soon().unwrap();
    assert_eq!(next(&answers), Seen::Read("10.0.0.1:53".to_owned(), b"plain".to_vec()));
    let figures = DatagramSocket::of(&echo).unwrap().figures();
    assert_eq!((figures.received, figures.sent), (3, 3));
}

#[test]
fn what_was_sent_to_nobody_is_told_by_the_network() {
    let toy = Toy::new();
    let (client, told) = datagrams(on(toy.loops(1)), false);
    let channel = client.bind("10.0.0.9:0").soon().unwrap();
    for port in 1..=40 {
        channel.write(to(([10, 0, 0, 1], port).into(), "anybody?"));
    }
    channel.flush();
    for port in 1..=40 {
        assert_eq!(
            next(&told),
            Seen::Unreachable(format!("10.0.0.1:{port}")),
            "also what takes several turns to tell"
        );
    }
    assert_eq!(DatagramSocket::of(&channel).unwrap().figures().undelivered, 40);
}

#[test]
fn who_finds_no_room_sends_when_there_is_some() {
    let toy = Toy::new();
    let (server, asked) = datagrams(on(toy.loops(1)).auto_read(false), false);
    let server = server.bind("10.0.0.1:53").soon().unwrap();
    let group = toy.loops(1);
    let (client, _) = datagrams(on(group.clone()), false);
    let channel = client.connect("10.0.0.1:53").soon().unwrap();
    let mut sent: Vec<_> = (0..30_u8).map(|number| channel.send(Bytes::from(vec![number]))).collect();
    settle(&group);
    let done = sent.iter_mut().filter_map(|sent| sent.try_take()).count();
    assert_eq!(done, crate::toy::ROOM);
    server.resume();
    for number in 0..30 {
        assert!(matches!(next(&asked), Seen::Read(_, bytes) if bytes == [number]));
    }
}

#[test]
fn several_loops_share_a_port_and_one_alone_has_it_for_itself() {
    let toy = Toy::new();
    let (server, _told) = datagrams(on(toy.loops(3)), false);
    let channels: Vec<Channel> = server.bind_shared("10.0.0.1:0").soon().unwrap();
    let at = channels[0].local().unwrap();
    assert!(channels.len() == 3 && channels.iter().all(|channel| channel.local() == Some(at.clone())));
    let error = server.bind(&at).soon().unwrap_err();
    assert!(matches!(error, BindError::InUse(_)), "{error}");
}

#[test]
fn what_only_sockets_of_the_system_have_is_refused_and_says_why() {
    let toy = Toy::new();
    let (client, told) = datagrams(on(toy.loops(1)).receive_max(4), false);
    let channel = client.bind("10.0.0.9:0").soon().unwrap();
    let group = Multicast::group([224, 0, 0, 251].into());
    let error = DatagramSocket::of(&channel).unwrap().join(&group).unwrap_err().to_string();
    assert_eq!(error, "cannot join 224.0.0.251: the network of the channel's loop has no multicast");
    channel.send(to(channel.local_addr().unwrap(), "too long")).soon().unwrap();
    assert_eq!(next(&told), Seen::Truncated(8));
    let nowhere = channel.send(Bytes::from("no target")).soon().unwrap_err();
    assert!(matches!(nowhere, WriteError::Fault(_)), "{nowhere}");

    let (client, _) = datagrams(on(toy.loops(1)).options(DatagramOptions::new().only_v6(true)), false);
    let error = client.bind("10.0.0.9:0").soon().unwrap_err().to_string();
    assert!(error.contains("only_v6 = true: an IPv4 socket does not have it"), "{error}");
    let (client, _) = datagrams(on(toy.loops(1)).descriptors(1), false);
    let error = client.bind("unix:/letters").soon().unwrap_err().to_string();
    assert!(error.contains("passes no descriptors"), "{error}");
}

#[test]
fn a_channel_that_is_closed_leaves_its_address_to_others() {
    let toy = Toy::new();
    let (client, _told) = datagrams(on(toy.loops(1)), false);
    let channel = client.bind("10.0.0.9:53").soon().unwrap();
    client.bind("10.0.0.9:53").soon().unwrap_err();
    channel.close().soon();
    let again = client.bind("10.0.0.9:53").soon().unwrap();
    wait_until(|| client.group().next().figures().sources == 1, || "the first to be gone".to_owned());
    drop(again);
}

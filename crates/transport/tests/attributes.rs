//! What a server or a client attaches to all its channels.

use bytes::Bytes;
use netwright_core::pipeline;
use netwright_transport::{Backend, Client, Server};
use std::{sync::mpsc, time::Duration};

struct Name(&'static str);

#[test]
fn every_channel_of_a_server_and_of_a_client_has_its_attributes_from_the_start() {
    let (send, receive) = mpsc::channel();
    let server = Server::builder()
        .backend(Backend::Readiness)
        .attribute(Name("nobody"))
        .attribute(Name("server")) // the last one of a type counts
        .pipeline(move |_| {
            let send = send.clone();
            pipeline().handle(move |cx, _| send.send(cx.channel().attribute::<Name>().unwrap().0).unwrap())
        })
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    let client =
        Client::builder().attribute(Name("client")).pipeline(|| pipeline().handle(|_, _| ())).unwrap();
    let channel = client.connect(server.address()).wait().unwrap();
    assert_eq!(channel.attribute::<Name>().unwrap().0, "client");
    channel.send(Bytes::from("?")).wait().unwrap();
    assert_eq!(receive.recv_timeout(Duration::from_secs(30)).unwrap(), "server");
}

#[test]
fn accepting_pauses_and_those_who_waited_come_first_when_it_goes_on() {
    let server = Server::builder()
        .pipeline(|_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())))
        .bind("127.0.0.1:0")
        .wait()
        .unwrap();
    server.pause_accepting();
    let (send, receive) = mpsc::channel();
    let client = Client::builder()
        .pipeline(move || {
            let send = send.clone();
            pipeline().handle(move |_, bytes| send.send(bytes.to_vec()).unwrap())
        })
        .unwrap();
    // The system completes the connection; our side does not take it.
    let channel = client.connect(server.address()).wait().unwrap();
    channel.send(Bytes::from("waiting")).wait().unwrap();
    assert_eq!(server.figures().accepted, 0);
    server.resume_accepting();
    assert_eq!(receive.recv_timeout(Duration::from_secs(30)).unwrap(), b"waiting");
    assert_eq!(server.figures().accepted, 1);
}

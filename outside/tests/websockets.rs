//! WebSockets, at both ends, with async functions that are woken from elsewhere.

use netwright::{
    CloseCause, EventLoopGroup, Peer, Server,
    http::HttpServer,
    pipeline,
    websocket::{Accept, Config, Deflate, Message, Request, Upgrade, WebSocketClient},
};
use outside::{ask, assert_same, in_time, loops, pattern, slow_thread};
use std::sync::{Arc, mpsc};

type Socket = Peer<Message, Message>;

/// Messages may be long, and are compressed if that is worth it.
fn config() -> Config {
    Config::default().max_message(16 << 20).deflate(Deflate::default())
}

/// A server that has each WebSocket served by this function.
fn sockets<F, T>(group: &EventLoopGroup, tail: F) -> Server
where
    F: Fn(Socket) -> T + Clone + Send + Sync + 'static,
    T: Future<Output = Result<(), CloseCause>> + 'static,
{
    let accept = Arc::new(Accept::new(config()));
    Server::builder()
        .group(group.clone())
        .pipeline(move |_| {
            let (accept, tail) = (accept.clone(), tail.clone());
            pipeline().joint(|switch| {
                let serve = move |socket, _: &_, _: &_| pipeline().add(socket).serve(tail.clone());
                let upgrade = Upgrade::new(switch, accept, serve);
                pipeline().add(HttpServer::new()).add(upgrade).handle(|cx, _| cx.close()).sealed()
            })
        })
        .bind("127.0.0.1:0")
        .wait()
        .expect("it listens")
}

/// What comes back of these messages.
fn answers(server: &Server, messages: Vec<Message>) -> Vec<Message> {
    let (heard, hears) = mpsc::channel();
    let tail = async move |mut peer: Socket, _| {
        for message in messages {
            peer.write(message).await?;
            match peer.read().await? {
                Some(answer) => heard.send(answer).expect("somebody listens"),
                None => break,
            }
        }
        Ok::<(), CloseCause>(())
    };
    let client = WebSocketClient::new(loops(1));
    let request = Request::new(&format!("ws://{}/", server.address())).expect("an address");
    let socket = client.connect(request.config(config()), tail).wait().expect("it listens");
    let all = hears.iter().collect();
    let _ = socket.closed().wait();
    all
}

#[test]
fn an_echo_sends_back_short_and_long_messages() {
    in_time(|| {
        let server = sockets(&loops(1), async |mut peer: Socket| {
            while let Some(message) = peer.read().await? {
                peer.write(message).await?;
            }
            Ok(())
        });
        let long = pattern(8 << 20);
        let sent =
            vec![Message::from("hello"), Message::from(long.clone()), Message::from("x".repeat(100_000))];
        let came = answers(&server, sent.clone());
        assert_eq!(came.len(), 3, "each has an answer");
        assert_eq!(came[0], sent[0]);
        let Message::Binary(bytes) = &came[1] else { panic!("it was binary") };
        assert_same(bytes, &long);
        assert!(came[2] == sent[2]);
    });
}

#[test]
fn the_tail_of_a_web_socket_is_woken_by_another_thread() {
    in_time(|| {
        let group = loops(1);
        let other = slow_thread(&group);
        let server = sockets(&group, move |mut peer: Socket| {
            let other = other.clone();
            async move {
                while let Some(message) = peer.read().await? {
                    let Message::Text(text) = message else { break };
                    let answer = ask(&other, text.to_string()).await.expect("it is kept");
                    peer.write(Message::from(answer)).await?;
                }
                Ok(())
            }
        });
        let came = answers(&server, vec![Message::from("one"), Message::from("two")]);
        assert!(came == [Message::from("ONE"), Message::from("TWO")]);
    });
}

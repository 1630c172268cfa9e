//! A chat in the browser: `cargo run --release --example websocket_chat`, then open <http://127.0.0.1:7011> in several windows.
//!
//! ```text
//!   GET /      ──▶ the page                      HTTP
//!   GET /chat  ──▶ 101, then WebSocket           the same connection, another segment behind its joint
//! ```

use bytes::Bytes;
use netwright::{
    AppContext, Application, ChannelGroup, CloseCause, Server, event_loops,
    http::{HttpPart, HttpServer, ReplyHead, ReplyPart, RequestPart},
    pipeline,
    websocket::{Accept, Config, Message, Upgrade},
};
use std::{error::Error, sync::Arc};

const PAGE: &str = include_str!("chat.html");

/// Everybody hears everybody.
struct Chat {
    room: ChannelGroup<Message>,
    name: String,
}

impl Chat {
    fn tell_all(&self, line: String) {
        self.room.write_and_flush_if(Message::from(line), |channel| channel.is_writable()); // who does not read misses it
    }
}

impl Application for Chat {
    type Read = Message;
    type Write = Message;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.name = cx
            .view()
            .peer_addr()
            .map_or_else(|| cx.view().id().to_string(), |peer| format!("guest {}", peer.port()));
        self.room.add(cx.channel()); // it leaves by itself when the channel closes
        self.tell_all(format!("{} has come, {} here", self.name, self.room.len()));
    }

    fn read(&mut self, _: &mut AppContext<'_, Self>, message: Message) {
        if let Message::Text(line) = message {
            self.tell_all(format!("{}: {line}", self.name));
        }
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, _: CloseCause) {
        self.tell_all(format!("{} has left", self.name));
    }
}

/// Answers everything that is not a WebSocket.
struct Page;

impl Application for Page {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        let (HttpPart::Head(head) | HttpPart::Whole(head, _)) = part else { return }; // bodies are not looked at
        let mut reply = ReplyHead::new();
        let text = if head.uri.path() == "/" {
            reply.headers.insert("content-type", http::HeaderValue::from_static("text/html; charset=utf-8"));
            PAGE
        } else {
            reply.status = http::StatusCode::NOT_FOUND;
            "there is no such page\n"
        };
        cx.write_and_flush(HttpPart::Whole(reply, Bytes::from_static(text.as_bytes())));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:7011".to_owned());
    let accept = Arc::new(Accept::new(Config::default().max_message(4096)).path("/chat"));
    let room = ChannelGroup::new();
    let server = Server::builder()
        .group(event_loops(2)?)
        .pipeline(move |_| {
            let (accept, room) = (accept.clone(), room.clone());
            pipeline().joint(|switch| {
                let upgrade = Upgrade::new(switch, accept, move |socket, _, _| {
                    pipeline().add(socket).app(Chat { room: room.clone(), name: String::new() })
                });
                pipeline().add(HttpServer::new()).add(upgrade).app(Page).sealed()
            })
        })
        .bind(address)
        .wait()?;
    println!("chat on http://{}", server.address());
    Ok(server.group().termination().wait()?)
}

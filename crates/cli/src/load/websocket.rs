//! One connection of the load on a WebSocket echo server: asks for the WebSocket, then keeps `depth` messages on their way
//! and compares every one that comes back.
//!
//! ```text
//!   ( joint ) ──▶ [ HttpClient ] ──▶ [ Opening ]      101 and the right proof: switch.to
//!       └───────▶ [ WebSocket ] ──▶ [ Load ]          what was ordered meanwhile is known here
//! ```

use super::{
    course::{Course, Order, Problem},
    pattern::Supply,
    stage::{Load, Talk},
};
use bytes::Bytes;
use netwright::{
    CloseCause, Context, Fault, Handler, WritePromise,
    http::{HttpPart, ReplyPart, RequestPart},
    pipeline,
    pipeline::Switch,
    websocket::{Config, Message, Request, WebSocket, new_key},
};
use std::{convert::Infallible, sync::Arc};

/// What is asked for, and how the connection is set up then. One for all connections.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) request: Request,
    pub(super) config: Arc<Config>,
}

/// Asks for a WebSocket.
pub(super) struct Opening {
    /// Until it is handed on.
    course: Option<Course>,
    switch: Switch<Order>,
    wanted: Arc<Wanted>,
    key: String,
    go: bool,
}

impl Opening {
    pub(super) fn new(course: Course, switch: Switch<Order>, wanted: Arc<Wanted>) -> Self {
        Self { course: Some(course), switch, wanted, key: new_key(), go: false }
    }
}

impl Handler for Opening {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = Order;
    type WriteOut = RequestPart;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.write_and_flush(HttpPart::Whole(self.wanted.request.head(&self.key), Bytes::new()));
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart) {
        let (HttpPart::Head(head) | HttpPart::Whole(head, _)) = part else { return };
        let Some(mut course) = self.course.take() else { return };
        match self.wanted.request.check(&self.key, &head) {
            Ok(_) => {
                let socket = WebSocket::client(self.wanted.config.clone());
                self.switch.to(pipeline().add(socket).last(Messages::load(course).ordered(self.go)));
            }
            Err(error) => {
                course.fail(Problem::Refused(error.to_string()));
                self.course = Some(course);
                cx.close();
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, order: Order, done: WritePromise) {
        match (order, &mut self.course) {
            (Order::Go, _) => self.go = true,
            (Order::Finish, Some(course)) => {
                course
                    .fail(Problem::Refused("the server never answered a request for a WebSocket".to_owned()));
                cx.close();
            }
            (Order::Finish, None) => {}
        }
        done.succeed();
    }

    /// Comes again as the cause of the end.
    fn error(&mut self, _: &mut Context<'_, Self>, _: Fault) {}

    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        if let Some(course) = &mut self.course {
            course.end(cause, 0, "messages");
        }
    }
}

/// Behind the WebSocket stage: sends and checks messages.
struct Messages {
    supply: Supply,
    received: u64,
}

impl Messages {
    fn load(course: Course) -> Load<Self> {
        let supply = Supply::of_connection(course.number);
        Load::new(course, Self { supply, received: 0 })
    }

    fn check(&self, course: &Course, message: &Message) -> Result<(), String> {
        let Message::Binary(bytes) = message else { return Err("it is not binary".to_owned()) };
        let size = course.shared.size;
        if course.on_their_way() == 0 {
            return Err("nobody asked for it".to_owned());
        }
        if bytes.len() != size {
            return Err(format!("it has {} bytes instead of {size}", bytes.len()));
        }
        match self.supply.pattern.first_difference(self.received * size as u64, bytes) {
            None => Ok(()),
            Some((at, expected)) => {
                Err(format!("byte {at} is {:#04x} instead of {expected:#04x}", bytes[at]))
            }
        }
    }
}

impl Talk for Messages {
    type Read = Message;
    type Write = Message;
    const MISSING: &'static str = "messages";

    fn say(&mut self, course: &Course) -> Message {
        Message::Binary(self.supply.next(course.shared.size))
    }

    fn judge(&mut self, course: &Course, message: Message) -> Result<usize, Problem> {
        let number = self.received + 1;
        self.check(course, &message).map_err(|why| Problem::Answer { number, why })?;
        self.received = number;
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::course::{Outcome, Shared};
    use netwright::{EmbeddedChannel, http::HttpClient, websocket::accept_key};
    use std::sync::{
        atomic::Ordering,
        mpsc::{Receiver, channel},
    };

    type Client = EmbeddedChannel<Infallible, Order>;

    fn client(size: usize, depth: usize) -> (Client, Arc<Shared>, Receiver<Outcome>) {
        let shared = Arc::new(Shared { size, depth, ..Shared::default() });
        let (outcome, outcomes) = channel();
        let course = Course::new(shared.clone(), outcome);
        let load = pipeline().joint(|switch| {
            let request = Request::new("ws://a/").unwrap();
            let opening = Opening::new(course, switch, Arc::new(Wanted { request, config: Arc::default() }));
            pipeline().add(HttpClient::new()).last(opening)
        });
        (EmbeddedChannel::with_joint(load), shared, outcomes)
    }

    /// The server's agreement to what the client has asked for.
    fn opened(channel: &mut Client) -> String {
        let asked = String::from_utf8(channel.outbound_bytes()).unwrap();
        assert!(asked.starts_with("GET / HTTP/1.1\r\n"), "{asked}");
        let mut fields = asked.lines().filter_map(|line| line.split_once(": "));
        let key = fields.find(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-key")).expect("a key").1;
        let proof = accept_key(key);
        format!(
            "HTTP/1.1 101 x\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: {proof}\r\n\r\n"
        )
    }

    /// The payload of a short masked frame.
    fn unmasked(frame: &[u8]) -> Vec<u8> {
        frame[6..].iter().enumerate().map(|(at, byte)| byte ^ frame[2 + at % 4]).collect()
    }

    #[test]
    fn what_was_ordered_before_the_websocket_is_open_is_sent_when_it_is() {
        let (mut channel, shared, outcomes) = client(4, 1);
        let opened = opened(&mut channel);
        channel.write_outbound(Order::Go);
        assert!(channel.outbound_bytes().is_empty());
        let sent = channel.write_inbound(opened).outbound_bytes();
        assert_eq!((&sent[..2], sent.len()), (&[0x82, 0x84][..], 10));
        let sent = channel.write_inbound([&[0x82, 4], &unmasked(&sent)[..]].concat()).outbound_bytes();
        assert_eq!(shared.requests.load(Ordering::Relaxed), 1);
        channel.write_outbound(Order::Finish);
        channel.write_inbound([&[0x82, 4], &unmasked(&sent)[..]].concat());
        channel.write_inbound([0x88, 2, 0x03, 0xe8]).close_by_peer();
        assert!(outcomes.try_recv().unwrap().is_none(), "all is well");
    }

    #[test]
    fn a_wrong_message_is_a_problem() {
        let (mut channel, _, outcomes) = client(4, 1);
        let opened = opened(&mut channel);
        channel.write_outbound(Order::Go).write_inbound(opened).write_inbound(*b"\x82\x04abcd");
        channel.write_inbound([0x88, 2, 0x03, 0xe8]).close_by_peer();
        assert!(matches!(outcomes.try_recv().unwrap(), Some(Problem::Answer { number: 1, .. })));
    }

    #[test]
    fn a_refusal_is_a_problem_of_its_own_and_no_wrong_byte() {
        let refused = |reply: &dyn Fn(&mut Client) -> String| {
            let (mut channel, _, outcomes) = client(4, 1);
            let reply = reply(&mut channel);
            channel.write_inbound(reply);
            match outcomes.try_recv().unwrap() {
                Some(Problem::Refused(why)) => why,
                other => panic!("{other:?}"),
            }
        };
        let not_found = |_: &mut Client| "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned();
        assert!(refused(&not_found).contains("404"));
        let no_proof = |channel: &mut Client| opened(channel).replace("accept: ", "accept: x");
        assert!(refused(&no_proof).contains("Sec-WebSocket-Accept"));
        let (mut channel, _, outcomes) = client(4, 1);
        channel.write_outbound(Order::Finish);
        assert!(matches!(outcomes.try_recv().unwrap(), Some(Problem::Refused(_))), "no answer");
    }

    #[test]
    fn each_connection_has_a_key_of_its_own() {
        let asked = || client(4, 1).0.outbound_bytes();
        assert_ne!(asked(), asked());
    }
}

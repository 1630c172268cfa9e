//! One connection of the load on an HTTP server: keeps `depth` requests on their way and compares every answer.
//!
//! ```text
//!   GET  ── as the first answer was, before the load began ──▶ status 2xx, the same bytes
//!   POST ── bytes of this connection, if a size is given ────▶ status 2xx, these bytes back
//! ```

use super::{
    course::{Course, Order, Problem},
    pattern::Pattern,
};
use bytes::{Bytes, BytesMut};
use http::{HeaderValue, Method, Uri, header};
use netwright::{
    CloseCause, Context, Fault, Handler, WritePromise,
    http::{HttpPart, ReplyHead, ReplyPart, RequestHead, RequestPart},
};
use std::{convert::Infallible, sync::Arc, time::Instant};

/// What is asked, and what has to be answered. One for all connections.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) path: Uri,
    pub(super) host: HeaderValue,
    pub(super) expected: Expected,
}

#[derive(Debug)]
pub(super) enum Expected {
    /// What the first answer was.
    Same(Bytes),
    /// What was sent.
    Echo,
}

impl Question {
    pub(super) fn head(&self) -> RequestHead {
        let mut head = RequestHead::new();
        head.method = if matches!(self.expected, Expected::Echo) { Method::POST } else { Method::GET };
        head.uri = self.path.clone();
        head.headers.insert(header::HOST, self.host.clone());
        head
    }
}

/// Behind the HTTP codec: takes orders from outside, asks and checks answers.
pub(super) struct HttpLoad {
    course: Course,
    question: Arc<Question>,
    pattern: Pattern,
    room: BytesMut,
    /// Bytes of all bodies that were sent.
    sent: u64,
    /// Answers that came whole, and bytes of the body that comes.
    answers: u64,
    got: u64,
}

impl HttpLoad {
    pub(super) fn new(course: Course, question: Arc<Question>) -> Self {
        let pattern = Pattern::of_connection(course.number);
        Self { course, question, pattern, room: BytesMut::new(), sent: 0, answers: 0, got: 0 }
    }

    fn fill_up(&mut self, cx: &mut Context<'_, Self>, now: Instant) {
        while self.course.has_room() {
            let body = match self.question.expected {
                Expected::Same(_) => Bytes::new(),
                Expected::Echo => {
                    self.room.resize(self.course.shared.size, 0);
                    self.pattern.fill(self.sent, &mut self.room);
                    self.sent += self.course.shared.size as u64;
                    self.room.split().freeze()
                }
            };
            cx.write(HttpPart::Whole(self.question.head(), body));
            self.course.sent(now);
        }
        cx.flush();
    }

    fn check_head(&self, head: &ReplyHead) -> Result<(), String> {
        if self.course.on_their_way() == 0 {
            return Err("nobody asked for it".to_owned());
        }
        if !head.status.is_success() {
            return Err(format!("its status is {}", head.status));
        }
        Ok(())
    }

    /// How long a body has to be.
    fn len(&self) -> u64 {
        match &self.question.expected {
            Expected::Same(body) => body.len() as u64,
            Expected::Echo => self.course.shared.size as u64,
        }
    }

    fn check_body(&mut self, bytes: &[u8]) -> Result<(), String> {
        let (from, to) = (self.got, self.got + bytes.len() as u64);
        self.got = to;
        if to > self.len() {
            return Err(format!("it has more than {} bytes", self.len()));
        }
        let different = match &self.question.expected {
            Expected::Same(body) => {
                let expected = &body[from as usize..to as usize];
                (expected != bytes)
                    .then(|| (0..bytes.len()).find(|&at| expected[at] != bytes[at]))
                    .flatten()
                    .map(|at| (at, expected[at]))
            }
            Expected::Echo => self.pattern.first_difference(self.answers * self.len() + from, bytes),
        };
        match different {
            None => Ok(()),
            Some((at, expected)) => {
                let (place, got) = (from + at as u64, bytes[at]);
                Err(format!("byte {place} is {got:#04x} instead of {expected:#04x}"))
            }
        }
    }

    fn check(&mut self, part: ReplyPart) -> Result<bool, String> {
        match part {
            HttpPart::Whole(head, body) => {
                self.check_head(&head)?;
                self.check_body(&body)?;
                head.recycle();
                self.check_end()
            }
            HttpPart::Head(head) => self.check_head(&head).map(|()| false),
            HttpPart::Data(bytes) => self.check_body(&bytes).map(|()| false),
            HttpPart::End(_) => self.check_end(),
            HttpPart::File(_) | HttpPart::Interim(_) => Ok(false),
        }
    }

    fn check_end(&mut self) -> Result<bool, String> {
        let got = std::mem::take(&mut self.got);
        if got < self.len() {
            return Err(format!("it has {got} bytes instead of {}", self.len()));
        }
        self.answers += 1;
        Ok(true)
    }

    fn close_if_done(&mut self, cx: &mut Context<'_, Self>) {
        if self.course.is_done() {
            cx.close();
        }
    }
}

impl Handler for HttpLoad {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = Order;
    type WriteOut = RequestPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart) {
        if self.course.has_failed() {
            return;
        }
        match self.check(part) {
            Ok(false) => {}
            Ok(true) => {
                let now = Instant::now();
                self.course.came_back(1, now);
                self.fill_up(cx, now);
                self.close_if_done(cx);
            }
            Err(why) => {
                self.course.fail(Problem::Answer { number: self.answers + 1, why });
                cx.close();
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, order: Order, done: WritePromise) {
        match order {
            Order::Go => self.fill_up(cx, Instant::now()),
            Order::Finish => {
                self.course.finish();
                self.close_if_done(cx);
            }
        }
        done.succeed();
    }

    /// Comes again as the cause of the end.
    fn error(&mut self, _: &mut Context<'_, Self>, _: Fault) {}

    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        let missing = self.course.on_their_way() as u64;
        self.course.end(cause, missing, "answers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::course::{Outcome, Shared};
    use netwright::{EmbeddedChannel, http::HttpClient, pipeline};
    use std::sync::{
        atomic::Ordering,
        mpsc::{Receiver, channel},
    };

    type Client = EmbeddedChannel<Infallible, Order>;

    fn client(size: usize, depth: usize, expected: Expected) -> (Client, Arc<Shared>, Receiver<Outcome>) {
        let shared = Arc::new(Shared { size, depth, ..Shared::default() });
        let (outcome, outcomes) = channel();
        let host = HeaderValue::from_static("a");
        let question = Arc::new(Question { path: Uri::from_static("/x"), host, expected });
        let load = HttpLoad::new(Course::new(shared.clone(), outcome), question);
        (EmbeddedChannel::new(pipeline().add(HttpClient::new()).add(load)), shared, outcomes)
    }

    fn same() -> Expected {
        Expected::Same(Bytes::from_static(b"hello"))
    }

    const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

    #[test]
    fn right_answers_are_counted_and_followed_by_new_questions() {
        let (mut channel, shared, outcomes) = client(0, 2, same());
        channel.write_outbound(Order::Go);
        let question = "GET /x HTTP/1.1\r\nhost: a\r\n\r\n";
        assert_eq!(channel.outbound_bytes(), question.repeat(2).as_bytes());
        channel.write_inbound(HELLO);
        assert_eq!(channel.outbound_bytes(), question.as_bytes());
        channel.write_outbound(Order::Finish);
        channel.write_inbound(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
        );
        channel.write_inbound(HELLO);
        assert!(!channel.is_open());
        assert!(outcomes.try_recv().unwrap().is_none());
        assert_eq!(shared.requests.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn wrong_answers_end_the_connection_and_say_why() {
        for (answer, why) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhellO", "answer 1 of a connection: byte 4 is 0x4f"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhell", "4 bytes instead of 5"),
            ("HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello!", "more than 5 bytes"),
            ("HTTP/1.1 503 Busy\r\ncontent-length: 5\r\n\r\nhello", "status is 503"),
        ] {
            let (mut channel, _, outcomes) = client(0, 1, same());
            channel.write_outbound(Order::Go).write_inbound(answer);
            assert!(!channel.is_open());
            let problem = outcomes.try_recv().unwrap().expect("a problem").to_string();
            assert!(problem.contains(why), "{problem}");
        }
    }

    #[test]
    fn what_was_sent_has_to_come_back() {
        let (mut channel, shared, outcomes) = client(8, 1, Expected::Echo);
        channel.write_outbound(Order::Go);
        let asked = channel.outbound_bytes();
        assert!(asked.starts_with(b"POST /x HTTP/1.1\r\n"));
        let mut answer = b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n".to_vec();
        answer.extend_from_slice(&asked[asked.len() - 8..]);
        channel.write_inbound(answer);
        assert_eq!(shared.requests.load(Ordering::Relaxed), 1);
        channel.write_inbound("HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n01234567");
        assert!(matches!(outcomes.try_recv().unwrap(), Some(Problem::Answer { number: 2, .. })));
    }

    #[test]
    fn a_peer_that_leaves_early_is_a_problem() {
        let (mut channel, _, outcomes) = client(0, 3, same());
        channel.write_outbound(Order::Go).write_inbound(HELLO).close_by_peer();
        let problem = outcomes.try_recv().unwrap();
        assert!(matches!(problem, Some(Problem::Ended { missing: 3, .. })), "{problem:?}");
    }
}

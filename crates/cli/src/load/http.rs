//! What a connection of the load on an HTTP server asks, and what has to be answered.
//!
//! ```text
//!   GET  ── as the first answer was, before the load began ──▶ status 2xx, the same bytes
//!   POST ── bytes of this connection, if a size is given ────▶ status 2xx, these bytes back
//! ```

use super::{
    course::{Course, Problem},
    pattern::{Pattern, Supply},
    stage::{Load, Talk},
};
use bytes::Bytes;
use http::{HeaderValue, Method, Uri, header};
use netwright::http::{HttpPart, ReplyHead, ReplyPart, RequestHead, RequestPart};
use std::sync::Arc;

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

    /// The next request of a connection.
    pub(super) fn ask(&self, supply: &mut Supply, size: usize) -> RequestPart {
        let body = match self.expected {
            Expected::Same(_) => Bytes::new(),
            Expected::Echo => supply.next(size),
        };
        HttpPart::Whole(self.head(), body)
    }
}

/// Behind the HTTP codec: asks, and checks answers.
pub(super) struct Questions {
    question: Arc<Question>,
    supply: Supply,
    /// How long a body is that is sent.
    size: usize,
    /// Answers that came whole.
    answers: u64,
    check: Check,
}

impl Questions {
    pub(super) fn load(course: Course, question: Arc<Question>) -> Load<Self> {
        let (supply, size) = (Supply::of_connection(course.number), course.shared.size);
        let check = Check::new(question.clone(), supply.pattern, size);
        Load::new(course, Self { question, supply, size, answers: 0, check })
    }

    /// Whether an answer is whole with this.
    fn check(&mut self, course: &Course, part: ReplyPart) -> Result<bool, String> {
        if matches!(part, HttpPart::Head(_) | HttpPart::Whole(..)) && course.on_their_way() == 0 {
            return Err("nobody asked for it".to_owned());
        }
        let whole = self.check.part(part)?;
        if whole {
            self.answers += 1;
            self.check.begin(self.answers * self.size as u64);
        }
        Ok(whole)
    }
}

/// Compares one answer after another with what it should be.
pub(super) struct Check {
    question: Arc<Question>,
    pattern: Pattern,
    size: usize,
    /// Where in the pattern the body began that was sent, and how many bytes of it have come back.
    from: u64,
    got: u64,
}

impl Check {
    pub(super) fn new(question: Arc<Question>, pattern: Pattern, size: usize) -> Self {
        Self { question, pattern, size, from: 0, got: 0 }
    }

    /// Another answer comes, to what was sent from this place of the pattern.
    pub(super) fn begin(&mut self, from: u64) {
        (self.from, self.got) = (from, 0);
    }

    /// Whether the answer is whole with this.
    pub(super) fn part(&mut self, part: ReplyPart) -> Result<bool, String> {
        match part {
            HttpPart::Whole(head, body) => {
                Self::head(&head)?;
                self.body(&body)?;
                head.recycle();
                self.end()
            }
            HttpPart::Head(head) => Self::head(&head).map(|()| false),
            HttpPart::Data(bytes) => self.body(&bytes).map(|()| false),
            HttpPart::End(_) => self.end(),
            HttpPart::File(_) | HttpPart::Interim(_) => Ok(false),
        }
    }

    fn head(head: &ReplyHead) -> Result<(), String> {
        match head.status.is_success() {
            true => Ok(()),
            false => Err(format!("its status is {}", head.status)),
        }
    }

    /// How long a body has to be.
    fn len(&self) -> u64 {
        match &self.question.expected {
            Expected::Same(body) => body.len() as u64,
            Expected::Echo => self.size as u64,
        }
    }

    fn body(&mut self, bytes: &[u8]) -> Result<(), String> {
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
            Expected::Echo => self.pattern.first_difference(self.from + from, bytes),
        };
        match different {
            None => Ok(()),
            Some((at, expected)) => {
                let (place, got) = (from + at as u64, bytes[at]);
                Err(format!("byte {place} is {got:#04x} instead of {expected:#04x}"))
            }
        }
    }

    fn end(&self) -> Result<bool, String> {
        match self.got {
            got if got < self.len() => Err(format!("it has {got} bytes instead of {}", self.len())),
            _ => Ok(true),
        }
    }
}

impl Talk for Questions {
    type Read = ReplyPart;
    type Write = RequestPart;
    const MISSING: &'static str = "answers";

    fn say(&mut self, _: &Course) -> RequestPart {
        self.question.ask(&mut self.supply, self.size)
    }

    fn judge(&mut self, course: &Course, part: ReplyPart) -> Result<usize, Problem> {
        let whole = self.check(course, part);
        whole.map(usize::from).map_err(|why| Problem::Answer { number: self.answers + 1, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::course::{Order, Outcome, Shared};
    use netwright::{EmbeddedChannel, http::HttpClient, pipeline};
    use std::{
        convert::Infallible,
        sync::{
            atomic::Ordering,
            mpsc::{Receiver, channel},
        },
    };

    type Client = EmbeddedChannel<Infallible, Order>;

    fn client(size: usize, depth: usize, expected: Expected) -> (Client, Arc<Shared>, Receiver<Outcome>) {
        let shared = Arc::new(Shared { size, depth, ..Shared::default() });
        let (outcome, outcomes) = channel();
        let host = HeaderValue::from_static("a");
        let question = Arc::new(Question { path: Uri::from_static("/x"), host, expected });
        let load = Questions::load(Course::new(shared.clone(), outcome), question);
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

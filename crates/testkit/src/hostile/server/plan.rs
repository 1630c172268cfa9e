//! What is done to a request, by the numbers of a seed.

use super::{content, wire::Request};
use crate::verify::Numbers;
use std::{fmt::Write, time::Duration};

/// No request is shorter: who wants to read less than one gets that.
const SHORTEST: usize = 50;

#[derive(Debug)]
pub(super) struct Plan {
    /// No more than so many bytes of the request are read before the connection is ended.
    pub(super) reads_only: Option<usize>,
    /// The reply goes out before the body is read.
    pub(super) early: bool,
    /// And the body is never read.
    pub(super) leaves_body: bool,
    /// And the body is not read before the client gives up.
    pub(super) stalls: bool,
    interim: usize,
    pub(super) answer: Answer,
    says_close: bool,
    /// Bytes of a piece at most; 0: all at once.
    pub(super) piece: usize,
    pub(super) then: Then,
}

/// How a request is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Fixed,
    Chunked,
    /// Until the end of the connection.
    Open,
    /// A status that has no body.
    Bodiless(u16),
    /// A switch to another protocol that nobody has asked for.
    Unasked,
    /// Fewer bytes than were announced, then the end.
    Short,
    /// More bytes than were announced.
    Long,
    /// Another reply right behind it.
    Glued,
    /// Any part of a reply, then the end.
    Cut,
    /// Nothing.
    Silence,
    /// Not HTTP.
    Garbage,
}

/// What becomes of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Keep,
    /// Ended in order, at once.
    Close,
    /// Ended in order, if nothing comes for so long.
    CloseIdle(Duration),
    Reset,
}

/// A reply as bytes.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) bytes: Vec<u8>,
    /// Whether it is one, and all of it.
    pub(super) is_right: bool,
    /// The connection ends with it.
    pub(super) ends: bool,
    /// Only that end says that there is no more of it.
    pub(super) needs_end: bool,
    /// Why the connection cannot be used again, if so.
    pub(super) spoils: Option<&'static str>,
}

impl Plan {
    pub(super) fn draw(numbers: &mut Numbers) -> Self {
        let mut one_in = |many: usize| numbers.below(many) == 0;
        let (cut, early, leaves_body, stalls) = (one_in(60), one_in(3), one_in(6), one_in(4));
        let (says_close, interim) = (one_in(8), one_in(6));
        let answer = match numbers.below(64) {
            0..=27 => Answer::Fixed,
            28..=45 => Answer::Chunked,
            46..=48 => Answer::Open,
            49..=50 => Answer::Bodiless(204),
            51 => Answer::Bodiless(304),
            52 => Answer::Unasked,
            53..=54 => Answer::Short,
            55..=56 => Answer::Long,
            57..=58 => Answer::Glued,
            59..=61 => Answer::Cut,
            62 => Answer::Garbage,
            _ => Answer::Silence, // or a short reply, of a server that talks
        };
        let then = match numbers.below(12) {
            0 => Then::Close,
            1..=2 => Then::CloseIdle(Duration::from_millis(1 + numbers.below(3) as u64)),
            3 if numbers.below(3) == 0 => Then::Reset,
            _ => Then::Keep,
        };
        let piece = match numbers.below(4) {
            // What comes behind a reply when the next request is on its way cannot be told from its reply by anybody.
            _ if matches!(answer, Answer::Long | Answer::Glued) => 0,
            0 => 1 + numbers.below(7),
            1 => 1 + numbers.below(2000),
            _ => 0,
        };
        Self {
            reads_only: cut.then(|| numbers.below(SHORTEST)),
            early,
            leaves_body,
            stalls,
            interim: if interim { 1 + numbers.below(3) } else { 0 },
            answer,
            says_close,
            piece,
            then,
        }
    }

    pub(super) fn reply(&self, request: &Request, numbers: &mut Numbers) -> Reply {
        let interim = ["100 Continue", "102 Processing", "103 Early Hints"];
        let mut bytes = String::new();
        for _ in 0..self.interim {
            let _ = write!(bytes, "HTTP/1.1 {}\r\n\r\n", interim[numbers.below(interim.len())]);
        }
        let mut bytes = bytes.into_bytes();
        if request.wants_upgrade && numbers.below(2) == 0 {
            let head = format!(
                "HTTP/1.1 101 Switching Protocols\r\nx-number: {}\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n",
                request.number
            );
            bytes.extend(head.bytes());
            let spoils = Some("behind a 101");
            return Reply { bytes, is_right: true, ends: false, needs_end: false, spoils };
        }
        // Short ones mostly, and in pieces never many of them.
        let len = match numbers.below(8) {
            0 => 0,
            _ if matches!(self.answer, Answer::Long | Answer::Glued) => 1 + numbers.below(300),
            1..=5 => 1 + numbers.below(300),
            _ if self.piece > 0 && self.piece < 100 => 1 + numbers.below(300),
            6 => 1 + numbers.below(20_000),
            _ => 1 + numbers.below(200_000),
        };
        let mut reply = self.one(request, len, numbers);
        bytes.append(&mut reply.bytes);
        Reply { bytes, ..reply }
    }

    fn one(&self, request: &Request, len: usize, numbers: &mut Numbers) -> Reply {
        let spoils = self.says_close.then_some("that the server had said to close");
        let ends = self.says_close;
        let right = |bytes| Reply { bytes, is_right: true, ends, needs_end: false, spoils };
        let wrong = |bytes, ends, why| {
            let spoils = Some(why);
            Reply { bytes, is_right: false, ends, needs_end: ends, spoils }
        };
        let fixed = || self.head(request, 200, Some(len), &content(request.number, len));
        match self.answer {
            Answer::Fixed => right(fixed()),
            Answer::Chunked => right(self.chunked(request, len, numbers)),
            // One to HEAD is over with its head, whatever that says of a length.
            Answer::Open if request.is_head => right(self.head(request, 200, None, &[])),
            Answer::Open => {
                let bytes = self.head(request, 200, None, &content(request.number, len));
                let spoils = Some("whose end was a reply's");
                Reply { bytes, is_right: true, ends: true, needs_end: true, spoils }
            }
            Answer::Bodiless(status) => right(self.head(request, status, None, &[])),
            Answer::Unasked if request.wants_upgrade => right(fixed()),
            Answer::Unasked => wrong(
                b"HTTP/1.1 101 Switching Protocols\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n".to_vec(),
                false,
                "behind a 101 that nobody had asked for",
            ),
            Answer::Short => {
                let bytes = self.head(request, 200, Some(len + 1), &content(request.number, len));
                match request.is_head {
                    true => right(bytes), // which has no body that could be short
                    false => wrong(bytes, true, "with a reply that was too short"),
                }
            }
            Answer::Long | Answer::Glued => {
                let mut bytes = fixed();
                bytes.extend_from_slice(match self.answer {
                    Answer::Long => b"and more",
                    _ => b"HTTP/1.1 200 OK\r\nx-number: 0\r\ncontent-length: 5\r\n\r\nwrong",
                });
                // The reply itself is there.
                let spoils = Some("with bytes behind its last reply");
                Reply { bytes, is_right: true, ends: false, needs_end: false, spoils }
            }
            Answer::Cut => {
                let mut bytes = match numbers.below(2) {
                    0 => fixed(),
                    _ => self.chunked(request, len, numbers),
                };
                bytes.truncate(numbers.below(if request.is_head { 20 } else { bytes.len() }));
                wrong(bytes, true, "with a reply that was cut")
            }
            Answer::Garbage => wrong(b"what?\r\n\r\n".to_vec(), false, "that had not spoken HTTP"),
            Answer::Silence => right(self.head(request, 200, Some(0), &[])),
        }
    }

    fn chunked(&self, request: &Request, len: usize, numbers: &mut Numbers) -> Vec<u8> {
        let (all, mut body) = (content(request.number, len), Vec::new());
        let mut left = &all[..];
        while !left.is_empty() {
            let (chunk, later) = left.split_at((1 + numbers.below(len)).min(left.len()));
            body.extend(format!("{:x}\r\n", chunk.len()).bytes());
            body.extend_from_slice(chunk);
            body.extend_from_slice(b"\r\n");
            left = later;
        }
        body.extend_from_slice(b"0\r\n\r\n");
        let said = "transfer-encoding: chunked\r\n";
        self.message(request, 200, &format!("x-length: {len}\r\n{said}"), &body)
    }

    fn head(&self, request: &Request, status: u16, len: Option<usize>, body: &[u8]) -> Vec<u8> {
        let mut fields = format!("x-length: {}\r\n", len.unwrap_or(body.len()));
        if let Some(len) = len {
            let _ = write!(fields, "content-length: {len}\r\n");
        }
        self.message(request, status, &fields, body)
    }

    fn message(&self, request: &Request, status: u16, fields: &str, body: &[u8]) -> Vec<u8> {
        let close = if self.says_close { "connection: close\r\n" } else { "" };
        let number = request.number;
        let head = format!("HTTP/1.1 {status} Some reason\r\nx-number: {number}\r\n{fields}{close}\r\n");
        let mut bytes = head.into_bytes();
        if !request.is_head {
            bytes.extend_from_slice(body);
        }
        bytes
    }
}

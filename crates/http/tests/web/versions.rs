//! A client in memory that asks the same by HTTP/1.1 and by HTTP/2, so that what applications and stages do is said once for both.
//!
//! ```text
//!   Site::of(version, build) ─▶ ask, or start … send … heard ─▶ Answer: status, headers, body, trailers
//! ```
//! Not here: anything that is about bytes.

use http::HeaderMap;
use netwright_core::{EmbeddedChannel, IntoPipeline};
use netwright_http::{HttpLimits, HttpVersions, ReplyPart, RequestPart};
use std::{collections::BTreeMap, convert::Infallible};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    pub(crate) const ALL: [Self; 2] = [Self::One, Self::Two];

    /// As it is written in a log.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::One => "HTTP/1.1",
            Self::Two => "HTTP/2.0",
        }
    }
}

/// What has come of a request so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    /// Of answers before the answer.
    pub(crate) interim: Vec<u16>,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: HeaderMap,
    /// It has come to its end.
    pub(crate) whole: bool,
    /// It was broken off.
    pub(crate) broken: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// A server, and a client with one connection to it.
pub(crate) struct Site {
    pub(crate) channel: EmbeddedChannel<(), Infallible>,
    version: Version,
    input: Vec<u8>,
    decoder: fluke_hpack::Decoder<'static>,
    next: u32,
    answers: BTreeMap<u32, Answer>,
    /// Of HTTP/1.1: the request that is answered now, and whether only its head is asked for.
    asked: Vec<(u32, bool)>,
    chunked: bool,
    head_has_come: bool,
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    [&[a, b, c, kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

impl Site {
    pub(crate) fn of<B, T>(version: Version, build: impl Fn() -> B + 'static) -> Self
    where
        B: IntoPipeline<T, RequestPart, ReplyPart, Written = ReplyPart> + 'static,
        T: 'static,
    {
        Self::with(version, HttpLimits::default(), build)
    }

    pub(crate) fn with<B, T>(version: Version, limits: HttpLimits, build: impl Fn() -> B + 'static) -> Self
    where
        B: IntoPipeline<T, RequestPart, ReplyPart, Written = ReplyPart> + 'static,
        T: 'static,
    {
        let server = HttpVersions::new(build).limits(limits).pipeline();
        let mut site = Self {
            channel: EmbeddedChannel::with_joint(server),
            version,
            input: Vec::new(),
            decoder: fluke_hpack::Decoder::new(),
            next: 1,
            answers: BTreeMap::new(),
            asked: Vec::new(),
            chunked: false,
            head_has_come: false,
        };
        if version == Version::Two {
            let window = frame(4, 0, 0, &[0, 4, 0x40, 0, 0, 0]);
            let all = [PREFACE, &window, &frame(4, 1, 0, &[]), &frame(8, 0, 0, &[0x40, 0, 0, 0])].concat();
            site.channel.write_inbound(all);
        }
        site
    }

    /// Begins a request. What it is called by in the other calls.
    pub(crate) fn start(&mut self, method: &str, target: &str, headers: &[(&str, &str)], end: bool) -> u32 {
        let stream = self.next;
        self.next += 2;
        self.answers.insert(stream, Answer::default());
        match self.version {
            Version::One => {
                let mut head = format!("{method} {target} HTTP/1.1\r\nHost: example\r\n");
                headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
                self.chunked = !end && headers.iter().all(|(name, _)| *name != "content-length");
                if self.chunked {
                    head.push_str("transfer-encoding: chunked\r\n");
                }
                self.asked.push((stream, method == "HEAD"));
                self.channel.write_inbound(head + "\r\n");
            }
            Version::Two => {
                let pseudo =
                    [(":method", method), (":scheme", "http"), (":path", target), (":authority", "example")];
                let fields =
                    pseudo.iter().chain(headers).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
                let block = fluke_hpack::Encoder::new().encode(fields);
                // A new encoder uses only what the block itself has put into the table.
                let mut pieces = block.chunks(16_384).enumerate().peekable();
                while let Some((number, piece)) = pieces.next() {
                    let last = if pieces.peek().is_none() { 4 } else { 0 };
                    let (kind, end) = if number == 0 { (1, u8::from(end)) } else { (9, 0) };
                    self.channel.write_inbound(frame(kind, last | end, stream, piece));
                }
            }
        }
        stream
    }

    /// More of its body.
    pub(crate) fn send(&mut self, request: u32, data: &[u8], end: bool) {
        match self.version {
            Version::One if self.chunked => {
                let mut bytes = Vec::new();
                if !data.is_empty() {
                    bytes.extend(format!("{:x}\r\n", data.len()).bytes());
                    bytes.extend([data, b"\r\n"].concat());
                }
                bytes.extend(if end { &b"0\r\n\r\n"[..] } else { b"" });
                self.channel.write_inbound(bytes);
            }
            Version::One => drop(self.channel.write_inbound(data)),
            Version::Two => drop(self.channel.write_inbound(frame(0, u8::from(end), request, data))),
        }
    }

    /// What has come of it.
    pub(crate) fn heard(&mut self, request: u32) -> Answer {
        self.input.extend(self.channel.outbound_bytes());
        match self.version {
            Version::One => while self.hear_one() {},
            Version::Two => while self.hear_two() {},
        }
        self.answers[&request].clone()
    }

    /// A request and its answer, whatever it takes but time.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[&[u8]],
    ) -> Answer {
        let request = self.start(method, target, headers, body.is_empty());
        for (number, piece) in body.iter().enumerate() {
            self.send(request, piece, number + 1 == body.len());
        }
        self.answer(request)
    }

    pub(crate) fn answer(&mut self, request: u32) -> Answer {
        loop {
            let answer = self.heard(request);
            if answer.whole || answer.broken {
                return answer;
            }
            // Files are opened by workers.
            self.channel.run();
            std::thread::yield_now();
        }
    }

    pub(crate) fn get(&mut self, target: &str) -> Answer {
        self.ask("GET", target, &[], &[])
    }

    // ---- HTTP/1.1 ----

    fn hear_one(&mut self) -> bool {
        let Some(&(request, only_head)) = self.asked.first() else { return false };
        let answer = self.answers.get_mut(&request).unwrap();
        if !self.head_has_come {
            let Some(len) = self.input.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
                return false;
            };
            let head = String::from_utf8(self.input.drain(..len + 4).collect()).unwrap();
            let status = head[9..12].parse().unwrap();
            if status < 200 {
                answer.interim.push(status);
                return true;
            }
            (answer.status, answer.headers) = (status, fields(&head[..len]));
            self.head_has_come = true;
        }
        let length =
            answer.headers.get("content-length").map(|length| length.to_str().unwrap().parse().unwrap());
        let length = if only_head || matches!(answer.status, 204 | 304) { Some(0) } else { length };
        match length {
            Some(length) => {
                let more: usize = self.input.len().min(length - answer.body.len());
                answer.body.extend(self.input.drain(..more));
                answer.whole = answer.body.len() == length;
            }
            None => {
                while let Some(line) = self.input.windows(2).position(|bytes| bytes == b"\r\n") {
                    let size =
                        usize::from_str_radix(std::str::from_utf8(&self.input[..line]).unwrap(), 16).unwrap();
                    if size == 0 {
                        let Some(end) = self.input[line..].windows(4).position(|bytes| bytes == b"\r\n\r\n")
                        else {
                            return false;
                        };
                        let trailers: Vec<u8> = self.input.drain(..line + end + 4).collect();
                        answer.trailers = fields(std::str::from_utf8(&trailers[..line + end]).unwrap());
                        answer.whole = true;
                        break;
                    }
                    if self.input.len() < line + 2 + size + 2 {
                        break;
                    }
                    answer.body.extend(&self.input[line + 2..line + 2 + size]);
                    self.input.drain(..line + 2 + size + 2);
                }
            }
        }
        if answer.whole {
            self.asked.remove(0);
            self.head_has_come = false;
        } else {
            answer.broken = !self.channel.is_open();
        }
        answer.whole
    }

    // ---- HTTP/2 ----

    fn hear_two(&mut self) -> bool {
        let Some(&[a, b, c, kind, flags, d, e, f, g]) = self.input.first_chunk() else { return false };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        if self.input.len() < 9 + len {
            return false;
        }
        let payload: Vec<u8> = self.input.drain(..9 + len).skip(9).collect();
        let Some(answer) = self.answers.get_mut(&u32::from_be_bytes([d, e, f, g])) else {
            assert_ne!(kind, 7, "the connection ends: {}", payload.escape_ascii());
            return true;
        };
        match kind {
            0 => answer.body.extend(payload),
            1 => {
                let fields = self.decoder.decode(&payload).unwrap();
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let mut headers = HeaderMap::new();
                let mut status = 0;
                for (name, value) in fields {
                    match &name[..] {
                        b":status" => status = text(&value).parse().unwrap(),
                        _ => drop(headers.append(
                            http::HeaderName::from_bytes(&name).unwrap(),
                            text(&value).parse().unwrap(),
                        )),
                    }
                }
                match status {
                    0 => answer.trailers = headers,
                    100..200 => answer.interim.push(status),
                    _ => (answer.status, answer.headers) = (status, headers),
                }
            }
            3 => answer.broken = !answer.whole,
            _ => {}
        }
        answer.whole |= kind <= 1 && flags & 1 != 0;
        true
    }
}

/// Lines behind the first one.
fn fields(text: &str) -> HeaderMap {
    let lines = text.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    lines.map(|(name, value)| (name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap())).collect()
}

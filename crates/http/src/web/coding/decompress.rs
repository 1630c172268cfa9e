//! Requests, unpacked.
//!
//! ```text
//!   Content-Encoding: gzip ──▶ Head without it, Data of at most 16 KiB each, pulled, End
//!                    unknown ─▶ 415 with Accept-Encoding, body thrown away
//!   too much, or for too little ─▶ 413, broken ─▶ 400: in its turn, then the connection ends
//! ```
//! Always true:
//! 1. What is unpacked is at most one piece ahead of whoever reads it: a bomb is never in memory.
//! 2. The application gets to see the beginning of a body that turns out to be bad, but never its end.

use super::format;
use crate::{
    HttpError, HttpPart, ReplyPart, RequestHead, RequestPart, RequestRefused,
    error::{Limit, Within},
    grammar::elements,
    web::{
        Coding, Reply,
        turns::{Turns, ends},
    },
};
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use netwright_codec::{DecompressError, DecompressLimits, Decompressor, State};
use netwright_core::{Context, Event, Handler, Place, WritePromise};
use std::collections::VecDeque;

/// What is unpacked at a time.
const PIECE: usize = 16 * 1024;

/// A stage that unpacks the bodies of requests, so that what lies behind it sees plain ones.
///
/// Without it, a request with `Content-Encoding` reaches the application as it came.
///
/// ```
/// use netwright_codec::DecompressLimits;
/// use netwright_http::web::RequestDecompression;
///
/// // for each connection: pipeline().add(HttpServer::new()).add(RequestDecompression::new()).…
/// let stage = RequestDecompression::new().limits(DecompressLimits::default().total(64 << 20).ratio(100));
/// # let _ = stage;
/// ```
#[derive(Debug)]
pub struct RequestDecompression {
    limits: DecompressLimits,
    /// For each request: whether its reply has begun.
    turns: Turns<bool>,
    /// Parts that have come and were not passed on.
    queue: VecDeque<RequestPart>,
    /// The request that is passed on is unpacked by this.
    decompressor: Option<Box<Decompressor>>,
    /// What of its present piece is left.
    input: Bytes,
    /// There may be more without further input.
    more: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Passing,
    /// The body of a request that was answered here.
    Skipping,
    /// A body was bad. Nothing is read any more; replies to requests before it may still be written.
    Over,
}

impl Default for RequestDecompression {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestDecompression {
    /// With the limits of [`DecompressLimits::default`], but for a total of 64 MiB.
    pub fn new() -> Self {
        Self {
            limits: DecompressLimits::default().total(64 << 20),
            turns: Turns::default(),
            queue: VecDeque::new(),
            decompressor: None,
            input: Bytes::new(),
            more: false,
            phase: Phase::Passing,
        }
    }

    /// Sets what is put up with, for each request.
    pub fn limits(mut self, limits: DecompressLimits) -> Self {
        self.limits = limits;
        self
    }

    /// A request begins. Gives its head to be passed on, unless it was answered.
    fn begin<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        mut head: RequestHead,
        body: Option<Bytes>,
    ) -> Option<RequestPart> {
        let coding = match coding_of(&head.headers) {
            Ok(coding) => coding,
            Err(name) => {
                if body.is_none() {
                    self.phase = Phase::Skipping;
                }
                self.turns.answer(cx, unsupported(&name));
                return None;
            }
        };
        self.turns.expect(false);
        let Some(format) = format(coding) else {
            return Some(match body {
                Some(body) => HttpPart::Whole(head, body),
                None => HttpPart::Head(head),
            });
        };
        head.headers.remove(header::CONTENT_ENCODING);
        head.headers.remove(header::CONTENT_LENGTH); // of what came, not of what comes out
        self.decompressor = Some(Box::new(Decompressor::new(format).limits(self.limits)));
        if let Some(body) = body {
            self.input = body;
            self.queue.push_front(HttpPart::End(None));
        }
        Some(HttpPart::Head(head))
    }

    /// The next piece; `None` if all input is used.
    fn unpack(&mut self) -> Result<Option<Bytes>, DecompressError> {
        let Some(decompressor) = &mut self.decompressor else { return Ok(None) };
        while self.more || !self.input.is_empty() {
            let mut out = BytesMut::new();
            let step = decompressor.decompress(&self.input, &mut out, PIECE)?;
            self.input.advance(step.taken);
            self.more = step.state == State::OutputFull;
            if !out.is_empty() {
                return Ok(Some(out.freeze()));
            }
        }
        Ok(None)
    }

    fn refuse<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, error: DecompressError) {
        self.phase = Phase::Over;
        self.decompressor = None;
        self.input = Bytes::new();
        self.queue.clear();
        let status = match error {
            DecompressError::Total { .. } | DecompressError::Ratio { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::BAD_REQUEST,
        };
        if self.turns.last().is_some_and(|begun| *begun) {
            return cx.fire_error(error); // too late to say anything
        }
        let mut reply = Reply::text(format!("{error}\n"));
        *reply.status_mut() = status;
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        self.turns.answer_last(cx, Reply::whole(reply));
        cx.fire_event(Event::new(RequestRefused(told(&error))));
    }
}

impl<P: Place> Handler<P> for RequestDecompression {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, _: &mut Context<'_, Self, P>, part: RequestPart) {
        if self.phase != Phase::Over {
            self.queue.push_back(part);
        }
    }

    fn pull(&mut self, cx: &mut Context<'_, Self, P>) -> Option<RequestPart> {
        loop {
            match self.unpack() {
                Ok(Some(piece)) => return Some(HttpPart::Data(piece)),
                Ok(None) => {}
                Err(error) => {
                    self.refuse(cx, error);
                    return None;
                }
            }
            let part = self.queue.pop_front()?;
            if self.phase == Phase::Skipping {
                if matches!(part, HttpPart::End(_)) {
                    self.phase = Phase::Passing;
                }
                continue;
            }
            match part {
                HttpPart::Head(head) => match self.begin(cx, head, None) {
                    None => {}
                    passed => return passed,
                },
                HttpPart::Whole(head, body) => match self.begin(cx, head, Some(body)) {
                    None => {}
                    passed => return passed,
                },
                HttpPart::Data(data) if self.decompressor.is_some() => self.input = data,
                HttpPart::End(trailers) => {
                    if let Some(decompressor) = self.decompressor.take()
                        && let Err(error) = decompressor.finish()
                    {
                        self.refuse(cx, error);
                        return None;
                    }
                    return Some(HttpPart::End(trailers));
                }
                other => return Some(other),
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self, P>, part: ReplyPart, done: WritePromise) {
        match self.turns.current() {
            Some(begun) => *begun |= !matches!(part, HttpPart::Interim(_)),
            None if self.phase == Phase::Over => return, // to a request that was refused meanwhile
            None => {}
        }
        let over = ends(&part);
        cx.write_with(part, done);
        if over {
            self.turns.done(cx);
        }
    }

    fn start_over(&mut self) -> bool {
        let limits = self.limits;
        *self = Self::new().limits(limits);
        true
    }
}

/// The same error as the stages behind know it from the codec: the body that they wait for will not come to its end.
fn told(error: &DecompressError) -> HttpError {
    let body = |max, got| HttpError::TooMuch { limit: Limit::Body, max, got };
    match *error {
        DecompressError::Total { limit, got, .. } => body(limit, got),
        DecompressError::Ratio { limit, output, input, .. } => body(limit.saturating_mul(input), output),
        _ => HttpError::Premature { within: Within::Body },
    }
}

/// The one coding that a body has; an error with what is there instead.
fn coding_of(headers: &HeaderMap) -> Result<Coding, String> {
    let mut coding = Coding::Identity;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        for name in elements(value.as_bytes()) {
            let known = std::str::from_utf8(name).ok().and_then(Coding::from_name);
            match known {
                Some(Coding::Identity) => {}
                Some(known) if coding == Coding::Identity => coding = known,
                // One upon the other makes bombs of bombs, and nobody sends that.
                _ => return Err(value.as_bytes().escape_ascii().take(64).map(char::from).collect()),
            }
        }
    }
    Ok(coding)
}

fn unsupported(coding: &str) -> ReplyPart {
    let mut reply =
        Reply::text(format!("content coding {coding:?} is not supported, or not together with another\n"));
    *reply.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
    reply.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("zstd, br, gzip"));
    Reply::whole(reply)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::testing::{HttpEmbedded, reply_head, request, shown};
    use netwright_codec::{Compressor, Flush};

    fn pack(coding: Coding, data: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        Compressor::new(format(coding).unwrap()).compress(data, Flush::Finish, &mut out, usize::MAX).unwrap();
        out.freeze()
    }

    fn post(coding: &str) -> RequestPart {
        request("POST", "/", &[("content-encoding", coding), ("content-length", "99")])
    }

    fn channel() -> HttpEmbedded {
        HttpEmbedded::new(|_| {
            RequestDecompression::new()
                .limits(DecompressLimits::default().total(100_000).ratio(50).grace(1000))
        })
    }

    /// What came behind the stage: heads and ends, and all data together.
    fn seen(channel: &mut HttpEmbedded) -> (Vec<String>, Vec<u8>) {
        let (mut heads, mut body) = (Vec::new(), Vec::new());
        while let Some(part) = channel.channel.read_inbound() {
            match part {
                HttpPart::Data(data) => {
                    assert!(!data.is_empty() && data.len() <= PIECE);
                    body.extend_from_slice(&data);
                }
                HttpPart::Head(ref head) => {
                    assert!(
                        !head.headers.contains_key("content-encoding")
                            && !head.headers.contains_key("content-length")
                    );
                    heads.push("Head".to_owned());
                }
                other => heads.push(crate::web::testing::shown_request(&other)),
            }
        }
        (heads, body)
    }

    fn answers(channel: &mut HttpEmbedded) -> Vec<String> {
        channel.replies().iter().map(shown).collect()
    }

    #[test]
    fn bodies_are_unpacked_however_they_are_cut() {
        let text: Vec<u8> = (0..4000u32).flat_map(|number| number.to_string().into_bytes()).collect();
        for coding in Coding::ALL {
            let packed = pack(coding, &text);
            for size in [1, 7, 100, packed.len()] {
                let mut channel = channel();
                channel.ask(post(coding.name()));
                packed.chunks(size).for_each(|piece| {
                    channel.ask(HttpPart::Data(Bytes::copy_from_slice(piece)));
                });
                channel.ask(HttpPart::End(None));
                assert_eq!(
                    seen(&mut channel),
                    (vec!["Head".into(), "End".into()], text.clone()),
                    "{coding:?} by {size}"
                );
            }
            let HttpPart::Head(head) = post("X-GZIP") else { panic!() };
            let mut channel = channel();
            channel.ask(HttpPart::Whole(head, pack(Coding::Gzip, b"short")));
            assert_eq!(seen(&mut channel), (vec!["Head".into(), "End".into()], b"short".to_vec()));
        }
    }

    #[test]
    fn plain_bodies_pass_as_they_are() {
        let mut channel = channel();
        let HttpPart::Head(head) =
            request("POST", "/", &[("content-encoding", "identity"), ("content-length", "2")])
        else {
            panic!()
        };
        channel.ask(HttpPart::Whole(head, "ab".into()));
        channel.ask(request("GET", "/", &[])).ask(HttpPart::Data("cd".into())).ask(HttpPart::End(None));
        assert_eq!(channel.requests(), ["Whole POST / ab", "Head GET /", "Data cd", "End"]);
    }

    #[test]
    fn unknown_codings_are_415_in_their_turn_and_the_next_request_is_fine() {
        for coding in ["deflate", "compress", "gzip, br", "gzip, gzip", "\u{e9}"] {
            let mut channel = channel();
            channel.ask(request("GET", "/first", &[])).ask(HttpPart::End(None));
            channel.ask(post(coding)).ask(HttpPart::Data("xx".into())).ask(HttpPart::End(None));
            channel.ask(request("GET", "/third", &[])).ask(HttpPart::End(None));
            assert_eq!(channel.requests(), ["Head GET /first", "End", "Head GET /third", "End"]);
            assert!(answers(&mut channel).is_empty());
            channel.reply(Reply::whole(Reply::text("1")));
            let replies = channel.replies();
            assert_eq!(shown(&replies[0]), "Whole 200 1");
            let HttpPart::Whole(head, _) = &replies[1] else { panic!() };
            assert_eq!(
                (head.status.as_u16(), &head.headers["accept-encoding"]),
                (415, &"zstd, br, gzip".parse().unwrap())
            );
            channel.reply(Reply::whole(Reply::text("3")));
            assert_eq!(answers(&mut channel), ["Whole 200 3"]);
        }
    }

    #[test]
    fn bombs_are_413_and_never_in_memory() {
        for coding in Coding::ALL {
            let bomb = pack(coding, &vec![0; 4_000_000]);
            let mut channel = channel();
            channel.ask(request("GET", "/before", &[])).ask(HttpPart::End(None));
            channel.ask(post(coding.name())).ask(HttpPart::Data(bomb)).ask(HttpPart::End(None));
            let (heads, body) = seen(&mut channel);
            assert!(body.len() <= 100_000, "{coding:?} gave {} bytes", body.len());
            assert_eq!(heads, ["Head", "End", "Head"], "the bad body has no end");
            channel.reply(Reply::whole(Reply::text("before")));
            let replies = channel.replies();
            assert_eq!((shown(&replies[0]).as_str(), replies.len()), ("Whole 200 before", 2));
            let HttpPart::Whole(head, text) = &replies[1] else { panic!() };
            assert_eq!((head.status.as_u16(), &head.headers["connection"]), (413, &"close".parse().unwrap()));
            assert!(std::str::from_utf8(text).unwrap().contains("the limit is"), "{text:?}");
            // The application does not know yet, and answers; nothing is read any more.
            channel.reply(Reply::whole(Reply::text("late")));
            channel.ask(request("GET", "/after", &[]));
            assert!(answers(&mut channel).is_empty() && channel.requests().is_empty());
        }
    }

    #[test]
    fn broken_truncated_and_trailing_bodies_are_400() {
        let whole = pack(Coding::Gzip, b"some text that is long enough to be cut");
        for (body, what) in [
            (Bytes::from_static(b"no gzip at all"), "broken"),
            (whole.slice(..whole.len() - 3), "ended in the middle"),
            (Bytes::from([&whole[..], b"junk"].concat()), "gzip"),
        ] {
            let mut channel = channel();
            channel.ask(post("gzip")).ask(HttpPart::Data(body)).ask(HttpPart::End(None));
            let replies = channel.replies();
            let [HttpPart::Whole(head, text)] = replies.as_slice() else { panic!("{what}: {replies:?}") };
            assert_eq!(head.status, 400);
            assert!(std::str::from_utf8(text).unwrap().contains(what), "{text:?}");
        }
        // No body at all is none that is missing.
        let mut channel = channel();
        channel.ask(post("gzip")).ask(HttpPart::End(None));
        assert_eq!(seen(&mut channel).0, ["Head", "End"]);
    }

    #[test]
    fn a_bad_body_whose_reply_has_begun_ends_the_connection() {
        let mut channel = channel();
        channel.ask(post("gzip"));
        channel.reply(HttpPart::Head(reply_head(200, &[])));
        channel.ask(HttpPart::Data("nonsense".into()));
        assert!(!channel.channel.is_open());
        assert_eq!(answers(&mut channel), ["Head 200"]);
    }

    #[test]
    fn a_pause_stops_unpacking() {
        let packed = pack(Coding::Gzip, &vec![b'a'; 90_000]);
        let mut channel = HttpEmbedded::new(|_| RequestDecompression::new());
        channel.ask(post("gzip"));
        channel.channel.channel().pause();
        channel.channel.run();
        channel.ask(HttpPart::Data(packed)).ask(HttpPart::End(None));
        let before = std::iter::from_fn(|| channel.channel.read_inbound()).count();
        assert_eq!(before, 1, "the head, which came before the pause");
        channel.channel.channel().resume();
        channel.channel.run();
        let (heads, body) = seen(&mut channel);
        assert_eq!((heads, body.len()), (vec!["End".to_owned()], 90_000));
    }
}

//! Attacks on everything between bytes and heads. Whatever is taken for a request has to be the same request when it is passed on
//! as HTTP/1.1.

use super::RequestReader;
use crate::{
    codec::{
        h1::read_request,
        h2::{
            frame::{Frame, FrameDecoder},
            hpack::Decoder,
        },
        input::Input,
    },
    limits::HttpLimits,
    message::{HttpPart, RequestHead},
};
use bytes::BytesMut;
use http::Method;
use netwright_core::{Context, Handler, Outgoing, WritePromise};
use netwright_testkit::{fuzz_decoder, verify_decoder};

fn limits() -> HttpLimits {
    HttpLimits { head: 400, headers: 8, target: 60, body: 1000, ..HttpLimits::default() }
}

/// Requests of frames, as text.
#[derive(Default)]
struct Heads {
    input: Input,
    frames: FrameDecoder,
    block: BytesMut,
    decoder: Decoder,
    reader: RequestReader,
    failed: bool,
}

impl Heads {
    /// What a frame leads to; `None` for those that have no fields.
    fn take(&mut self, frame: Frame) -> Option<String> {
        let (Frame::Headers { block, end_headers, .. } | Frame::Continuation { block, end_headers, .. }) =
            frame
        else {
            return None;
        };
        self.block.extend_from_slice(&block);
        if !end_headers {
            return None;
        }
        let block = std::mem::take(&mut self.block);
        Some(match self.reader.read(&mut self.decoder, &block, &limits(), true) {
            Err(error) => {
                self.failed = true;
                format!("the connection ends: {error}")
            }
            Ok(Err(error)) => format!("the stream ends: {error}"),
            Ok(Ok(request)) => {
                let text = format!("{} {} {:?}", request.head.method, request.head.uri, request.head.headers);
                passes_as_http1(&request.head, request.facts.content_length);
                request.head.recycle();
                text
            }
        })
    }
}

fn passes_as_http1(head: &RequestHead, length: Option<u64>) {
    let mut bytes = format!("{} {} HTTP/1.1\r\n", head.method, head.uri).into_bytes();
    if head.method == Method::CONNECT && head.uri.authority().is_none() {
        return; // an extended one has no like
    }
    for (name, value) in &head.headers {
        bytes.extend_from_slice(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.resize(bytes.len() + usize::try_from(length.unwrap_or(0)).unwrap(), b'x');
    let mut limits = limits();
    (limits.head, limits.headers) = (4000, 100);
    let shown = bytes.escape_ascii().to_string();
    let mut input = BytesMut::from(&bytes[..]);
    let Ok(Some(HttpPart::Whole(same, body))) = read_request(&mut input, &limits) else {
        panic!("not one request: {shown}");
    };
    assert_eq!((&same.method, &same.uri, &same.headers), (&head.method, &head.uri, &head.headers), "{shown}");
    assert_eq!((body.len() as u64, input.len()), (length.unwrap_or(0), 0), "{shown}");
}

impl Handler for Heads {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        self.input.feed(bytes);
        while !self.failed {
            match self.frames.next(&mut self.input.bytes, 256) {
                Ok(Some(frame)) => {
                    if let Some(text) = self.take(frame) {
                        cx.fire_read(text);
                    }
                }
                Ok(None) => break,
                Err(error) => self.failed = error.stream.is_none(),
            }
        }
        self.input.put_aside();
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

#[test]
fn how_requests_are_cut_does_not_show() {
    verify_decoder!(Heads::default();
        b"\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x87\x84\x41\x01a" => [Ok("GET / {\"host\": \"a\"}")],
        b"\x00\x00\x04\x01\x04\x00\x00\x00\x03\x82\x87\x84\xbe" => [Ok("GET / {\"host\": \"a\"}")],
        b"\x00\x00\x04\x01\x04\x00\x00\x00\x05\x82\x87\x84\xbe" => [Ok("GET / {\"host\": \"a\"}")],
        b"\x00\x00\x02\x01\x00\x00\x00\x00\x07\x82\x87\x00\x00\x04\x09\x04\x00\x00\x00\x07\x04\x02/x" => [],
        b"" => [Ok("the stream ends: bad HTTP: no Host")],
        b"\x00\x00\x01\x01\x05\x00\x00\x00\x09\xbf" => [Ok("the connection ends: a field refers to one that is in no table")],
    );
}

#[test]
fn whatever_is_taken_for_a_request_is_the_same_as_http1() {
    fuzz_decoder!("h2_heads", Heads::default());
}

//! Attacks on the decoders: how a stream is split must not show. The corpus is in `corpus/`; how to attack for longer is in
//! `netwright_testkit::verify::Fuzz`.

use bytes::{Bytes, BytesMut};
use http::Request;
use netwright_core::{Context, Handler, Outgoing, WritePromise};
use netwright_http::{HttpClient, HttpLimits, HttpPart, HttpServer, ReplyPart, RequestPart};
use netwright_testkit::fuzz_decoder;

fn limits() -> HttpLimits {
    let mut limits = HttpLimits::default();
    (limits.head, limits.headers, limits.target, limits.body) = (200, 6, 60, 200);
    (limits.chunk_line, limits.trailers, limits.whole) = (20, 60, 16);
    limits
}

/// What does not depend on how a stream is split: heads, single bytes of bodies, ends.
fn told<H: std::fmt::Debug>(part: HttpPart<H>, headers: impl Fn(&H) -> String, mut tell: impl FnMut(String)) {
    match part {
        HttpPart::Head(head) => tell(headers(&head)),
        HttpPart::Interim(head) => tell(format!("interim {}", headers(&head))),
        HttpPart::Data(bytes) => bytes.iter().for_each(|byte| tell(format!("{byte}"))),
        HttpPart::End(trailers) => tell(format!("end {trailers:?}")),
        HttpPart::Whole(head, body) => {
            tell(headers(&head));
            body.iter().for_each(|byte| tell(format!("{byte}")));
            tell("end None".to_owned());
        }
        HttpPart::File(_) => unreachable!("never read"),
    }
}

struct Requests;

impl Handler for Requests {
    type Read = RequestPart;
    type ReadOut = String;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;
    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        told(
            part,
            |head| format!("{} {} {:?}", head.method, head.uri, head.headers),
            |text| cx.fire_read(text),
        );
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        cx.write_with(part, done);
    }
}

/// Asks for something before anything comes.
struct Replies;

impl Handler for Replies {
    type Read = ReplyPart;
    type ReadOut = String;
    type Write = RequestPart;
    type WriteOut = RequestPart;
    fn active(&mut self, cx: &mut Context<'_, Self>) {
        for method in ["GET", "HEAD", "GET", "GET", "CONNECT"] {
            let uri = if method == "CONNECT" { "a:1" } else { "http://a/" };
            let request = Request::builder().method(method).uri(uri).header("upgrade", "x").body(()).unwrap();
            cx.write(HttpPart::Whole(request.into(), Bytes::new()));
        }
        cx.flush();
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart) {
        told(part, |head| format!("{} {:?}", head.status, head.headers), |text| cx.fire_read(text));
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, part: RequestPart, done: WritePromise) {
        cx.write_with(part, done);
    }
}

/// Puts the head of a request before everything, so that what comes is its body.
struct Headed;

impl Handler for Headed {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.fire_active();
        cx.fire_read(BytesMut::from("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"));
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

#[test]
fn requests() {
    fuzz_decoder!("requests", HttpServer::with(limits()), Requests);
}

#[test]
fn chunks() {
    fuzz_decoder!("chunks", Headed, HttpServer::with(limits()), Requests);
}

#[test]
fn replies() {
    fuzz_decoder!("replies", HttpClient::with(limits()), Replies);
}

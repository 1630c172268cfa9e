//! The server's codec, driven by hand.

mod deadlines;
mod encode;
mod keep_alive;
mod refusals;
mod requests;
mod time;

use bytes::Bytes;
use http::{Response, StatusCode};
use netwright_core::{EmbeddedChannel, pipeline};
use netwright_http::{HttpLimits, HttpPart, HttpServer, ReplyHead, ReplyPart, RequestPart};

type Embedded = EmbeddedChannel<RequestPart, ReplyPart>;

fn server() -> Embedded {
    EmbeddedChannel::new(pipeline().add(HttpServer::new()))
}

fn server_with(change: impl FnOnce(&mut HttpLimits)) -> Embedded {
    let mut limits = HttpLimits::default();
    change(&mut limits);
    EmbeddedChannel::new(pipeline().add(HttpServer::with(limits)))
}

/// A part in a few words.
fn told(part: &RequestPart) -> String {
    match part {
        HttpPart::Head(head) => format!("head {} {}", head.method, head.uri),
        HttpPart::Whole(head, body) => {
            format!("whole {} {} [{}]", head.method, head.uri, body.escape_ascii())
        }
        HttpPart::Data(bytes) => format!("data [{}]", bytes.escape_ascii()),
        HttpPart::End(None) => "end".to_owned(),
        HttpPart::End(Some(trailers)) => format!("end with {} trailers", trailers.len()),
        HttpPart::File(_) | HttpPart::Interim(_) => unreachable!("never read"),
    }
}

fn parts(channel: &mut Embedded) -> Vec<String> {
    std::iter::from_fn(|| channel.read_inbound()).map(|part| told(&part)).collect()
}

fn reply(status: u16) -> ReplyHead {
    let mut head = ReplyHead::from(StatusCode::from_u16(status).unwrap());
    head.headers.insert("date", "D".parse().unwrap()); // so that it can be compared
    head
}

fn reply_with(status: u16, headers: &[(&'static str, &'static str)]) -> ReplyHead {
    let mut head = reply(status);
    for &(name, value) in headers {
        head.headers.append(name, value.parse().unwrap());
    }
    head
}

fn hello() -> ReplyPart {
    HttpPart::Whole(reply(200), Bytes::from_static(b"hello"))
}

/// What was sent, without the line ends.
fn sent(channel: &mut Embedded) -> String {
    String::from_utf8(channel.outbound_bytes()).unwrap().replace("\r\n", "|")
}

const HELLO: &str = "HTTP/1.1 200 OK|date: D|content-length: 5||hello";
const HELLO_CLOSE: &str = "HTTP/1.1 200 OK|date: D|content-length: 5|connection: close||hello";
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

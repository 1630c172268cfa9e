//! A peer that says frames as bytes.

use bytes::Bytes;
use http::Response;
use netwright_core::{EmbeddedChannel, IntoPipeline, pipeline};
use netwright_http::{HttpLimits, Received, ReplyPart, RequestPart, http2::http2_server, respond};
use std::{convert::Infallible, time::Duration};

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RESET: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const ACK: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;
pub(crate) const PADDED: u8 = 8;
pub(crate) const WITH_PRIORITY: u8 = 0x20;
/// Of a head that is whole and has no body.
pub(crate) const ALL: u8 = END_STREAM | END_HEADERS;

pub(crate) const NO_ERROR: u32 = 0;
pub(crate) const PROTOCOL_ERROR: u32 = 1;
pub(crate) const FLOW_CONTROL_ERROR: u32 = 3;
pub(crate) const SETTINGS_TIMEOUT: u32 = 4;
pub(crate) const REFUSED_STREAM: u32 = 7;
pub(crate) const CANCEL: u32 = 8;
pub(crate) const COMPRESSION_ERROR: u32 = 9;
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

pub(crate) type Channel = EmbeddedChannel<(), Infallible>;

/// Any frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

pub(crate) fn window(stream: u32, by: u32) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

pub(crate) fn reset(stream: u32) -> Vec<u8> {
    frame(RESET, 0, stream, &CANCEL.to_be_bytes())
}

/// A field that goes into no table.
pub(crate) fn field(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name.as_bytes(), value] {
        if text.len() < 127 {
            bytes.push(text.len() as u8);
        } else {
            bytes.push(127);
            let mut rest = text.len() - 127;
            while rest >= 128 {
                bytes.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            bytes.push(rest as u8);
        }
        bytes.extend(text);
    }
    bytes
}

/// The fields of a request.
pub(crate) fn fields(method: &str, path: &str) -> Vec<u8> {
    [
        field(":method", method.as_bytes()),
        vec![0x86],
        field(":path", path.as_bytes()),
        field(":authority", b"example"),
    ]
    .concat()
}

pub(crate) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, ALL, stream, &fields("GET", path))
}

/// A request whose body is to come.
pub(crate) fn post(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &fields("POST", path))
}

pub(crate) fn greeting() -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, &[]), &frame(SETTINGS, ACK, 0, &[])].concat()
}

/// A frame that was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heard {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Heard {
    fn code(&self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(*self.payload.get(at..)?.first_chunk()?))
    }
}

/// The frames in these bytes, which end with one.
pub(crate) fn heard(mut bytes: &[u8]) -> Vec<Heard> {
    let mut frames = Vec::new();
    while let Some((&[a, b, c, kind, flags, d, e, f, g], rest)) = bytes.split_first_chunk() {
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        let (payload, rest) = rest.split_at(len);
        frames.push(Heard {
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]),
            payload: payload.to_vec(),
        });
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a frame: {bytes:?}");
    frames
}

/// A server, and what it has said.
pub(crate) struct Peer {
    pub(crate) channel: Channel,
    pub(crate) heard: Vec<Heard>,
}

/// A server whose application says the method, the path and the length of the body.
pub(crate) fn server(limits: HttpLimits) -> Channel {
    let app = |request: &Received| {
        let path = request.uri().path();
        match path.strip_prefix("/bytes/").and_then(|len| len.parse().ok()) {
            Some(len) => Response::new(Bytes::from(vec![b'x'; len])),
            None => {
                let text = format!("{} {} {}", request.method(), request.uri(), request.body().len());
                Response::new(Bytes::from(text))
            }
        }
    };
    EmbeddedChannel::of(
        pipeline().last(http2_server(move || pipeline().app(respond(app))).date(false).limits(limits)),
    )
}

impl Peer {
    pub(crate) fn new(channel: Channel) -> Self {
        let mut peer = Self { channel, heard: Vec::new() };
        peer.say(greeting());
        peer.listen();
        peer
    }

    pub(crate) fn with(limits: HttpLimits) -> Self {
        Self::new(server(limits))
    }

    /// A server whose streams are made by `build`.
    pub(crate) fn serving<B, T>(limits: HttpLimits, build: impl FnMut() -> B + 'static) -> Self
    where
        B: IntoPipeline<T, RequestPart, ReplyPart, Written = ReplyPart> + 'static,
        T: 'static,
    {
        Self::new(EmbeddedChannel::of(pipeline().last(http2_server(build).date(false).limits(limits))))
    }

    /// A server whose streams do nothing.
    pub(crate) fn idle(limits: HttpLimits) -> Self {
        Self::serving(limits, || pipeline().app(Silent))
    }

    pub(crate) fn say(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        // As a socket has it: in pieces that fit a buffer.
        for piece in bytes.as_ref().chunks(64 * 1024) {
            self.channel.write_inbound(piece);
        }
        self
    }

    /// What was said since the last time.
    pub(crate) fn listen(&mut self) -> Vec<Heard> {
        let heard = heard(&self.channel.outbound_bytes());
        self.heard.extend(heard.iter().cloned());
        heard
    }

    pub(crate) fn advance(&mut self, by: Duration) -> &mut Self {
        self.channel.advance(by);
        self.listen();
        self
    }

    /// The code of the GOAWAY by which the connection has ended.
    pub(crate) fn goodbye(&mut self) -> Option<u32> {
        self.listen();
        self.heard.iter().rfind(|heard| heard.kind == GOAWAY)?.code(4)
    }

    /// The code by which a stream was reset.
    pub(crate) fn reset_of(&mut self, stream: u32) -> Option<u32> {
        self.listen();
        self.heard.iter().find(|heard| heard.kind == RESET && heard.stream == stream)?.code(0)
    }

    /// The body of a stream.
    pub(crate) fn body(&mut self, stream: u32) -> Vec<u8> {
        self.listen();
        let data = self.heard.iter().filter(|heard| heard.kind == DATA && heard.stream == stream);
        data.flat_map(|heard| heard.payload.clone()).collect()
    }

    /// Whether a stream was answered with a head.
    pub(crate) fn is_answered(&mut self, stream: u32) -> bool {
        self.listen();
        self.heard.iter().any(|heard| heard.kind == HEADERS && heard.stream == stream)
    }

    /// Whether a request is answered as it should be, on this stream.
    pub(crate) fn serves(&mut self, stream: u32) -> bool {
        self.say(get(stream, "/bytes/7"));
        self.body(stream) == b"xxxxxxx"
    }

    pub(crate) fn forget(&mut self) {
        self.listen();
        self.heard = Vec::new();
    }
}

/// An application that reads all and says nothing.
pub(crate) struct Silent;

impl netwright_core::Application for Silent {
    type Read = RequestPart;
    type Write = ReplyPart;
    fn read(&mut self, _: &mut netwright_core::AppContext<'_, Self>, _: RequestPart) {}
}

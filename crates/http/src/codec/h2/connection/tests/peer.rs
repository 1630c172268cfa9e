//! A peer that says what a test has it say, frame by frame.

use crate::codec::h2::{
    code::ErrorCode,
    field::{Line, Pseudo},
    frame::{Frame, FrameDecoder, PREFACE, Settings, encode},
    hpack::{Decoder, Encoder, HeadLimits},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderName, HeaderValue};
use netwright_core::EmbeddedChannel;

/// A client that talks to a server in memory.
pub(super) struct Peer<W: 'static> {
    pub(super) channel: EmbeddedChannel<(), W>,
    out: BytesMut,
    input: BytesMut,
    frames: FrameDecoder,
    encoder: Encoder,
    decoder: Decoder,
    /// The block that is being received.
    block: BytesMut,
}

/// What a test looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    Head { stream: u32, fields: Vec<(String, String)>, end: bool },
    Data { stream: u32, data: Bytes, end: bool },
    Reset { stream: u32, code: ErrorCode },
    GoAway { last: u32, code: ErrorCode, why: String },
    Ping { ack: bool, data: [u8; 8] },
    Settings(Settings),
    SettingsAck,
    WindowUpdate { stream: u32, by: u32 },
    Other(Frame),
}

impl Heard {
    /// Which stream it is of.
    pub(super) fn stream(&self) -> u32 {
        match *self {
            Self::Head { stream, .. }
            | Self::Data { stream, .. }
            | Self::Reset { stream, .. }
            | Self::WindowUpdate { stream, .. } => stream,
            _ => 0,
        }
    }

    /// Why a connection ends.
    pub(super) fn goodbye(&self) -> Option<ErrorCode> {
        match self {
            Self::GoAway { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// The status of a reply.
    pub(super) fn status(&self) -> Option<&str> {
        match self {
            Self::Head { fields, .. } => {
                fields.iter().find(|(name, _)| name == ":status").map(|(_, value)| value.as_str())
            }
            _ => None,
        }
    }
}

impl<W: 'static> Peer<W> {
    /// One that has said nothing.
    pub(super) fn silent(channel: EmbeddedChannel<(), W>) -> Self {
        Self {
            channel,
            out: BytesMut::new(),
            input: BytesMut::new(),
            frames: FrameDecoder::default(),
            encoder: Encoder::default(),
            decoder: Decoder::default(),
            block: BytesMut::new(),
        }
    }

    /// One that has said what clients say first, and has heard what servers do.
    pub(super) fn greeted(channel: EmbeddedChannel<(), W>) -> Self {
        let mut peer = Self::silent(channel);
        peer.raw(PREFACE).settings(&Settings::default()).settings_ack().send();
        peer.hear();
        peer
    }

    /// Sends all that was said since the last time.
    pub(super) fn send(&mut self) -> &mut Self {
        let bytes = self.out.split();
        self.channel.write_inbound(&bytes);
        self
    }

    /// Sends it byte by byte.
    pub(super) fn drip(&mut self) -> &mut Self {
        for byte in self.out.split() {
            self.channel.write_inbound([byte]);
        }
        self
    }

    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }

    pub(super) fn settings(&mut self, settings: &Settings) -> &mut Self {
        encode::settings(&mut self.out, settings);
        self
    }

    pub(super) fn settings_ack(&mut self) -> &mut Self {
        encode::settings_ack(&mut self.out);
        self
    }

    pub(super) fn ping(&mut self, ack: bool, data: [u8; 8]) -> &mut Self {
        encode::ping(&mut self.out, ack, data);
        self
    }

    pub(super) fn reset(&mut self, stream: u32, code: ErrorCode) -> &mut Self {
        encode::reset(&mut self.out, stream, code);
        self
    }

    pub(super) fn window_update(&mut self, stream: u32, by: u32) -> &mut Self {
        encode::window_update(&mut self.out, stream, by);
        self
    }

    /// Any frame.
    pub(super) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> &mut Self {
        let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
        self.raw(&[a, b, c, kind, flags]).raw(&stream.to_be_bytes()).raw(payload)
    }

    pub(super) fn data(&mut self, stream: u32, data: &[u8], end: bool) -> &mut Self {
        encode::data_head(&mut self.out, stream, data.len(), end);
        self.raw(data)
    }

    /// A head of these fields.
    pub(super) fn head(&mut self, stream: u32, fields: &[(&str, &str)], end: bool) -> &mut Self {
        let encoder = &mut self.encoder;
        encode::headers(&mut self.out, stream, end, 16384, |block| {
            encoder.begin(block);
            for (name, value) in fields {
                match Pseudo::of(name.as_bytes()) {
                    Some(pseudo) => encoder.pseudo(block, pseudo, value.as_bytes()),
                    None => encoder.header(
                        block,
                        &HeaderName::from_bytes(name.as_bytes()).unwrap(),
                        &HeaderValue::from_bytes(value.as_bytes()).unwrap(),
                    ),
                }
            }
            Ok::<(), ()>(())
        })
        .unwrap();
        self
    }

    /// A request for this path, without a body.
    pub(super) fn get(&mut self, stream: u32, path: &str) -> &mut Self {
        self.request(stream, "GET", path, &[], true)
    }

    pub(super) fn request(
        &mut self,
        stream: u32,
        method: &str,
        path: &str,
        more: &[(&str, &str)],
        end: bool,
    ) -> &mut Self {
        let mut fields =
            vec![(":method", method), (":scheme", "http"), (":path", path), (":authority", "example")];
        fields.extend_from_slice(more);
        self.head(stream, &fields, end)
    }

    /// All that the server has said since the last time.
    pub(super) fn hear(&mut self) -> Vec<Heard> {
        let bytes = self.channel.outbound_bytes();
        self.input.extend_from_slice(&bytes);
        let mut heard = Vec::new();
        while let Some(frame) = self.frames.next(&mut self.input, 1 << 24).unwrap() {
            heard.extend(self.understand(frame));
        }
        assert!(self.input.is_empty(), "half a frame was sent: {:?}", self.input);
        heard
    }

    fn understand(&mut self, frame: Frame) -> Option<Heard> {
        Some(match frame {
            Frame::Headers { stream, block, end_headers, end_stream: end } => {
                assert!(end_headers, "replies of tests have short heads");
                Heard::Head { stream, fields: self.fields(&block), end }
            }
            Frame::Data { stream, data, end, .. } => Heard::Data { stream, data, end },
            Frame::Reset { stream, code } => Heard::Reset { stream, code },
            Frame::GoAway { last, code, debug } => {
                Heard::GoAway { last, code, why: String::from_utf8_lossy(&debug).into_owned() }
            }
            Frame::Ping { ack, data } => Heard::Ping { ack, data },
            Frame::Settings(settings) => Heard::Settings(settings),
            Frame::SettingsAck => Heard::SettingsAck,
            Frame::WindowUpdate { stream, by } => Heard::WindowUpdate { stream, by },
            other => Heard::Other(other),
        })
    }

    fn fields(&mut self, block: &[u8]) -> Vec<(String, String)> {
        self.block.clear();
        let mut fields = Vec::new();
        let limits = HeadLimits { size: 1 << 20, fields: 1000 };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.decoder
            .decode(block, limits, |field| match &field.line {
                Line::Header(name, value) => fields.push((name.to_string(), text(value.as_bytes()))),
                Line::Pseudo(pseudo, value) => fields.push((pseudo.name().to_owned(), text(value))),
                Line::BadName | Line::BadValue(_) => panic!("a field that is none"),
            })
            .unwrap();
        fields
    }
}

impl<W: 'static> Peer<W> {
    /// A server that has said what servers say first, and has heard what clients do.
    pub(super) fn serving(channel: EmbeddedChannel<(), W>, settings: &Settings) -> Self {
        let mut peer = Self::silent(channel);
        peer.settings(settings).settings_ack().send();
        let bytes = peer.channel.outbound_bytes();
        let rest = bytes.strip_prefix(PREFACE).expect("a client begins with its preface");
        peer.input.extend_from_slice(rest);
        let heard = peer.hear();
        assert!(matches!(heard[..], [Heard::Settings(_), Heard::WindowUpdate { .. }, Heard::SettingsAck]));
        peer
    }

    /// The head of a reply.
    pub(super) fn reply(&mut self, stream: u32, status: &str, more: &[(&str, &str)], end: bool) -> &mut Self {
        let mut fields = vec![(":status", status)];
        fields.extend_from_slice(more);
        self.head(stream, &fields, end)
    }

    pub(super) fn goaway(&mut self, last: u32, code: ErrorCode, why: &str) -> &mut Self {
        encode::go_away(&mut self.out, last, code, why.as_bytes());
        self
    }
}

//! Every compressed format: there and back however the bytes come, ends, limits, flushes, demand, damage.

#![cfg(feature = "_compress")]

mod damage;
mod ends;
mod fuzz;
mod limits;
mod on_workers;
mod pieces;
mod seeds;
mod writing;

use bytes::{Bytes, BytesMut};
use netwright_codec::{Compression, Compressor, Decompressor, Flush, Format, State};
use netwright_core::{AppContext, Application, CloseCause, EmbeddedChannel, Fault, pipeline};
use netwright_testkit::verify::Numbers;
use std::{cell::RefCell, convert::Infallible, rc::Rc};

/// What a stage with default settings is made of.
fn both_ways(format: Format) -> Compression {
    Compression::new(Decompressor::new(format), Compressor::new(format))
}

/// Messages, each flushed, then the end.
fn packed(format: Format, messages: &[&[u8]]) -> Vec<u8> {
    let mut compressor = Compressor::new(format);
    let mut out = BytesMut::new();
    for message in messages {
        let step = compressor.compress(message, Flush::Sync, &mut out, usize::MAX).unwrap();
        assert_eq!((step.taken, step.state), (message.len(), State::NeedInput), "{format}");
    }
    let step = compressor.compress(&[], Flush::Finish, &mut out, usize::MAX).unwrap();
    assert_eq!(step.state, State::Done, "{format}");
    out.to_vec()
}

/// Bytes that look like something and can be compressed by half or so.
fn text(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&str; 8] =
        ["channel ", "loop ", "pipeline, ", "handler.\n", "42 ", "byte ", "wire ", "time "];
    let mut numbers = Numbers::new(seed);
    let mut text = Vec::with_capacity(len + 16);
    while text.len() < len {
        match numbers.below(9) {
            8 => text.extend(numbers.next_u64().to_le_bytes()),
            word => text.extend(WORDS[word].as_bytes()),
        }
    }
    text.truncate(len);
    text
}

/// What came out of a decompressing stage.
#[derive(Default)]
struct Came {
    bytes: Vec<u8>,
    pieces: usize,
    longest: usize,
    errors: Vec<String>,
    faults: Vec<Fault>,
    input_closed: bool,
}

struct Notes(Rc<RefCell<Came>>);

impl Application for Notes {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, piece: BytesMut) {
        let mut came = self.0.borrow_mut();
        assert!(!piece.is_empty(), "nothing is no piece");
        came.bytes.extend_from_slice(&piece);
        came.pieces += 1;
        came.longest = came.longest.max(piece.len());
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.0.borrow_mut().input_closed = true;
    }
    fn error(&mut self, _: &mut AppContext<'_, Self>, fault: Fault) {
        let mut came = self.0.borrow_mut();
        came.errors.push(fault.to_string());
        came.faults.push(fault);
    }
}

type Channel = EmbeddedChannel<Infallible, Bytes>;

/// A channel with this stage, and what comes out of it.
fn channel(stage: Compression) -> (Channel, Rc<RefCell<Came>>) {
    let came = Rc::new(RefCell::new(Came::default()));
    (EmbeddedChannel::new(pipeline().add(stage).app(Notes(came.clone()))), came)
}

/// What comes of these pieces, with the peer closing behind them.
#[track_caller]
fn unpacked<'a>(stage: Compression, pieces: impl IntoIterator<Item = &'a [u8]>) -> Came {
    let (mut channel, came) = channel(stage);
    for piece in pieces {
        channel.write_inbound(piece);
    }
    channel.close_by_peer();
    if let Some(CloseCause::Panicked(message)) = channel.channel().close_cause() {
        panic!("a stage panicked: {message}");
    }
    drop(channel);
    came.take()
}

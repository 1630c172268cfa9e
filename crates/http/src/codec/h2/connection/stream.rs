//! What a connection knows of one stream.
//!
//! | | peer sends | we send |
//! | --- | --- | --- |
//! | [`Half::Idle`] | the head of the reply has not come (only clients) | no head was written |
//! | [`Half::Open`] | data, then an end | data, then an end |
//! | [`Half::Over`] | nothing more | nothing more |
//!
//! When both halves are over, or one side has reset it, the stream is forgotten.

use super::{
    turns::Priority,
    window::{RecvWindow, SendWindow},
};
use netwright_core::ChildKey;
use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// How far one direction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Idle,
    Open,
    Over,
}

/// What a stream that has something to send waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    Nothing,
    /// It is on the list of those who may send.
    Turn,
    /// The peer has to grant the stream more.
    Window,
    /// The peer has to grant the connection more.
    Connection,
}

#[derive(Debug)]
pub(crate) struct Stream {
    /// 0 until its head is written, if it is ours.
    pub(crate) id: u32,
    pub(crate) key: ChildKey,
    pub(crate) input: Half,
    pub(crate) output: Half,
    pub(crate) send: SendWindow,
    pub(crate) recv: RecvWindow,
    pub(crate) priority: Priority,
    pub(crate) waits: Waits,
    pub(crate) body_in: BodyIn,
    pub(crate) body_out: BodyOut,
    /// What the request was, as far as it decides what its reply may be.
    pub(crate) asked: Asked,
    /// Small pieces that were paid for while they wait to be read.
    pub(crate) small: u32,
    /// Answers before the answer that have come.
    pub(crate) interims: u32,
    pub(crate) watch: Watch,
}

/// What a request says about its exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    /// Only for the head of the reply.
    pub(crate) head: bool,
    /// For a tunnel: `CONNECT`, or an extended one.
    pub(crate) connect: bool,
    /// The client waits to be told that it may send its body.
    pub(crate) expects: bool,
    /// The tunnel is there: both directions end by themselves.
    pub(crate) tunnel: bool,
    /// What is to be sent next ends the message: it was written in one piece.
    pub(crate) ends_with_data: bool,
}

/// The body that comes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BodyIn {
    /// What was announced and has not come.
    pub(crate) left: Option<u64>,
    pub(crate) got: u64,
}

/// The body that is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BodyOut {
    pub(crate) announced: Option<u64>,
    pub(crate) written: u64,
    /// None can be: it was asked for a head, or the status has no body.
    pub(crate) nothing: bool,
}

/// What was seen of a stream when it was last looked at whether it gets on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Watch {
    /// Bytes that had come, and bytes that had been sent.
    pub(crate) got: u64,
    pub(crate) sent: u64,
    /// It waited for the peer to send, and to take, and has done so ever since.
    pub(crate) waits_for_input: bool,
    pub(crate) waits_for_window: bool,
}

impl Stream {
    pub(crate) fn new(id: u32, key: ChildKey, send: u32, recv: u32) -> Self {
        Self {
            id,
            key,
            input: Half::Idle,
            output: Half::Idle,
            send: SendWindow::new(send),
            recv: RecvWindow::new(recv),
            priority: Priority::default(),
            waits: Waits::Nothing,
            body_in: BodyIn::default(),
            body_out: BodyOut::default(),
            asked: Asked::default(),
            small: 0,
            interims: 0,
            watch: Watch::default(),
        }
    }
}

/// Numbers of streams are spread by a multiplication: a peer that chooses them badly has only as many as it may have open.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u32(u32::from(*byte)));
    }
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The streams of a connection, in places that stay the same.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    places: Vec<Option<Stream>>,
    free: Vec<u32>,
    /// Those that have a number: ours have none before their head is written.
    by_id: HashMap<u32, u32, BuildHasherDefault<Spread>>,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Which place the next one gets.
    pub(crate) fn next_place(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    pub(crate) fn insert(&mut self, stream: Stream) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as u32 - 1
        });
        if stream.id != 0 {
            self.by_id.insert(stream.id, place);
        }
        self.places[place as usize] = Some(stream);
        place
    }

    /// A stream has got its number.
    pub(crate) fn is_named(&mut self, place: u32, id: u32) {
        self.by_id.insert(id, place);
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<Stream> {
        let stream = self.places.get_mut(place as usize)?.take()?;
        self.by_id.remove(&stream.id);
        self.free.push(place);
        if self.is_empty() && self.places.len() > 32 {
            *self = Self::default(); // a crowd has gone
        }
        Some(stream)
    }

    #[inline]
    pub(crate) fn place(&self, id: u32) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    #[inline]
    pub(crate) fn get(&mut self, place: u32) -> Option<&mut Stream> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    /// The places of all.
    pub(crate) fn all(&self) -> Vec<u32> {
        let taken = self.places.iter().enumerate().filter(|(_, stream)| stream.is_some());
        taken.map(|(place, _)| place as u32).collect()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Stream)> {
        self.places
            .iter_mut()
            .enumerate()
            .filter_map(|(place, stream)| Some((place as u32, stream.as_mut()?)))
    }
}

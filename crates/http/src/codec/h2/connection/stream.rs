//! What a connection knows of one stream.
//!
//! | | peer sends | we send |
//! | --- | --- | --- |
//! | [`Half::Idle`] | the head of the reply has not come (only clients) | no head was written |
//! | [`Half::Open`] | data, then an end | data, then an end |
//! | [`Half::Over`] | nothing more | nothing more |
//!
//! When both halves are over, or one side has reset it, the stream is forgotten.

use super::window::{RecvWindow, SendWindow};
use crate::codec::h2::priority::Priority;
use netwright_core::ChildKey;

/// So many streams at a time are a crowd, whose room is given back when all have gone.
const CROWD: usize = 64;

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
    /// So many looks in a row have seen nothing come through a tunnel of which our side has said all.
    pub(crate) silent: u32,
}

impl Stream {
    pub(crate) fn new(id: u32, key: ChildKey, send: u32, recv: RecvWindow) -> Self {
        Self {
            id,
            key,
            input: Half::Idle,
            output: Half::Idle,
            send: SendWindow::new(send),
            recv,
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

/// Numbers to places. Numbers come in order and are odd or even, so the half of one is as good as a hash; a peer that chooses them badly has only as
/// many as it may have open.
///
/// Always true: there are twice as many slots as numbers, or more, and between a number and the slot that it should be in none is empty.
#[derive(Debug, Default)]
struct Ids {
    /// A number, or 0, and its place.
    slots: Vec<(u32, u32)>,
    len: usize,
}

impl Ids {
    #[inline]
    fn slot(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.slots.len() - 1)
    }

    #[inline]
    fn find(&self, id: u32) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.slot(id);
        loop {
            match self.slots[slot].0 {
                0 => return None,
                this if this == id => return Some(slot),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[inline]
    fn insert(&mut self, id: u32, place: u32) {
        debug_assert!(id != 0 && self.find(id).is_none());
        if self.slots.len() < 2 * (self.len + 1) {
            self.grow();
        }
        let mut slot = self.slot(id);
        while self.slots[slot].0 != 0 {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        self.slots[slot] = (id, place);
        self.len += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let more = (2 * self.slots.len()).max(16);
        let before = std::mem::replace(&mut self.slots, vec![(0, 0); more]);
        self.len = 0;
        before.into_iter().filter(|(id, _)| *id != 0).for_each(|(id, place)| self.insert(id, place));
    }

    #[inline]
    fn remove(&mut self, id: u32) {
        let Some(mut hole) = self.find(id) else { return };
        self.len -= 1;
        let mask = self.slots.len() - 1;
        let mut next = (hole + 1) & mask;
        while self.slots[next].0 != 0 {
            // Whoever would not be found behind the hole goes into it.
            let wanted = self.slot(self.slots[next].0);
            if (next.wrapping_sub(wanted) & mask) >= (next.wrapping_sub(hole) & mask) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = (next + 1) & mask;
        }
        self.slots[hole] = (0, 0);
    }
}

/// The streams of a connection, in places that stay the same.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    places: Vec<Option<Stream>>,
    free: Vec<u32>,
    /// Those that have a number: ours have none before their head is written.
    ids: Ids,
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
            self.ids.insert(stream.id, place);
        }
        self.places[place as usize] = Some(stream);
        place
    }

    /// A stream has got its number.
    pub(crate) fn is_named(&mut self, place: u32, id: u32) {
        self.ids.insert(id, place);
    }

    /// Forgets a stream. What it waited for, and how urgent it was.
    pub(crate) fn remove(&mut self, place: u32) -> Option<(Waits, Priority)> {
        let slot = self.places.get_mut(place as usize)?;
        let Stream { id, waits, priority, .. } = *slot.as_ref()?;
        *slot = None;
        if id != 0 {
            self.ids.remove(id);
        }
        self.free.push(place);
        if self.is_empty() && self.places.len() > CROWD {
            *self = Self::default(); // a crowd has gone
        }
        Some((waits, priority))
    }

    #[inline]
    pub(crate) fn place(&self, id: u32) -> Option<u32> {
        self.ids.find(id).map(|slot| self.ids.slots[slot].1)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn numbers_are_found_whoever_comes_and_goes() {
        let (mut ids, mut known) = (Ids::default(), HashMap::new());
        let mut random = 17u64;
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Few slots are wanted by many.
            let id = ((random >> 40) as u32 % 40) * 32 + 1 + ((random >> 20) as u32 % 3) * 2;
            if known.remove(&id).is_some() {
                ids.remove(id);
            } else {
                ids.insert(id, id + 1);
                known.insert(id, id + 1);
            }
            assert_eq!(ids.len, known.len());
            for (id, place) in &known {
                assert_eq!(ids.find(*id).map(|slot| ids.slots[slot].1), Some(*place));
            }
            assert_eq!(ids.find(id).is_some(), known.contains_key(&id));
        }
    }
}

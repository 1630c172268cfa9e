//! Requests that say what one before said: with HTTP/2 most clients send the same few indices again and again.
//!
//! ```text
//!   connection    [82 87 84 be bf]  and the table as it was    ──▶ number 7
//!   loop          number 7          ──▶ heads that were made of it, are answered, and nobody has changed
//! ```
//! A connection knows a few blocks, a loop some heads of each; comparing a few bytes takes a small part of what a map takes.
//!
//! Always true:
//! 1. A head that is lent again was made of the same bytes while the table was the same, by the same connection, and nobody has
//!    had the means to change it since: a head says whether it is as it was made ([`Head`](crate::Head)).
//! 2. A block is known when it comes the second time: who never says anything twice pays one comparison.
//! 3. What a loop keeps is bounded by [`PLACES`] and [`HEADS`], whatever the number of connections.

use super::{Request, RequestFacts};
use crate::{
    codec::{h1::new_number, h2::hpack::Decoder},
    message::{Known, RequestHead, recycle_request_box},
};
use http::request;
use std::cell::RefCell;

/// Longer blocks are not known.
const BLOCK_MAX: usize = 64;
/// Blocks that a connection knows.
const BLOCKS: usize = 4;
/// Blocks of which a loop has heads.
const PLACES: usize = 64;
/// Heads of one block.
const HEADS: usize = 32;

/// The blocks that a connection knows.
#[derive(Debug, Default)]
pub(crate) struct Again {
    blocks: [Option<Box<Block>>; BLOCKS],
}

#[derive(Debug)]
struct Block {
    bytes: [u8; BLOCK_MAX],
    len: usize,
    /// Of the table of the connection.
    generation: u64,
    /// Tells heads of this block from others. 0: it came once.
    number: u64,
    facts: RequestFacts,
}

struct Place {
    number: u64,
    #[expect(clippy::vec_box)] // the boxes are what is kept
    heads: Vec<Box<request::Parts>>,
}

thread_local! {
    static HEADS_OF_LOOP: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

impl Again {
    /// The request that was made of this block before, if there is one that nobody uses.
    #[inline]
    pub(super) fn find(&self, decoder: &Decoder, block: &[u8]) -> Option<Request> {
        let known = self.blocks[place(block)].as_ref()?;
        if known.number == 0 || !known.is(decoder, block) {
            return None;
        }
        let parts = HEADS_OF_LOOP.with_borrow_mut(|places| {
            let place = places.get_mut(known.number as usize % PLACES)?;
            if place.number == known.number { place.heads.pop() } else { None }
        })?;
        let head = RequestHead::known(parts, Known::new(known.number, true));
        Some(Request { head, facts: known.facts })
    }

    /// A request was made of a block; before it, the table was of this generation.
    pub(super) fn came(
        &mut self,
        decoder: &Decoder,
        generation: u64,
        block: &[u8],
        request: Request,
    ) -> Request {
        if block.is_empty()
            || block.len() > BLOCK_MAX
            || decoder.generation() != generation
            || request.facts.connect
        {
            return request;
        }
        let kept = &mut self.blocks[place(block)];
        let Some(known) = kept.as_mut().filter(|known| known.is(decoder, block)) else {
            let known = kept.get_or_insert_with(|| {
                Box::new(Block {
                    bytes: [0; BLOCK_MAX],
                    len: 0,
                    generation: 0,
                    number: 0,
                    facts: RequestFacts::default(),
                })
            });
            known.bytes[..block.len()].copy_from_slice(block);
            (known.len, known.generation, known.number) = (block.len(), generation, 0);
            known.facts = request.facts;
            return request;
        };
        if known.number == 0 {
            known.number = new_number();
            claim(known.number);
        }
        let parts = request.head.into_box();
        Request { head: RequestHead::known(parts, Known::new(known.number, true)), facts: request.facts }
    }
}

impl Block {
    #[inline]
    fn is(&self, decoder: &Decoder, block: &[u8]) -> bool {
        self.generation == decoder.generation() && self.bytes[..self.len] == *block && !decoder.must_shrink()
    }
}

/// Makes room for heads of this number, in place of those of another one.
#[cold]
fn claim(number: u64) {
    let others = HEADS_OF_LOOP.with_borrow_mut(|places| {
        if places.is_empty() {
            places.resize_with(PLACES, || Place { number: 0, heads: Vec::new() });
        }
        let place = &mut places[number as usize % PLACES];
        place.number = number;
        std::mem::take(&mut place.heads)
    });
    others.into_iter().for_each(recycle_request_box);
}

/// The head of a request that is answered, with what is known of it: kept if it was made of a block that is known. Given back
/// if not.
#[inline]
pub(crate) fn give_back(parts: Box<request::Parts>, known: Known) -> Option<Box<request::Parts>> {
    if known == Known::NOTHING {
        return Some(parts);
    }
    let number = known.number();
    HEADS_OF_LOOP.with_borrow_mut(|places| match places.get_mut(number as usize % PLACES) {
        Some(place) if place.number == number && place.heads.len() < HEADS => {
            place.heads.push(parts);
            None
        }
        _ => Some(parts),
    })
}

/// The place of a block among those of its connection.
#[inline]
fn place(block: &[u8]) -> usize {
    let last = block.last_chunk::<4>().map_or(0, |last| u32::from_le_bytes(*last));
    ((last ^ block.len() as u32).wrapping_mul(0x9e37_79b9) >> 30) as usize % BLOCKS
}

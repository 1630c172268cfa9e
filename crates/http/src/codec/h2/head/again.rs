//! Requests that say what one before said, but perhaps for their target: with HTTP/2 most clients send the same few indices again
//! and again.
//!
//! ```text
//!   connection    82 87 [target] be bf  and the table as it was    ──▶ number 7
//!   loop          number 7              ──▶ heads that were made of it, are answered, and nobody has changed
//! ```
//! A connection knows a few blocks, a loop some heads of each; comparing a few bytes takes a small part of what a map takes.
//!
//! Always true:
//! 1. A head that is lent again was made of the same bytes, but for its target, while the table was the same, by the same
//!    connection, and nobody has had the means to change it since: a head says whether it is as it was made
//!    ([`Head`](crate::Head)).
//! 2. A block is known when it comes the second time: who never says anything twice pays one comparison.
//! 3. What a loop keeps is bounded by [`PLACES`] and [`HEADS`], whatever the number of connections, and is in no chunk that
//!    others share: only blocks are known of which all is in the tables, but the target, which is not kept. So no secret is
//!    kept either.

use super::{Request, RequestFacts, request};
use crate::{
    codec::{
        h1::new_number,
        h2::hpack::{Decoder, Shape},
    },
    limits::HttpLimits,
    message::{Known, RequestHead, recycle_request_box},
};
use http::{Method, Uri, request::Parts};
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
    /// The whole block, but for a target that it says in full.
    bytes: [u8; BLOCK_MAX],
    len: u8,
    /// Where the target was.
    target_at: u8,
    has_target: bool,
    facts: RequestFacts,
    /// Of the table of the connection.
    generation: u64,
    /// Tells heads of this block from others. 0: it came once.
    number: u64,
    /// What its fields count for, without the bytes of the target.
    list_size: usize,
}

struct Place {
    number: u64,
    #[expect(clippy::vec_box)] // the boxes are what is kept
    heads: Vec<Box<Parts>>,
}

thread_local! {
    static HEADS_OF_LOOP: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

impl Again {
    /// The request that was made of this block before, with another target, if there is one that nobody uses.
    #[inline]
    pub(super) fn find(&self, decoder: &Decoder, block: &[u8], limits: &HttpLimits) -> Option<Request> {
        let shape = Shape::of(block)?;
        let known = self.blocks[place(block, &shape)].as_ref()?;
        if known.number == 0 || !known.is(decoder, block, &shape) {
            return None;
        }
        let target = if known.has_target {
            let path = shape.read_target(block)?;
            if path.first() != Some(&b'/') || known.list_size + path.len() > limits.head {
                return None; // looked at again, for what is wrong with it
            }
            Some(request::target(path, &Method::GET, limits).ok()?)
        } else {
            None
        };
        let mut parts = HEADS_OF_LOOP.with_borrow_mut(|places| {
            let place = places.get_mut(known.number as usize % PLACES)?;
            if place.number == known.number { place.heads.pop() } else { None }
        })?;
        if let Some(target) = target {
            parts.uri = target;
        }
        let head = RequestHead::known(parts, Known::new(known.number, !known.has_target));
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
        if decoder.generation() != generation || request.facts.connect {
            return request;
        }
        let Some(shape) = Shape::of(block).filter(|shape| block.len() - shape.target.len() <= BLOCK_MAX)
        else {
            return request;
        };
        let kept = &mut self.blocks[place(block, &shape)];
        let Some(known) = kept.as_mut().filter(|known| known.is(decoder, block, &shape)) else {
            let target_len = request.head.uri.path_and_query().map_or(0, |path| path.as_str().len());
            let list_size = decoder.list_size() - if shape.target.is_empty() { 0 } else { target_len };
            let block = Block::new(block, &shape, generation, request.facts, list_size);
            match kept {
                Some(known) => **known = block,
                None => *kept = Some(Box::new(block)),
            }
            return request;
        };
        if known.number == 0 {
            known.number = new_number();
            claim(known.number);
        }
        let facts = request.facts;
        let known = Known::new(known.number, !known.has_target);
        Request { head: RequestHead::known(request.head.into_box(), known), facts }
    }
}

impl Block {
    fn new(block: &[u8], shape: &Shape, generation: u64, facts: RequestFacts, list_size: usize) -> Self {
        let (before, behind) = around(block, shape);
        let mut bytes = [0; BLOCK_MAX];
        bytes[..before.len()].copy_from_slice(before);
        bytes[before.len()..before.len() + behind.len()].copy_from_slice(behind);
        Self {
            bytes,
            len: (before.len() + behind.len()) as u8,
            target_at: before.len() as u8,
            has_target: !shape.target.is_empty(),
            facts,
            generation,
            number: 0,
            list_size,
        }
    }

    #[inline]
    fn is(&self, decoder: &Decoder, block: &[u8], shape: &Shape) -> bool {
        let (before, behind) = around(block, shape);
        let (kept_before, kept_behind) =
            self.bytes[..usize::from(self.len)].split_at(usize::from(self.target_at));
        self.generation == decoder.generation()
            && self.has_target != shape.target.is_empty()
            && kept_before == before
            && kept_behind == behind
            && !decoder.must_shrink()
    }
}

/// What is before the target and behind it.
#[inline]
fn around<'a>(block: &'a [u8], shape: &Shape) -> (&'a [u8], &'a [u8]) {
    (&block[..shape.target.start], &block[shape.target.end..])
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
pub(crate) fn give_back(mut parts: Box<Parts>, known: Known) -> Option<Box<Parts>> {
    if known == Known::NOTHING {
        return Some(parts);
    }
    let number = known.number();
    HEADS_OF_LOOP.with_borrow_mut(|places| match places.get_mut(number as usize % PLACES) {
        Some(place) if place.number == number && place.heads.len() < HEADS => {
            if !known.line_is_whole() {
                parts.uri = Uri::default();
            }
            place.heads.push(parts);
            None
        }
        _ => Some(parts),
    })
}

/// The place of a block among those of its connection, whatever its target.
#[inline]
fn place(block: &[u8], shape: &Shape) -> usize {
    let (before, behind) = around(block, shape);
    let last = behind.last_chunk::<4>().map_or(0, |last| u32::from_le_bytes(*last));
    let sum = last ^ (before.len() as u32) << 8 ^ behind.len() as u32;
    (sum.wrapping_mul(0x9e37_79b9) >> 30) as usize % BLOCKS
}

//! What clients ask and servers say, as bytes: every request has a number, and every answer says to which request it belongs and can be
//! checked byte by byte.
//!
//! ```text
//!   request   kind · number (4) · amount (4) · length of the padding (2) · padding
//!   answer    lane · number (4) · length (4) · bytes that follow from the number
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use netwright::{
    Context, Outgoing,
    pipeline::{InboundOnly, InboundStage, Leftover},
};

/// What a request asks for, beside an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Nothing: it is answered at once.
    Answer,
    /// The application pauses for a while and answers then.
    Pause,
    /// The answer is made on workers.
    Work,
    /// The application closes when the answer is sent.
    Bye,
}

/// A message from a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) asks: Asks,
    pub(crate) number: u32,
    /// How many bytes the answer has.
    pub(crate) amount: u32,
}

const REQUEST_HEAD: usize = 11;
const ANSWER_HEAD: usize = 9;

impl Request {
    pub(crate) fn encode(self, padding: usize) -> Bytes {
        let mut bytes = BytesMut::with_capacity(REQUEST_HEAD + padding);
        bytes.put_u8(self.asks as u8);
        bytes.put_u32(self.number);
        bytes.put_u32(self.amount);
        bytes.put_u16(padding as u16);
        bytes.put_bytes(b'.', padding);
        bytes.freeze()
    }

    /// Which of the lanes it belongs to, where there are several.
    pub(crate) fn lane(self, lanes: u32) -> u8 {
        (self.number % lanes) as u8
    }

    pub(crate) fn answer(self, lane: u8) -> Bytes {
        said(lane, self.number, self.amount as usize)
    }
}

/// The lane of what was written from outside, by a handle.
pub(crate) const NOTICES: u8 = 255;

/// The lane of what was written from outside, to all that are in the room.
pub(crate) const ROOM: u8 = 254;

/// An answer, or a notice.
pub(crate) fn said(lane: u8, number: u32, len: usize) -> Bytes {
    let mut bytes = BytesMut::with_capacity(ANSWER_HEAD + len);
    bytes.put_u8(lane);
    bytes.put_u32(number);
    bytes.put_u32(len as u32);
    bytes.extend((0..len).map(|at| content(number, at)));
    bytes.freeze()
}

fn content(number: u32, at: usize) -> u8 {
    (number as usize).wrapping_mul(31).wrapping_add(at) as u8
}

/// Makes requests of bytes, one at a time.
#[derive(Default)]
pub(crate) struct Requests(BytesMut);

impl InboundOnly for Requests {
    type Read = BytesMut;
    type ReadOut = Request;
    type Write = Outgoing;

    fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        self.0.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, InboundStage<Self>>) -> Option<Request> {
        let mut head = self.0.get(..REQUEST_HEAD)?;
        let asks = [Asks::Answer, Asks::Pause, Asks::Work, Asks::Bye][usize::from(head.get_u8())];
        let request = Request { asks, number: head.get_u32(), amount: head.get_u32() };
        let len = REQUEST_HEAD + usize::from(head.get_u16());
        (self.0.len() >= len).then(|| {
            self.0.advance(len);
            request
        })
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        if self.0.is_empty() { Leftover::nothing() } else { Leftover::one(self.0.split()) }
    }
}

/// What a client has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) lane: u8,
    pub(crate) number: u32,
    /// Whether its bytes are those that they have to be.
    pub(crate) whole: bool,
}

/// Makes answers of bytes.
#[derive(Default)]
pub(crate) struct Answers(BytesMut);

impl InboundOnly for Answers {
    type Read = BytesMut;
    type ReadOut = Said;
    type Write = Outgoing;

    fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        self.0.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, InboundStage<Self>>) -> Option<Said> {
        let mut head = self.0.get(..ANSWER_HEAD)?;
        let (lane, number, len) = (head.get_u8(), head.get_u32(), head.get_u32() as usize);
        let body = self.0.get(ANSWER_HEAD..ANSWER_HEAD + len)?;
        let whole = body.iter().enumerate().all(|(at, byte)| *byte == content(number, at));
        self.0.advance(ANSWER_HEAD + len);
        Some(Said { lane, number, whole })
    }
}

//! Bytes to messages.
//!
//! ```text
//!   [head][payload][head][payl            a frame that is whole: its payload is a piece of what was read, unmasked in place
//!    head       ──▶ FrameHead             split: its bytes wait in the decoder
//!    payload    ──▶ message               split, a fragment, or compressed: copied to the message, checked as it comes
//! ```
//! Always true when `next` has answered `None`:
//! 1. All bytes are taken: nothing of the loop's buffer is kept, and between messages no buffer at all.
//! 2. Of an unfinished message as much memory is held as has come of it, at most twice that, or [`ROOM_UNPROVEN`].
//! 3. Bytes that cannot become right any more have been refused.
//!
//! Not here: what becomes of messages, pings and closes (`stage`).

use crate::{
    Close, Config, Message, Text, Violation,
    deflate::{Inflater, compressed_max},
    frame::{FrameHead, FrameRules, HEAD_MAX, Opcode, Role},
    mask::{mask, rotated},
    utf8::Utf8,
};
use bytes::{Buf, Bytes, BytesMut};

/// Room that is made for a frame on its word alone.
const ROOM_UNPROVEN: u64 = 16 * 1024;

/// Makes messages of what a peer sends.
#[derive(Debug)]
pub(crate) struct Decoder {
    rules: FrameRules,
    message_max: usize,
    /// The longest frame, unless it is compressed.
    frame_max: u64,
    /// The longest frame that is a message of its own: it keeps both.
    alone_max: u64,
    inflater: Option<Box<Inflater>>,
    /// The beginning of a head that was split.
    head: [u8; HEAD_MAX],
    head_len: u8,
    /// The frame whose payload comes.
    frame: Option<Frame>,
    /// The message that is not finished.
    open: Option<Box<Open>>,
    /// The payload so far of a control frame that was split.
    #[allow(clippy::box_collection)] // a third of the size in every idle connection
    control: Option<Box<Vec<u8>>>,
}

#[derive(Debug)]
struct Frame {
    fin: bool,
    opcode: Opcode,
    left: u64,
    mask: Option<[u8; 4]>,
}

#[derive(Debug)]
struct Open {
    is_text: bool,
    compressed: bool,
    utf8: Utf8,
    bytes: Vec<u8>,
}

impl Decoder {
    /// With an inflater frames may be longer by what compressing adds to a message that becomes no smaller.
    pub(crate) fn new(role: Role, config: &Config, inflater: Option<Inflater>) -> Self {
        let (message_max, frame_max) = (config.message_max, config.frame_max);
        let compression = inflater.is_some();
        let len_max = if compression { compressed_max(frame_max) } else { frame_max };
        Self {
            rules: FrameRules { role, compression, len_max },
            message_max,
            frame_max,
            alone_max: frame_max.min(message_max as u64),
            inflater: inflater.map(Box::new),
            head: [0; HEAD_MAX],
            head_len: 0,
            frame: None,
            open: None,
            control: None,
        }
    }

    /// The next message or control frame; `None` when more bytes are needed.
    #[inline]
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<Message>, Violation> {
        loop {
            if self.frame.is_none() {
                let Some(head) = self.next_head(input)? else { return Ok(None) };
                if let Some(message) = self.begin(head, input)? {
                    return Ok(Some(message));
                }
            }
            if let Some(message) = self.payload(input)? {
                return Ok(Some(message));
            }
            if input.is_empty() {
                return Ok(None);
            }
        }
    }

    fn next_head(&mut self, input: &mut BytesMut) -> Result<Option<FrameHead>, Violation> {
        if self.head_len > 0 {
            return self.rest_of_head(input);
        }
        if let Some((head, len)) = FrameHead::parse(input, &self.rules)? {
            input.advance(len);
            return Ok(Some(head));
        }
        self.head[..input.len()].copy_from_slice(input);
        self.head_len = input.len() as u8;
        input.clear();
        Ok(None)
    }

    #[cold]
    fn rest_of_head(&mut self, input: &mut BytesMut) -> Result<Option<FrameHead>, Violation> {
        let have = usize::from(self.head_len);
        let more = input.len().min(HEAD_MAX - have);
        self.head[have..have + more].copy_from_slice(&input[..more]);
        match FrameHead::parse(&self.head[..have + more], &self.rules)? {
            Some((head, len)) => {
                input.advance(len - have);
                self.head_len = 0;
                Ok(Some(head))
            }
            None => {
                self.head_len += more as u8;
                input.advance(more);
                Ok(None)
            }
        }
    }

    /// A frame begins. If all of it is there and it is a message of its own, that is the message.
    #[inline]
    fn begin(&mut self, head: FrameHead, input: &mut BytesMut) -> Result<Option<Message>, Violation> {
        let FrameHead { fin, compressed, opcode, len, mask: key } = head;
        match opcode {
            Opcode::Text | Opcode::Binary if self.open.is_some() => {
                return Err(Violation::Unfinished { opcode });
            }
            Opcode::Continuation if self.open.is_none() => return Err(Violation::NothingToContinue),
            _ => {}
        }
        let alone = fin && !compressed && opcode != Opcode::Continuation;
        if alone && len <= input.len() as u64 {
            if len > self.alone_max && !opcode.is_control() {
                return Err(self.too_long(len));
            }
            let mut payload = take(input, len as usize);
            if let Some(key) = key {
                mask(&mut payload, key);
            }
            return self.whole(opcode, payload.freeze()).map(Some);
        }
        self.begin_slowly(head)?;
        Ok(None)
    }

    /// A frame of so many bytes, or a message, is too long.
    #[cold]
    fn too_long(&self, len: u64) -> Violation {
        match self.frame_max {
            limit if len > limit => Violation::FrameTooLong { len, limit },
            _ => Violation::MessageTooLong { len, limit: self.message_max as u64 },
        }
    }

    fn begin_slowly(&mut self, head: FrameHead) -> Result<(), Violation> {
        let FrameHead { fin, compressed, opcode, len, mask } = head;
        self.frame = Some(Frame { fin, opcode, left: len, mask });
        if opcode.is_control() {
            return Ok(());
        }
        let is_text = opcode == Opcode::Text;
        let open = self.open.get_or_insert_with(|| {
            Box::new(Open { is_text, compressed, utf8: Utf8::default(), bytes: Vec::new() })
        });
        if open.compressed {
            return Ok(()); // its length says nothing
        }
        let so_far = open.bytes.len() as u64;
        if so_far == 0 {
            open.bytes.reserve_exact(len.min(ROOM_UNPROVEN) as usize);
        }
        if len > self.frame_max {
            return Err(self.too_long(len));
        }
        if so_far + len > self.message_max as u64 {
            return Err(Violation::MessageTooLong { len: so_far + len, limit: self.message_max as u64 });
        }
        Ok(())
    }

    /// What has come of the payload. The message, if it ends with it.
    fn payload(&mut self, input: &mut BytesMut) -> Result<Option<Message>, Violation> {
        let Some(frame) = &mut self.frame else { return Ok(None) };
        let len = frame.left.min(input.len() as u64) as usize;
        let piece = &mut input[..len];
        if let Some(key) = &mut frame.mask {
            mask(piece, *key);
            *key = rotated(*key, len);
        }
        frame.left -= len as u64;
        let (fin, opcode, over) = (frame.fin, frame.opcode, frame.left == 0);
        if over {
            self.frame = None;
        }
        if opcode.is_control() {
            self.control.get_or_insert_default().extend_from_slice(piece);
            input.advance(len);
            if !over {
                return Ok(None);
            }
            let payload = self.control.take().map(|payload| Bytes::from(*payload)).unwrap_or_default();
            return self.whole(opcode, payload).map(Some);
        }
        let Some(open) = &mut self.open else { return Err(Violation::NothingToContinue) };
        let before = open.bytes.len();
        match &mut self.inflater {
            Some(inflater) if open.compressed => {
                inflater.push(piece, &mut open.bytes, self.message_max)?;
                if over && fin {
                    inflater.finish(&mut open.bytes, self.message_max)?;
                }
            }
            _ => open.bytes.extend_from_slice(piece),
        }
        if open.is_text && open.utf8.push(&open.bytes[before..]).is_err() {
            return Err(Violation::NotUtf8);
        }
        input.advance(len);
        if !over || !fin {
            return Ok(None);
        }
        let Some(open) = self.open.take() else { return Ok(None) };
        let bytes = Bytes::from(open.bytes);
        if !open.is_text {
            return Ok(Some(Message::Binary(bytes)));
        }
        if !open.utf8.is_whole() {
            return Err(Violation::NotUtf8);
        }
        Ok(Some(Message::Text(Text::checked(bytes))))
    }

    #[inline]
    fn whole(&self, opcode: Opcode, payload: Bytes) -> Result<Message, Violation> {
        Ok(match opcode {
            Opcode::Text => Message::Text(Text::try_from(payload).map_err(|_| Violation::NotUtf8)?),
            Opcode::Binary => Message::Binary(payload),
            Opcode::Ping => Message::Ping(payload),
            Opcode::Pong => Message::Pong(payload),
            Opcode::Close => Message::Close(Close::parse(&payload)?),
            Opcode::Continuation => return Err(Violation::NothingToContinue),
        })
    }
}

/// So many bytes off the front: all of them without making anything shared.
fn take(bytes: &mut BytesMut, len: usize) -> BytesMut {
    if bytes.len() == len { std::mem::take(bytes) } else { bytes.split_to(len) }
}

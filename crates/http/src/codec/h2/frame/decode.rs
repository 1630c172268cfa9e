//! Bytes to frames: a plain state machine, one frame for each call.
//!
//! ```text
//!   Head ──▶ a whole frame                          but for
//!     ├────▶ Data: pieces as they come ──▶ Head     DATA, which is passed on as it comes
//!     └────▶ Skip: thrown away as it comes ──▶ Head what nobody here knows
//! ```
//! Always true:
//! 1. Only a frame that is needed whole waits in the input, and none is longer than `max_frame`.
//! 2. A block of fields comes without anything between its frames.
//! 3. After an error that names no stream nothing more may be decoded; after another one the next frame can be.

use super::{Frame, FrameError, FrameFault, HEAD_LEN, Settings, flag, kind};
use crate::codec::h2::code::ErrorCode;
use bytes::{Buf, Bytes, BytesMut};

/// Decodes frames.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    state: State,
    /// The block of fields of this stream is not over. 0: none is open.
    block_of: u32,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Head,
    Data(Data),
    /// So many bytes are of no interest.
    Skip(usize),
}

/// A DATA frame whose head was read.
#[derive(Debug, Clone, Copy)]
struct Data {
    stream: u32,
    /// So many bytes of data are to come.
    left: usize,
    /// Behind them so many bytes of padding.
    padding_left: usize,
    /// All that was put beside the data.
    padding: usize,
    end: bool,
    begins: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Head {
    len: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

impl Head {
    #[inline]
    fn parse(bytes: &[u8; HEAD_LEN]) -> Self {
        let &[a, b, c, kind, flags, d, e, f, g] = bytes;
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        Self { len, kind, flags, stream: u32::from_be_bytes([d, e, f, g]) & 0x7fff_ffff }
    }

    #[inline]
    fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl FrameDecoder {
    /// Whether the next byte begins a frame, and no block of fields is open.
    #[cfg(test)]
    pub(crate) fn is_between(&self) -> bool {
        matches!(self.state, State::Head) && self.block_of == 0
    }

    /// The next frame, or piece of one; `None` if more bytes are needed. None is longer than `max_frame`.
    #[inline]
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        max_frame: usize,
    ) -> Result<Option<Frame>, FrameError> {
        loop {
            match &mut self.state {
                State::Head => {
                    let Some(head) = input.first_chunk() else { return Ok(None) };
                    let head = Head::parse(head);
                    if let Some(frame) = self.begin(head, input, max_frame)? {
                        return Ok(Some(frame));
                    }
                    if matches!(self.state, State::Head) {
                        return Ok(None); // the frame has to be whole
                    }
                }
                State::Data(data) => {
                    let piece = data.piece(input);
                    if data.left == 0 && data.padding_left == 0 {
                        self.state = State::Head;
                    }
                    return Ok(piece);
                }
                State::Skip(left) => {
                    let len = input.len().min(*left);
                    input.advance(len);
                    *left -= len;
                    if *left > 0 {
                        return Ok(None);
                    }
                    self.state = State::Head;
                }
            }
        }
    }

    /// Looks at the frame that begins with this head. `None` if it has to be whole and is not, or if the state has changed.
    #[inline]
    fn begin(
        &mut self,
        head: Head,
        input: &mut BytesMut,
        max_frame: usize,
    ) -> Result<Option<Frame>, FrameError> {
        if head.len > max_frame {
            return Err(FrameError::connection(ErrorCode::FRAME_SIZE_ERROR, FrameFault::TooLong));
        }
        let continues = head.kind == kind::CONTINUATION;
        if self.block_of != 0 && !(continues && head.stream == self.block_of)
            || continues && self.block_of == 0
        {
            return Err(protocol(FrameFault::Continuation));
        }
        match head.kind {
            kind::DATA => self.data(head, input),
            kind::PRIORITY_UPDATE | 0..=kind::CONTINUATION if head.kind != kind::PUSH_PROMISE => {
                check_length(head)?;
                if input.len() < HEAD_LEN + head.len {
                    return Ok(None);
                }
                match head.kind {
                    kind::HEADERS | kind::CONTINUATION => self.block(head, input).map(Some),
                    kind::GOAWAY | kind::PRIORITY_UPDATE => with_bytes(head, input).map(Some),
                    _ => {
                        let frame = small(head, &input[HEAD_LEN..HEAD_LEN + head.len]);
                        input.advance(HEAD_LEN + head.len);
                        frame.map(Some)
                    }
                }
            }
            _ => {
                input.advance(HEAD_LEN);
                self.state = State::Skip(head.len);
                Ok(Some(match head.kind {
                    kind::PUSH_PROMISE => Frame::Push { stream: head.stream },
                    kind => Frame::Unknown { kind, len: head.len },
                }))
            }
        }
    }

    #[inline]
    fn data(&mut self, head: Head, input: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        on_stream(head)?;
        let padding = if head.has(flag::PADDED) {
            if head.len == 0 {
                return Err(FrameError::connection(ErrorCode::FRAME_SIZE_ERROR, FrameFault::Length));
            }
            let Some(&padding) = input.get(HEAD_LEN) else { return Ok(None) };
            input.advance(HEAD_LEN + 1);
            1 + usize::from(padding)
        } else {
            input.advance(HEAD_LEN);
            0
        };
        let left = head.len.checked_sub(padding).ok_or_else(|| protocol(FrameFault::Padding))?;
        let (stream, end) = (head.stream, head.has(flag::END_STREAM));
        if padding == 0 && input.len() >= left {
            let data = take(input, left);
            return Ok(Some(Frame::Data { stream, data, padding, end, begins: Some(left) }));
        }
        let padding_left = padding.saturating_sub(1);
        self.state = State::Data(Data { stream, left, padding_left, padding, end, begins: Some(head.len) });
        Ok(None)
    }

    /// Fields, or more of them.
    #[inline]
    fn block(&mut self, head: Head, input: &mut BytesMut) -> Result<Frame, FrameError> {
        on_stream(head)?;
        let stream = head.stream;
        let end_headers = head.has(flag::END_HEADERS);
        if head.kind == kind::CONTINUATION {
            input.advance(HEAD_LEN);
            let block = take(input, head.len);
            self.block_of = if end_headers { 0 } else { stream };
            return Ok(Frame::Continuation { stream, block, end_headers });
        }
        let (mut before, mut behind) = (HEAD_LEN, 0);
        if head.has(flag::PADDED) {
            behind = usize::from(input[HEAD_LEN]);
            before += 1;
        }
        if head.has(flag::PRIORITY) {
            before += 5;
        }
        let len = (HEAD_LEN + head.len).checked_sub(before + behind);
        let len = len.ok_or_else(|| protocol(FrameFault::Padding))?;
        input.advance(before);
        let block = take(input, len);
        input.advance(behind);
        self.block_of = if end_headers { 0 } else { stream };
        Ok(Frame::Headers { stream, block, end_headers, end_stream: head.has(flag::END_STREAM) })
    }
}

impl Data {
    /// What is there of the frame; `None` if nothing is.
    fn piece(&mut self, input: &mut BytesMut) -> Option<Frame> {
        let data = take(input, input.len().min(self.left));
        self.left -= data.len();
        if self.left == 0 {
            let padding = input.len().min(self.padding_left);
            input.advance(padding);
            self.padding_left -= padding;
        }
        let last = self.left == 0 && self.padding_left == 0;
        if data.is_empty() && !last {
            return None;
        }
        let padding = if last { self.padding } else { 0 };
        Some(Frame::Data {
            stream: self.stream,
            data,
            padding,
            end: last && self.end,
            begins: self.begins.take(),
        })
    }
}

/// Takes so many bytes off the input: all of it, mostly.
#[inline]
fn take(input: &mut BytesMut, len: usize) -> Bytes {
    if len == 0 {
        Bytes::new()
    } else if input.len() == len {
        std::mem::take(input).freeze()
    } else {
        input.split_to(len).freeze()
    }
}

#[cold]
fn protocol(why: FrameFault) -> FrameError {
    FrameError::connection(ErrorCode::PROTOCOL_ERROR, why)
}

#[inline]
fn on_stream(head: Head) -> Result<(), FrameError> {
    if head.stream == 0 { Err(protocol(FrameFault::NoStream)) } else { Ok(()) }
}

/// Lengths that a frame of its kind cannot have, whatever is in it: said before it is waited for. Where only its stream has to
/// end, the frame is looked at first.
#[inline]
fn check_length(head: Head) -> Result<(), FrameError> {
    let len = head.len;
    let good = match head.kind {
        kind::HEADERS => {
            len >= usize::from(head.has(flag::PADDED)) + if head.has(flag::PRIORITY) { 5 } else { 0 }
        }
        kind::RST_STREAM | kind::WINDOW_UPDATE => len == 4,
        kind::SETTINGS => len.is_multiple_of(6) && (len == 0 || !head.has(flag::ACK)),
        kind::PING => len == 8,
        kind::GOAWAY => len >= 8,
        kind::PRIORITY_UPDATE => len >= 4,
        _ => true,
    };
    if good { Ok(()) } else { Err(FrameError::connection(ErrorCode::FRAME_SIZE_ERROR, FrameFault::Length)) }
}

/// A frame of which nothing is kept.
fn small(head: Head, payload: &[u8]) -> Result<Frame, FrameError> {
    let stream = head.stream;
    if matches!(head.kind, kind::SETTINGS | kind::PING) {
        off_stream(head)?;
    } else if head.kind != kind::WINDOW_UPDATE {
        on_stream(head)?;
    }
    let length = || FrameError::connection(ErrorCode::FRAME_SIZE_ERROR, FrameFault::Length);
    let number = || payload.first_chunk().map(|bytes| u32::from_be_bytes(*bytes)).ok_or_else(length);
    Ok(match head.kind {
        kind::PRIORITY if head.len != 5 => {
            return Err(FrameError::stream(ErrorCode::FRAME_SIZE_ERROR, stream, FrameFault::Length));
        }
        kind::PRIORITY => Frame::Priority { stream },
        kind::RST_STREAM => Frame::Reset { stream, code: ErrorCode(number()?) },
        kind::SETTINGS if head.has(flag::ACK) => Frame::SettingsAck,
        kind::SETTINGS => Frame::Settings(Settings::parse(payload)?),
        kind::PING => {
            let data = *payload.first_chunk().ok_or_else(length)?;
            Frame::Ping { ack: head.has(flag::ACK), data }
        }
        _ => match number()? & 0x7fff_ffff {
            0 if stream == 0 => return Err(protocol(FrameFault::NoIncrement)),
            0 => {
                return Err(FrameError::stream(ErrorCode::PROTOCOL_ERROR, stream, FrameFault::NoIncrement));
            }
            by => Frame::WindowUpdate { stream, by },
        },
    })
}

/// A frame of the connection that ends in bytes.
fn with_bytes(head: Head, input: &mut BytesMut) -> Result<Frame, FrameError> {
    off_stream(head)?;
    input.advance(HEAD_LEN);
    let id = input.get_u32() & 0x7fff_ffff;
    if head.kind == kind::GOAWAY {
        let code = ErrorCode(input.get_u32());
        return Ok(Frame::GoAway { last: id, code, debug: take(input, head.len - 8) });
    }
    if id == 0 {
        return Err(protocol(FrameFault::NoStream));
    }
    Ok(Frame::PriorityUpdate { stream: id, value: take(input, head.len - 4) })
}

#[inline]
fn off_stream(head: Head) -> Result<(), FrameError> {
    if head.stream == 0 { Ok(()) } else { Err(protocol(FrameFault::OnStream)) }
}

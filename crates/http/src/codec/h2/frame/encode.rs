//! Frames to bytes: each function appends one.

use super::{HEAD_LEN, Settings, flag, kind};
use crate::codec::h2::code::ErrorCode;
use bytes::{BufMut, BytesMut};

/// The head of a frame as it is on the wire.
#[inline]
fn head(len: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEAD_LEN] {
    debug_assert!(len < 1 << 24 && stream < 1 << 31);
    let [_, a, b, c] = (len as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    [a, b, c, kind, flags, d, e, f, g]
}

/// The head of a DATA frame; so many bytes have to follow.
#[inline]
pub(crate) fn data_head(out: &mut BytesMut, stream: u32, len: usize, end: bool) {
    out.extend_from_slice(&head(len, kind::DATA, if end { flag::END_STREAM } else { 0 }, stream));
}

/// Fields, which `fields` appends: in as many frames as the peer's limit makes of them. Nothing, if it fails.
#[inline]
pub(crate) fn headers<R, E>(
    out: &mut BytesMut,
    stream: u32,
    end_stream: bool,
    max_frame: usize,
    fields: impl FnOnce(&mut BytesMut) -> Result<R, E>,
) -> Result<R, E> {
    let at = out.len();
    out.extend_from_slice(&[0; HEAD_LEN]);
    let result = match fields(out) {
        Ok(result) => result,
        Err(error) => {
            out.truncate(at);
            return Err(error);
        }
    };
    let len = out.len() - at - HEAD_LEN;
    let flags = if end_stream { flag::END_STREAM } else { 0 };
    if len <= max_frame {
        let head = head(len, kind::HEADERS, flags | flag::END_HEADERS, stream);
        out[at..at + HEAD_LEN].copy_from_slice(&head);
    } else {
        continued(out, at, stream, flags, max_frame);
    }
    Ok(result)
}

/// Cuts the block that stands behind the room for a head at `at` in frames.
#[cold]
fn continued(out: &mut BytesMut, at: usize, stream: u32, flags: u8, max_frame: usize) {
    let block = out.split_off(at + HEAD_LEN);
    out.truncate(at);
    let mut pieces = block.chunks(max_frame.max(1)).peekable();
    let (mut kind, mut flags) = (kind::HEADERS, flags);
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            flags |= flag::END_HEADERS;
        }
        out.extend_from_slice(&head(piece.len(), kind, flags, stream));
        out.extend_from_slice(piece);
        (kind, flags) = (kind::CONTINUATION, 0);
    }
}

pub(crate) fn settings(out: &mut BytesMut, settings: &Settings) {
    out.extend_from_slice(&head(settings.len(), kind::SETTINGS, 0, 0));
    settings.put(out);
}

pub(crate) fn settings_ack(out: &mut BytesMut) {
    out.extend_from_slice(&head(0, kind::SETTINGS, flag::ACK, 0));
}

pub(crate) fn ping(out: &mut BytesMut, ack: bool, data: [u8; 8]) {
    out.extend_from_slice(&head(data.len(), kind::PING, if ack { flag::ACK } else { 0 }, 0));
    out.extend_from_slice(&data);
}

pub(crate) fn go_away(out: &mut BytesMut, last: u32, code: ErrorCode, debug: &[u8]) {
    out.extend_from_slice(&head(8 + debug.len(), kind::GOAWAY, 0, 0));
    out.put_u32(last);
    out.put_u32(code.0);
    out.extend_from_slice(debug);
}

pub(crate) fn reset(out: &mut BytesMut, stream: u32, code: ErrorCode) {
    out.extend_from_slice(&head(4, kind::RST_STREAM, 0, stream));
    out.put_u32(code.0);
}

/// `by` is not zero and at most 2³¹−1.
pub(crate) fn window_update(out: &mut BytesMut, stream: u32, by: u32) {
    debug_assert!(by > 0 && by < 1 << 31);
    out.extend_from_slice(&head(4, kind::WINDOW_UPDATE, 0, stream));
    out.put_u32(by);
}

/// What tests send: we ask nobody for priorities.
#[cfg(test)]
pub(crate) fn priority_update(out: &mut BytesMut, stream: u32, value: &[u8]) {
    out.extend_from_slice(&head(4 + value.len(), kind::PRIORITY_UPDATE, 0, 0));
    out.put_u32(stream);
    out.extend_from_slice(value);
}

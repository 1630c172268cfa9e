//! The server's side of each exchange: which request a reply answers, how it is written, and what follows from it.
//!
//! ```text
//!   requests read:   r1  r2  r3           waiting: [r2 r3]      current: the rest of the reply to r1
//!   replies written: a1 …                 in order, one after the other
//! ```
//! Always true:
//! 1. Replies leave in the order of their requests; whoever writes them writes them in this order.
//! 2. `closing` says that no further request is read. The reply to the last one that was says `close`, and no other does,
//!    unless nothing can follow it.

use super::body::{BodyOut, Said, content_length, field};
use crate::{
    codec::{
        date,
        h1::{decode::Asked, out::Out},
    },
    error::{HttpError, Misuse},
    message::{Part, ReplyHead, ReplyPart, recycle_reply_head},
};
use bytes::{Bytes, BytesMut};
use http::StatusCode;
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Replies {
    /// Whether `date` is added.
    pub(crate) date: bool,
    /// Requests whose replies have not ended, in order.
    waiting: VecDeque<Asked>,
    current: Option<Current>,
    pub(crate) closing: bool,
    /// Parts that were written, but for replies in one piece.
    pub(crate) parts: u64,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    body: BodyOut,
    then: Then,
}

/// What a part that was written has led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// The reply goes on.
    More,
    /// It is over, and others may follow.
    Next,
    /// It is over, and the connection with it.
    Close,
    /// It is over, and what follows is not HTTP.
    Switch,
    /// The peer has been told to go on.
    Continued,
}

impl Default for Replies {
    fn default() -> Self {
        Self { date: true, waiting: VecDeque::new(), current: None, closing: false, parts: 0 }
    }
}

impl Replies {
    pub(crate) fn asked(&mut self, asked: Asked) {
        self.waiting.push_back(asked);
        self.closing |= asked.close;
    }

    /// So many requests wait for the end of their replies.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether a reply has begun and is not over.
    pub(crate) fn is_within(&self) -> bool {
        self.current.is_some()
    }

    /// Appends a part of a reply. `unread` says that the peer was not told to send its body, and has sent none of it.
    #[inline(always)] // the part is large, and each move costs
    pub(crate) fn write(&mut self, part: ReplyPart, out: &mut Out, unread: bool) -> Result<Then, HttpError> {
        match part {
            Part::Whole(head, body) => self.write_whole(head, body, out, unread),
            part => self.write_rare(part, out, unread),
        }
    }

    #[inline(always)]
    fn write_whole(
        &mut self,
        head: ReplyHead,
        body: Bytes,
        out: &mut Out,
        unread: bool,
    ) -> Result<Then, HttpError> {
        let mark = out.mark();
        match self.head(&mut out.buffer, &head, Some(body.len() as u64), unread) {
            Ok(Current { body: framed, then }) => {
                recycle_reply_head(head);
                if framed != BodyOut::Nothing {
                    out.bytes(body);
                }
                self.waiting.pop_front();
                Ok(then)
            }
            Err(error) => {
                out.roll_back(mark);
                Err(error)
            }
        }
    }

    #[inline(never)]
    fn write_rare(&mut self, part: ReplyPart, out: &mut Out, unread: bool) -> Result<Then, HttpError> {
        self.parts += 1;
        let mark = out.mark();
        match part {
            Part::Head(head) => match self.head(&mut out.buffer, &head, None, unread) {
                Ok(current) => {
                    recycle_reply_head(head);
                    self.current = Some(current);
                    Ok(Then::More)
                }
                Err(error) => {
                    out.roll_back(mark);
                    Err(error)
                }
            },
            Part::Data(bytes) => {
                let current = self.current.as_mut().ok_or(Misuse::BodyWithoutHead)?;
                current.body.data(out, bytes).map(|()| Then::More)
            }
            Part::File(file) => {
                let current = self.current.as_mut().ok_or(Misuse::BodyWithoutHead)?;
                current.body.file(out, file).map(|()| Then::More)
            }
            Part::End(trailers) => {
                let current = self.current.ok_or(Misuse::BodyWithoutHead)?;
                current.body.end(out, trailers.as_deref())?;
                self.current = None;
                self.waiting.pop_front();
                // Whether to go on may have been decided since the head was written: by a shutdown, or by the peer's end.
                let ends = self.closing && self.waiting.is_empty() && current.then == Then::Next;
                Ok(if ends { Then::Close } else { current.then })
            }
            Part::Interim(head) if head.status == StatusCode::SWITCHING_PROTOCOLS => {
                self.write_whole(head, Bytes::new(), out, unread)
            }
            Part::Interim(head) => self.interim(&mut out.buffer, &head),
            Part::Whole(..) => Err(Misuse::Direction.into()), // written above
        }
    }

    fn interim(&mut self, out: &mut BytesMut, head: &ReplyHead) -> Result<Then, HttpError> {
        let asked = *self.waiting.front().ok_or(Misuse::NoRequest)?;
        if self.current.is_some() {
            return Err(Misuse::HeadWithinBody.into());
        }
        if !head.status.is_informational() {
            return Err(Misuse::Status(head.status.as_u16()).into());
        }
        if asked.http10 {
            return Ok(Then::More); // it would not know what to make of it
        }
        status_line(out, head.status);
        for (name, value) in &head.headers {
            field(out, name.as_str(), value);
        }
        out.extend_from_slice(b"\r\n");
        Ok(if head.status == StatusCode::CONTINUE { Then::Continued } else { Then::More })
    }

    /// Appends the head of a reply whose body is so long, if that is known.
    fn head(
        &mut self,
        out: &mut BytesMut,
        head: &ReplyHead,
        whole: Option<u64>,
        unread: bool,
    ) -> Result<Current, HttpError> {
        let Some(&asked) = self.waiting.front() else { return Err(Misuse::NoRequest.into()) };
        if self.current.is_some() {
            return Err(Misuse::HeadWithinBody.into());
        }
        if let Some(length) = whole
            && asked == Asked::default()
            && !self.closing
            && !unread
            && head.status == StatusCode::OK
        {
            return self.plain_head(out, head, length);
        }
        self.any_head(out, head, whole, unread, asked)
    }

    /// The head of most replies: everything went well, and nothing special was asked for.
    #[inline]
    fn plain_head(
        &mut self,
        out: &mut BytesMut,
        head: &ReplyHead,
        length: u64,
    ) -> Result<Current, HttpError> {
        let mark = out.len();
        status_line(out, StatusCode::OK);
        let said = Said::fields(out, &head.headers)?;
        if said.decides() {
            out.truncate(mark);
            return self.any_head(out, head, Some(length), false, Asked::default());
        }
        content_length(out, length);
        if self.date && !said.date {
            date::append_to(out);
        }
        out.extend_from_slice(b"\r\n");
        Ok(Current { body: BodyOut::Length { announced: length, left: length }, then: Then::Next })
    }

    #[inline(never)]
    fn any_head(
        &mut self,
        out: &mut BytesMut,
        head: &ReplyHead,
        whole: Option<u64>,
        unread: bool,
        asked: Asked,
    ) -> Result<Current, HttpError> {
        let status = head.status.as_u16();
        if status < 200 && status != 101 {
            return Err(Misuse::Status(status).into());
        }
        status_line(out, head.status);
        let said = Said::fields(out, &head.headers)?;
        let switches = status == 101 || asked.connect && head.status.is_success();
        if status == 101 && !(asked.upgrade && said.upgrade) {
            return Err(Misuse::Upgrade.into());
        }
        let none = BodyOut::Length { announced: 0, left: 0 };
        let mut until_close = false;
        let body = if switches || status == 204 || status == 304 {
            if whole.is_some_and(|len| len > 0) {
                return Err(Misuse::NoBodyAllowed(status).into());
            }
            if let (304, Some(length)) = (status, said.length) {
                content_length(out, length);
            }
            none
        } else if asked.head {
            if let Some(length) = said.length.or(whole.filter(|&len| len > 0)) {
                content_length(out, length);
            }
            BodyOut::Nothing
        } else if let Some(len) = whole {
            if let Some(announced) = said.length.filter(|&announced| announced != len) {
                return Err(if len > announced {
                    Misuse::BodyTooLong { announced, written: len }.into()
                } else {
                    Misuse::BodyTooShort { announced, written: len }.into()
                });
            }
            content_length(out, len);
            BodyOut::Length { announced: len, left: len }
        } else if let Some(announced) = said.length {
            content_length(out, announced);
            BodyOut::Length { announced, left: announced }
        } else if asked.http10 {
            until_close = true;
            BodyOut::UntilClose
        } else {
            out.extend_from_slice(b"transfer-encoding: chunked\r\n");
            BodyOut::Chunked
        };
        self.closing |= said.close || unread || until_close;
        let close = !switches && self.closing && (self.waiting.len() == 1 || until_close);
        if status == 101 {
            out.extend_from_slice(b"connection: upgrade\r\n");
        } else {
            said.connection(out, close, asked.http10 && !close);
        }
        if self.date && !said.date {
            date::append_to(out);
        }
        out.extend_from_slice(b"\r\n");
        let then = match (switches, close) {
            (true, _) => Then::Switch,
            (_, true) => Then::Close,
            _ => Then::Next,
        };
        Ok(Current { body, then })
    }

    /// Appends a reply of the codec's own, after which nothing follows.
    pub(crate) fn refuse(&mut self, out: &mut BytesMut, status: StatusCode, why: &str) {
        let to_head = self.waiting.front().is_some_and(|asked| asked.head);
        status_line(out, status);
        out.extend_from_slice(b"connection: close\r\ncontent-type: text/plain; charset=utf-8\r\n");
        content_length(out, why.len() as u64 + 1);
        date::append_to(out);
        out.extend_from_slice(b"\r\n");
        if !to_head {
            out.extend_from_slice(why.as_bytes());
            out.extend_from_slice(b"\n");
        }
        self.waiting.clear();
    }
}

#[inline]
fn status_line(out: &mut BytesMut, status: StatusCode) {
    if status == StatusCode::OK {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

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

use super::{
    body::{BodyOut, Unfinished},
    head::{Written, content_length, field},
};
use crate::{
    codec::{
        date,
        h1::asked::{Asked, is_bodiless},
        out::Out,
    },
    error::{HttpError, Misuse},
    message::{HttpPart, ReplyHead, ReplyPart, recycle_reply_head},
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
    current: Unfinished,
    /// What the reply that has begun leads to when it is over.
    then: Then,
    pub(crate) closing: bool,
    /// Parts that were written, but for replies in one piece.
    pub(crate) parts: u64,
}

/// A head that was written: how its body is, and what the reply leads to.
struct Begun {
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
    /// It was a head, and what follows are bytes in both directions.
    Tunnel,
    /// The peer has been told to go on.
    Continued,
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            date: true,
            waiting: VecDeque::new(),
            current: Unfinished::default(),
            then: Then::Next,
            closing: false,
            parts: 0,
        }
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
        self.current.is_within()
    }

    /// Appends a part of a reply. `unread` says that the peer was not told to send its body, and has sent none of it.
    #[inline(always)] // the part is large, and each move costs
    pub(crate) fn write(&mut self, part: ReplyPart, out: &mut Out, unread: bool) -> Result<Then, HttpError> {
        match part {
            HttpPart::Whole(head, body) => self.write_whole(head, body, out, unread),
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
        let begun = out.head(|buffer| self.head(buffer, &head, Some(body.len() as u64), unread))?;
        recycle_reply_head(head);
        if begun.body != BodyOut::Nothing {
            out.bytes(body);
        }
        self.waiting.pop_front();
        Ok(begun.then)
    }

    #[inline(never)]
    fn write_rare(&mut self, part: ReplyPart, out: &mut Out, unread: bool) -> Result<Then, HttpError> {
        self.parts += 1;
        match part {
            HttpPart::Head(head) => {
                let begun = out.head(|buffer| self.head(buffer, &head, None, unread))?;
                recycle_reply_head(head);
                if begun.then == Then::Switch {
                    self.waiting.pop_front();
                    return Ok(Then::Tunnel);
                }
                self.current.begin(begun.body);
                self.then = begun.then;
                Ok(Then::More)
            }
            HttpPart::Interim(head) if head.status == StatusCode::SWITCHING_PROTOCOLS => {
                self.write_whole(head, Bytes::new(), out, unread)
            }
            HttpPart::Interim(head) => self.interim(&mut out.buffer, &head),
            rest => {
                if !self.current.append(rest, out)? {
                    return Ok(Then::More);
                }
                self.waiting.pop_front();
                // Whether to go on may have been decided since the head was written: by a shutdown, or by the peer's end.
                let ends = self.closing && self.waiting.is_empty() && self.then == Then::Next;
                Ok(if ends { Then::Close } else { self.then })
            }
        }
    }

    fn interim(&mut self, out: &mut BytesMut, head: &ReplyHead) -> Result<Then, HttpError> {
        let asked = *self.waiting.front().ok_or(Misuse::NoRequest)?;
        if self.current.is_within() {
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
    ) -> Result<Begun, HttpError> {
        let Some(&asked) = self.waiting.front() else { return Err(Misuse::NoRequest.into()) };
        if self.current.is_within() {
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
    fn plain_head(&mut self, out: &mut BytesMut, head: &ReplyHead, length: u64) -> Result<Begun, HttpError> {
        let mark = out.len();
        status_line(out, StatusCode::OK);
        let said = Written::fields(out, &head.headers)?;
        if said.decides() {
            out.truncate(mark);
            return self.any_head(out, head, Some(length), false, Asked::default());
        }
        content_length(out, length);
        if self.date && !said.date {
            date::append_to(out);
        }
        out.extend_from_slice(b"\r\n");
        Ok(Begun { body: BodyOut::length(length), then: Then::Next })
    }

    #[inline(never)]
    fn any_head(
        &mut self,
        out: &mut BytesMut,
        head: &ReplyHead,
        whole: Option<u64>,
        unread: bool,
        asked: Asked,
    ) -> Result<Begun, HttpError> {
        let status = head.status.as_u16();
        if status < 200 && status != 101 {
            return Err(Misuse::Status(status).into());
        }
        status_line(out, head.status);
        let said = Written::fields(out, &head.headers)?;
        let switches = asked.switches(head.status);
        if status == 101 && !(asked.upgrade && said.upgrade) {
            return Err(Misuse::Upgrade.into());
        }
        let mut until_close = false;
        let body = if switches || is_bodiless(head.status) {
            if whole.is_some_and(|len| len > 0) {
                return Err(Misuse::NoBodyAllowed(status).into());
            }
            if let (304, Some(length)) = (status, said.length) {
                content_length(out, length);
            }
            BodyOut::length(0)
        } else if asked.head {
            if let Some(length) = said.length.or(whole.filter(|&len| len > 0)) {
                content_length(out, length);
            }
            BodyOut::Nothing
        } else if let Some(len) = whole {
            let body = BodyOut::whole(len, said.length)?;
            content_length(out, len);
            body
        } else if let Some(announced) = said.length {
            content_length(out, announced);
            BodyOut::length(announced)
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
        Ok(Begun { body, then })
    }

    /// Appends a reply of the codec's own, after which nothing follows.
    pub(crate) fn refuse(&mut self, out: &mut BytesMut, status: StatusCode, why: &str) {
        let to_head = self.waiting.front().is_some_and(|asked| asked.head);
        status_line(out, status);
        out.extend_from_slice(b"connection: close\r\ncontent-type: text/plain; charset=utf-8\r\n");
        content_length(out, why.len() as u64 + 1);
        if self.date {
            date::append_to(out);
        }
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

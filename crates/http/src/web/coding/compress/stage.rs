//! Replies, compressed.
//!
//! ```text
//!   Head ──▶ Held ── Data, flush ──▶ Coded ── Data … ──▶ End       its first part decides: a file stays one
//!              └──── File, End ────▶ Plain ── anything ──▶ End
//!   Whole ──▶ compressed in one go, if it gets smaller by that
//! ```
//! Always true: a head waits for the part behind it, or for a flush, and for nothing else.

use super::ReplyCompression;
use crate::{
    HttpPart, ReplyHead, ReplyPart, RequestPart,
    web::{
        Coding,
        accept::add_vary,
        turns::{Turns, ends},
    },
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use netwright_codec::{CompressError, Compressor, Flush};
use netwright_core::{CloseCause, Context, Fault, Handler, Place, WriteError, WritePromise};
use std::{error::Error, fmt};

/// What a head says when its body is coded. The tag is for both forms from now on, so it cannot be a strong one.
fn announce(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(header::CONTENT_ENCODING, coding.to_header());
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::ACCEPT_RANGES);
    if let Some(etag) = headers.get(header::ETAG).filter(|etag| !etag.as_bytes().starts_with(b"W/")) {
        let weak = [b"W/", etag.as_bytes()].concat();
        match HeaderValue::from_bytes(&weak) {
            Ok(weak) => headers.insert(header::ETAG, weak),
            Err(_) => headers.remove(header::ETAG),
        };
    }
}

/// The stage that compresses replies. Made by [`ReplyCompression::stage`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_http::{HttpServer, web::ReplyCompression};
///
/// let compression = ReplyCompression::new().threshold(1024); // one for all connections
/// let _stages = pipeline().add(HttpServer::new()).add(compression.stage()); // a stage for each
/// ```
#[derive(Debug)]
pub struct ReplyCompressionStage {
    compression: ReplyCompression,
    turns: Turns<Coding>,
    now: Now,
}

/// How far the present reply is.
enum Now {
    Between,
    /// The head of a reply that may be compressed, with what comes first.
    Held(Box<ReplyHead>, Coding, WritePromise),
    /// Untouched to its end.
    Plain,
    Coded {
        compressor: Box<Compressor>,
        /// Something was put in that a flush has to bring out.
        unflushed: bool,
    },
}

impl fmt::Debug for Now {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Between => "Between",
            Self::Held(..) => "Held",
            Self::Plain => "Plain",
            Self::Coded { .. } => "Coded",
        })
    }
}

impl<P: Place> Handler<P> for ReplyCompressionStage {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self, P>, part: RequestPart) {
        if let HttpPart::Head(head) | HttpPart::Whole(head, _) = &part {
            let bodiless = head.method == Method::HEAD || head.method == Method::CONNECT;
            let coding =
                if bodiless { None } else { Coding::choose(&head.headers, &self.compression.0.codings) };
            self.turns.expect(coding.unwrap_or(Coding::Identity));
        }
        cx.fire_read(part);
    }

    fn write(&mut self, cx: &mut Context<'_, Self, P>, part: ReplyPart, done: WritePromise) {
        let over = ends(&part);
        match part {
            HttpPart::Interim(_) => return cx.write_with(part, done),
            HttpPart::Whole(head, body) => self.whole(cx, head, body, done),
            HttpPart::Head(head) => self.head(cx, head, done),
            HttpPart::Data(data) => {
                self.settle(cx, true);
                self.data(cx, data, done);
            }
            HttpPart::File(region) => {
                self.settle(cx, false);
                if matches!(self.now, Now::Coded { .. }) {
                    give_up(cx, FileInCoded { len: region.remaining() }, done);
                } else {
                    cx.write_with(HttpPart::File(region), done);
                }
            }
            HttpPart::End(trailers) => {
                self.settle(cx, false);
                self.bring_out(cx, Flush::Finish);
                cx.write_with(HttpPart::End(trailers), done);
            }
        }
        if over {
            self.now = Now::Between;
            self.turns.done(cx);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        self.settle(cx, true);
        if matches!(self.now, Now::Coded { unflushed: true, .. }) {
            self.bring_out(cx, Flush::Sync);
        }
        cx.flush();
    }

    fn start_over(&mut self) -> bool {
        (self.turns, self.now) = (Turns::default(), Now::Between);
        true
    }
}

impl ReplyCompressionStage {
    pub(super) fn new(compression: ReplyCompression) -> Self {
        Self { compression, turns: Turns::default(), now: Now::Between }
    }

    fn whole<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        mut head: ReplyHead,
        mut body: Bytes,
        done: WritePromise,
    ) {
        if self.compression.is_for(&head, Some(body.len() as u64)) {
            add_vary(&mut head.headers, "accept-encoding");
            let coding = self.turns.current().map_or(Coding::Identity, |coding| *coding);
            if let Some(mut compressor) = self.compression.compressor(coding)
                && let Ok(coded) = squeeze(&mut compressor, &body, Flush::Finish)
                && coded.len() < body.len()
            {
                announce(&mut head.headers, coding);
                body = coded;
            }
        }
        cx.write_with(HttpPart::Whole(head, body), done);
    }

    fn head<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, mut head: ReplyHead, done: WritePromise) {
        self.settle(cx, false); // a head behind a head is for the codec to refuse
        let mut coding = Coding::Identity;
        if self.compression.is_for(&head, None) {
            add_vary(&mut head.headers, "accept-encoding");
            coding = self.turns.current().map_or(Coding::Identity, |coding| *coding);
        }
        if coding == Coding::Identity {
            self.now = Now::Plain;
            return cx.write_with(HttpPart::Head(head), done);
        }
        self.now = Now::Held(Box::new(head), coding, done);
    }

    /// Lets a head go that was held: to be followed by coded pieces, or as it is.
    fn settle<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, coded: bool) {
        if !matches!(self.now, Now::Held(..)) {
            return;
        }
        let Now::Held(mut head, coding, done) = std::mem::replace(&mut self.now, Now::Plain) else { return };
        if coded && let Some(compressor) = self.compression.compressor(coding) {
            announce(&mut head.headers, coding);
            self.now = Now::Coded { compressor, unflushed: false };
        }
        cx.write_with(HttpPart::Head(*head), done);
    }

    /// Writes what was put in and has not come out, if the reply is coded.
    fn bring_out<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, flush: Flush) {
        let Now::Coded { compressor, unflushed } = &mut self.now else { return };
        *unflushed = false;
        match squeeze(compressor, &[], flush) {
            Ok(rest) if rest.is_empty() => {}
            Ok(rest) => cx.write(HttpPart::Data(rest)),
            Err(error) => give_up(cx, error, WritePromise::untracked()),
        }
    }

    fn data<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, data: Bytes, done: WritePromise) {
        let Now::Coded { compressor, unflushed } = &mut self.now else {
            return cx.write_with(HttpPart::Data(data), done);
        };
        // Whoever wants to know when this is sent wants it to be sent.
        let flush = if done.is_tracked() { Flush::Sync } else { Flush::None };
        match squeeze(compressor, &data, flush) {
            Ok(coded) => {
                *unflushed |= flush == Flush::None && !data.is_empty();
                match coded.is_empty() {
                    true => done.succeed(),
                    false => cx.write_with(HttpPart::Data(coded), done),
                }
            }
            Err(error) => give_up(cx, error, done),
        }
    }
}

/// A reply that has begun cannot be completed. Its connection ends, whatever anybody behind makes of errors: with the end of the
/// reply, a part of it would be taken for the whole.
#[cold]
fn give_up<P: Place>(
    cx: &mut Context<'_, ReplyCompressionStage, P>,
    error: impl Error + Send + Sync + 'static,
    done: WritePromise,
) {
    let fault = Fault::new(error);
    done.fail(WriteError::Fault(fault.clone()));
    cx.close_because(CloseCause::Fault(fault));
}

/// Puts something in and takes out all that comes of it.
fn squeeze(compressor: &mut Compressor, input: &[u8], flush: Flush) -> Result<Bytes, CompressError> {
    let mut out = BytesMut::new();
    compressor.compress(input, flush, &mut out, usize::MAX)?; // with that much room one call does all
    Ok(out.freeze())
}

/// A file was written into a reply that had begun to be compressed. Sending it is the system's business, so it cannot be.
///
/// A reply that begins with a file is not compressed, and one that says `Cache-Control: no-transform` neither.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileInCoded {
    len: u64,
}

impl fmt::Display for FileInCoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of a file were written into a reply that had begun to be compressed", self.len)
    }
}

impl Error for FileInCoded {}

//! Replies, compressed.
//!
//! ```text
//!   Head ──▶ Held ── Data, flush ──▶ Coded ── Data … ──▶ End       its first part decides: a file stays one
//!              └──── File, End ────▶ Plain ── anything ──▶ End
//!   Whole ──▶ compressed in one go, if it gets smaller by that
//! ```
//! Always true: a head waits for the part behind it, or for a flush, and for nothing else.

use super::format;
use crate::{
    Part, ReplyHead, ReplyPart, RequestPart,
    grammar::elements,
    web::{
        Coding, MediaType,
        accept::add_vary,
        turns::{Turns, ends},
    },
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, header};
use netwright_codec::{CompressError, Compressor, Flush};
use netwright_core::{CloseCause, Context, Fault, Handler, InvalidArgument, WriteError, WritePromise};
use std::{error::Error, fmt, sync::Arc};

/// A smaller body saves less than a packet; that is not worth the work.
const THRESHOLD: u64 = 1024;
/// How far back streams refer: a reply that is under way keeps a few times as much, and there may be many.
const WINDOW: u64 = 1 << 18;

/// Which replies are compressed, and how. Cheap to clone: one for all connections.
///
/// Left alone are replies to `HEAD` and `CONNECT`, 1xx, 204, 205, 206 and 304, what is coded already, has a range or a digest, says
/// `no-transform`, lies in a file, is shorter than the threshold, or is of a type that does not get smaller.
///
/// ```
/// use netwright_core::{Workers, pipeline};
/// use netwright_http::{HttpServer, web::{Coding, Compression}};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let compression = Compression::new().threshold(4096).codings(&[Coding::Gzip])?.level(Coding::Gzip, 4)?;
/// // for each connection
/// let stages = pipeline().add(HttpServer::new()).add(compression.stage());
/// # drop(stages);
/// // or, where replies are large
/// let workers = Workers::new(4)?;
/// let stages = pipeline().add(HttpServer::new()).add_on(&workers, compression.stage());
/// # drop(stages);
/// # Ok(())
/// # }
/// ```
///
/// A page that shows both a secret and what a request said gives the secret away by its length when it is compressed, over TLS too
/// (BREACH). Such a reply says `Cache-Control: no-transform`.
///
/// Compressing is done on the loop: a megabyte of text takes some 10 ms. What is large and does not change is better
/// compressed beforehand ([`Files::precompressed`](crate::web::Files::precompressed)), or on workers (`add_on`).
#[derive(Debug, Clone)]
pub struct Compression(Arc<Settings>);

#[derive(Debug, Clone)]
struct Settings {
    threshold: u64,
    codings: Vec<Coding>,
    levels: Vec<(Coding, i32)>,
    all_types: bool,
}

impl Default for Compression {
    fn default() -> Self {
        Self::new()
    }
}

impl Compression {
    /// With zstd, Brotli and gzip, in this order among equals, for text of 1 KiB and more.
    pub fn new() -> Self {
        Self(Arc::new(Settings {
            threshold: THRESHOLD,
            codings: vec![Coding::Zstd, Coding::Brotli, Coding::Gzip],
            levels: Vec::new(),
            all_types: false,
        }))
    }

    /// How long a body has to be, if its length is known. Default: 1 KiB.
    pub fn threshold(mut self, bytes: u64) -> Self {
        self.settings().threshold = bytes;
        self
    }

    /// Which codings are offered, the one first that one would rather use.
    ///
    /// # Errors
    /// There are none among them that compress.
    pub fn codings(mut self, codings: &[Coding]) -> Result<Self, InvalidArgument> {
        let codings: Vec<_> = codings.iter().copied().filter(|coding| *coding != Coding::Identity).collect();
        if codings.is_empty() {
            let (value, expected) = ("[]".to_owned(), "at least one that compresses".to_owned());
            return Err(InvalidArgument { argument: "the codings of replies", value, expected });
        }
        self.settings().codings = codings;
        Ok(self)
    }

    /// How hard a coding tries.
    ///
    /// # Errors
    /// The coding has no such level.
    pub fn level(mut self, coding: Coding, level: i32) -> Result<Self, InvalidArgument> {
        if let Some(format) = format(coding) {
            Compressor::new(format).level(level)?;
            let settings = self.settings();
            settings.levels.retain(|(known, _)| *known != coding);
            settings.levels.push((coding, level));
        }
        Ok(self)
    }

    /// Compresses all types, and what has none.
    pub fn all_types(mut self) -> Self {
        self.settings().all_types = true;
        self
    }

    /// A stage for one connection.
    pub fn stage(&self) -> ReplyCompression {
        ReplyCompression { compression: self.clone(), turns: Turns::default(), now: Now::Between }
    }

    fn settings(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.0)
    }

    /// Whether a reply may be compressed at all, for whoever accepts it.
    fn is_for(&self, head: &ReplyHead, len: Option<u64>) -> bool {
        let (settings, headers) = (&self.0, &head.headers);
        let len = len.or_else(|| headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok());
        let bodiless = head.status.is_informational() || matches!(head.status.as_u16(), 204..=206 | 304);
        !bodiless
            && len.is_none_or(|len| len >= settings.threshold)
            && !LEFT_ALONE.iter().any(|name| headers.contains_key(*name))
            && !says_no_transform(headers)
            && (settings.all_types
                || MediaType::of(headers)
                    .is_ok_and(|media| media.is_some_and(|media| media.is_compressible())))
    }

    fn compressor(&self, coding: Coding) -> Option<Box<Compressor>> {
        let mut compressor = Compressor::new(format(coding)?);
        if coding != Coding::Gzip {
            compressor = compressor.window(WINDOW).ok()?;
        }
        if let Some((_, level)) = self.0.levels.iter().find(|(known, _)| *known == coding) {
            compressor = compressor.level(*level).ok()?;
        }
        Some(Box::new(compressor))
    }
}

/// Headers that are about the very bytes of a body.
const LEFT_ALONE: &[&str] =
    &["content-encoding", "content-range", "content-md5", "content-digest", "digest", "repr-digest"];

fn says_no_transform(headers: &HeaderMap) -> bool {
    headers.get_all(header::CACHE_CONTROL).iter().any(|value| {
        elements(value.as_bytes()).any(|directive| directive.eq_ignore_ascii_case(b"no-transform"))
    })
}

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

/// The stage that compresses replies. Made by [`Compression::stage`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_http::{HttpServer, web::Compression};
///
/// let compression = Compression::new().threshold(1024); // one for all connections
/// let _stages = pipeline().add(HttpServer::new()).add(compression.stage()); // a stage for each
/// ```
#[derive(Debug)]
pub struct ReplyCompression {
    compression: Compression,
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

impl Handler for ReplyCompression {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        if let Part::Head(head) | Part::Whole(head, _) = &part {
            let bodiless = head.method == Method::HEAD || head.method == Method::CONNECT;
            let coding =
                if bodiless { None } else { Coding::choose(&head.headers, &self.compression.0.codings) };
            self.turns.expect(coding.unwrap_or(Coding::Identity));
        }
        cx.fire_read(part);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        let over = ends(&part);
        match part {
            Part::Interim(_) => return cx.write_with(part, done),
            Part::Whole(head, body) => self.whole(cx, head, body, done),
            Part::Head(head) => self.head(cx, head, done),
            Part::Data(data) => {
                self.settle(cx, true);
                self.data(cx, data, done);
            }
            Part::File(region) => {
                self.settle(cx, false);
                if matches!(self.now, Now::Coded { .. }) {
                    give_up(cx, FileInCoded { len: region.remaining() }, done);
                } else {
                    cx.write_with(Part::File(region), done);
                }
            }
            Part::End(trailers) => {
                self.settle(cx, false);
                if let Now::Coded { compressor, .. } = &mut self.now {
                    match squeeze(compressor, &[], Flush::Finish) {
                        Ok(last) if last.is_empty() => {}
                        Ok(last) => cx.write(Part::Data(last)),
                        Err(error) => give_up(cx, error, WritePromise::untracked()),
                    }
                }
                cx.write_with(Part::End(trailers), done);
            }
        }
        if over {
            self.now = Now::Between;
            self.turns.done(cx);
        }
    }

    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.settle(cx, true);
        if let Now::Coded { compressor, unflushed } = &mut self.now
            && std::mem::take(unflushed)
        {
            match squeeze(compressor, &[], Flush::Sync) {
                Ok(data) if data.is_empty() => {}
                Ok(data) => cx.write(Part::Data(data)),
                Err(error) => give_up(cx, error, WritePromise::untracked()),
            }
        }
        cx.flush();
    }
}

impl ReplyCompression {
    fn whole(
        &mut self,
        cx: &mut Context<'_, Self>,
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
        cx.write_with(Part::Whole(head, body), done);
    }

    fn head(&mut self, cx: &mut Context<'_, Self>, mut head: ReplyHead, done: WritePromise) {
        self.settle(cx, false); // a head behind a head is for the codec to refuse
        let mut coding = Coding::Identity;
        if self.compression.is_for(&head, None) {
            add_vary(&mut head.headers, "accept-encoding");
            coding = self.turns.current().map_or(Coding::Identity, |coding| *coding);
        }
        if coding == Coding::Identity {
            self.now = Now::Plain;
            return cx.write_with(Part::Head(head), done);
        }
        self.now = Now::Held(Box::new(head), coding, done);
    }

    /// Lets a head go that was held: to be followed by coded pieces, or as it is.
    fn settle(&mut self, cx: &mut Context<'_, Self>, coded: bool) {
        if !matches!(self.now, Now::Held(..)) {
            return;
        }
        let Now::Held(mut head, coding, done) = std::mem::replace(&mut self.now, Now::Plain) else { return };
        if coded && let Some(compressor) = self.compression.compressor(coding) {
            announce(&mut head.headers, coding);
            self.now = Now::Coded { compressor, unflushed: false };
        }
        cx.write_with(Part::Head(*head), done);
    }

    fn data(&mut self, cx: &mut Context<'_, Self>, data: Bytes, done: WritePromise) {
        let Now::Coded { compressor, unflushed } = &mut self.now else {
            return cx.write_with(Part::Data(data), done);
        };
        // Whoever wants to know when this is sent wants it to be sent.
        let flush = if done.is_tracked() { Flush::Sync } else { Flush::None };
        match squeeze(compressor, &data, flush) {
            Ok(coded) => {
                *unflushed |= flush == Flush::None && !data.is_empty();
                match coded.is_empty() {
                    true => done.succeed(),
                    false => cx.write_with(Part::Data(coded), done),
                }
            }
            Err(error) => give_up(cx, error, done),
        }
    }
}

/// A reply that has begun cannot be completed. Its connection ends, whatever anybody behind makes of errors: with the end of the
/// reply, a part of it would be taken for the whole.
#[cold]
fn give_up(
    cx: &mut Context<'_, ReplyCompression>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HttpServer;
    use crate::web::testing::{Directory, HttpEmbedded, reply_head, request, shown};
    use netwright_codec::Decompressor;
    use netwright_core::{AppContext, Application, EmbeddedChannel, FileRegion, pipeline};

    const TEXT: (&str, &str) = ("content-type", "text/plain");

    fn accepting(coding: &str) -> RequestPart {
        request("GET", "/", &[("accept-encoding", coding)])
    }

    fn channel() -> HttpEmbedded {
        let compression = Compression::new().threshold(100);
        HttpEmbedded::new(|_| compression.stage())
    }

    fn unpack(coding: Coding, data: &[u8]) -> String {
        let (mut out, mut decompressor) = (BytesMut::new(), Decompressor::new(format(coding).unwrap()));
        decompressor.decompress(data, &mut out, usize::MAX).unwrap();
        String::from_utf8(out.to_vec()).unwrap()
    }

    fn headers(part: &ReplyPart) -> &HeaderMap {
        match part {
            Part::Head(head) | Part::Whole(head, _) => &head.headers,
            _ => panic!("no head"),
        }
    }

    #[test]
    fn a_whole_reply_is_compressed_by_what_the_request_prefers() {
        let text = "hello, hello, ".repeat(100);
        for (accept, coding) in [
            ("gzip", Coding::Gzip),
            ("br", Coding::Brotli),
            ("zstd", Coding::Zstd),
            ("gzip;q=0.5, br;q=0.8, zstd;q=0.1", Coding::Brotli),
            ("*", Coding::Zstd),
            ("gzip;q=0, identity", Coding::Identity),
            ("", Coding::Identity),
            ("*;q=0", Coding::Identity),
        ] {
            let mut channel = channel();
            channel.ask(accepting(accept));
            channel.reply(Part::Whole(
                reply_head(
                    200,
                    &[TEXT, ("etag", "\"a\""), ("content-length", "1400"), ("accept-ranges", "bytes")],
                ),
                text.clone().into(),
            ));
            let replies = channel.replies();
            let [Part::Whole(head, body)] = replies.as_slice() else { panic!("{replies:?}") };
            assert_eq!(head.headers["vary"], "accept-encoding", "{accept}");
            if coding == Coding::Identity {
                assert_eq!((&**body, &head.headers["etag"]), (text.as_bytes(), &"\"a\"".parse().unwrap()));
                assert!(!head.headers.contains_key("content-encoding"));
            } else {
                assert_eq!(head.headers["content-encoding"], coding.name());
                assert_eq!(head.headers["etag"], "W/\"a\"");
                assert!(
                    !head.headers.contains_key("content-length")
                        && !head.headers.contains_key("accept-ranges")
                );
                assert!(body.len() < 200);
                assert_eq!(unpack(coding, body), text);
            }
        }
    }

    #[test]
    fn what_has_to_be_left_alone_is() {
        let body = Bytes::from("x".repeat(1000));
        let leave = |method: &str, status: u16, list: &[(&str, &str)], body: &Bytes| {
            let mut channel = channel();
            channel.ask(request(method, "/", &[("accept-encoding", "gzip")]));
            channel.reply(Part::Whole(reply_head(status, list), body.clone()));
            let replies = channel.replies();
            assert!(
                !headers(&replies[0]).contains_key("content-encoding")
                    || list.iter().any(|(name, _)| *name == "content-encoding"),
                "{method} {status} {list:?}"
            );
            assert!(
                matches!(&replies[0], Part::Whole(_, same) if same == body),
                "{method} {status} {list:?}"
            );
        };
        leave("HEAD", 200, &[TEXT], &body);
        leave("CONNECT", 200, &[TEXT], &body);
        for status in [101, 204, 206, 304] {
            leave("GET", status, &[TEXT], &body);
        }
        leave("GET", 200, &[TEXT, ("content-encoding", "br")], &body);
        leave("GET", 200, &[TEXT, ("content-range", "bytes 0-1/2")], &body);
        leave("GET", 200, &[TEXT, ("cache-control", "public, No-Transform")], &body);
        leave("GET", 200, &[("content-type", "image/png")], &body);
        leave("GET", 200, &[], &body);
        leave("GET", 200, &[TEXT], &body.slice(..99));
        // What does not get smaller is sent as it is.
        let noise: Bytes =
            (0..200u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        leave("GET", 200, &[TEXT], &noise);
    }

    #[test]
    fn interim_replies_pass_and_keep_the_turn() {
        let mut channel = channel();
        channel.ask(accepting("gzip"));
        channel.reply(Part::Interim(reply_head(103, &[TEXT])));
        channel.reply(Part::Whole(reply_head(200, &[TEXT]), "x".repeat(1000).into()));
        let replies = channel.replies();
        assert_eq!(shown(&replies[0]), "Interim 103");
        assert_eq!(headers(&replies[1])["content-encoding"], "gzip");
    }

    #[test]
    fn each_flush_of_a_stream_can_be_read_at_once() {
        for coding in Coding::ALL {
            let mut channel = channel();
            channel.ask(accepting(coding.name()));
            channel.reply(Part::Head(reply_head(200, &[("content-type", "text/event-stream")])));
            let head = channel.replies();
            assert_eq!(headers(&head[0])["content-encoding"], coding.name(), "a flush lets the head go");
            let (mut decompressor, mut out) = (Decompressor::new(format(coding).unwrap()), BytesMut::new());
            let mut text = String::new();
            for event in 0..20 {
                let event = format!("data: {event}\n\n");
                text.push_str(&event);
                channel.reply(Part::Data(event.into()));
                for part in channel.replies() {
                    let Part::Data(data) = part else { panic!("{part:?}") };
                    decompressor.decompress(&data, &mut out, usize::MAX).unwrap();
                }
                assert_eq!(out, text.as_bytes(), "{coding:?}");
            }
            channel.reply(Part::End(None));
            let last = channel.replies();
            if let [Part::Data(data), Part::End(_)] = last.as_slice() {
                decompressor.decompress(data, &mut out, usize::MAX).unwrap();
            }
            decompressor.finish().unwrap();
            assert_eq!(out, text.as_bytes());
        }
    }

    #[test]
    fn files_and_empty_bodies_stay_what_they_are() {
        let directory = Directory::new();
        directory.write("file", "x".repeat(1000));
        let region =
            || FileRegion::whole(std::fs::File::open(directory.path().join("file")).unwrap()).unwrap();
        let mut channel = channel();
        for _ in 0..3 {
            channel.ask(accepting("gzip"));
        }
        let stream = channel.channel.channel().clone();
        stream.write(Part::Head(reply_head(200, &[TEXT, ("content-length", "1000")])));
        stream.write(Part::File(region()));
        stream.send(Part::End(None));
        let replies = channel.replies();
        assert_eq!(replies.iter().map(shown).collect::<Vec<_>>(), ["Head 200", "File 0+1000", "End"]);
        assert_eq!(headers(&replies[0])["content-length"], "1000");
        stream.write(Part::Head(reply_head(200, &[TEXT])));
        stream.send(Part::End(None));
        let replies = channel.replies();
        assert!(!headers(&replies[0]).contains_key("content-encoding"));
        // Too late for a file: the reply cannot be kept, so the connection is not.
        channel.reply(Part::Head(reply_head(200, &[TEXT])));
        channel.reply(Part::File(region()));
        assert!(!channel.channel.is_open());
        let cause = channel.channel.channel().close_cause().unwrap().to_string();
        assert!(cause.contains("1000 bytes of a file"), "{cause}");
    }

    #[test]
    fn a_reply_that_cannot_be_completed_does_not_look_complete_whatever_is_made_of_errors() {
        struct Careless;
        impl Application for Careless {
            type Read = RequestPart;
            type Write = ReplyPart;
            fn read(&mut self, cx: &mut AppContext<'_, Self>, _: RequestPart) {
                let directory = Directory::new();
                directory.write("file", "x".repeat(1000));
                let file = std::fs::File::open(directory.path().join("file")).unwrap();
                cx.write(Part::Head(reply_head(200, &[TEXT])));
                cx.write(Part::Data("some".into()));
                cx.write(Part::File(FileRegion::new(file, 0, 1000)));
                cx.write(Part::End(None));
                cx.flush();
            }
            fn error(&mut self, _: &mut AppContext<'_, Self>, _: Fault) {}
        }
        let compression = Compression::new();
        let stages = pipeline().add(HttpServer::new()).add(compression.stage()).app(Careless);
        let mut channel = EmbeddedChannel::new(stages);
        channel.write_inbound("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
        let text = channel.outbound_bytes();
        assert!(!text.ends_with(b"0\r\n\r\n"), "{}", text.escape_ascii());
        assert!(!channel.is_open());
    }

    #[test]
    fn settings_that_cannot_be_are_refused() {
        assert!(Compression::new().codings(&[Coding::Identity]).is_err());
        assert!(
            Compression::new().level(Coding::Gzip, 10).unwrap_err().to_string().contains("between 0 and 9")
        );
        let none = Compression::new().all_types().threshold(0).codings(&[Coding::Gzip]).unwrap();
        let mut channel = HttpEmbedded::new(|_| none.stage());
        channel.ask(accepting("br, gzip;q=0.1"));
        channel.reply(Part::Whole(reply_head(200, &[("content-type", "image/png")]), "x".repeat(50).into()));
        assert_eq!(headers(&channel.replies()[0])["content-encoding"], "gzip");
    }
}

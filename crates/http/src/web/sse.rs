//! Server-sent events: a reply that does not end, text by text.
//!
//! ```text
//!   application ── Head(event_stream()) ── Data(event) … Data(event) ──▶ [ SseKeepAlive ] ──▶ [ compression ] ──▶ codec
//!                                                                          └ ":" when nobody had anything to say
//! ```
//! Always true: whatever an event's text is, it is one event for the reader; line ends in data make lines, and line ends
//! where none can be are refused.

use crate::{HttpPart, ReplyPart, RequestPart};
use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, header, response};
use netwright_core::{Context, Handler, StageTimer, WritePromise};
use std::{error::Error, fmt, time::Duration};

/// Where a reader that was cut off wants to go on.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A comment, which readers skip.
const KEEP_ALIVE: &[u8] = b":\n\n";

/// The head of a reply that carries events. Its body is written as `Data`, an event or several each, and ends with `End`.
///
/// ```
/// use netwright_http::web::event_stream;
///
/// assert_eq!(event_stream().headers["content-type"], "text/event-stream");
/// ```
pub fn event_stream() -> response::Parts {
    let mut head = Response::new(()).into_parts().0;
    head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    head.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    head
}

/// The identifier of the last event that a reader has seen before it was cut off.
///
/// ```
/// # let mut headers = http::HeaderMap::new();
/// headers.insert("last-event-id", "41".parse().unwrap());
/// assert_eq!(netwright_http::web::last_event_id(&headers), Some("41"));
/// ```
pub fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    std::str::from_utf8(headers.get(LAST_EVENT_ID)?.as_bytes()).ok()
}

/// One event.
///
/// ```
/// use netwright_http::web::SseEvent;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let event = SseEvent::data("two\nlines").event("note")?.id("7")?.retry(Duration::from_secs(3));
/// assert_eq!(event.to_bytes(), "id: 7\nevent: note\nretry: 3000\ndata: two\ndata: lines\n\n");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct SseEvent {
    data: Option<String>,
    event: Option<String>,
    id: Option<String>,
    retry: Option<Duration>,
    comment: Option<String>,
}

impl SseEvent {
    /// An event with this text, which may have several lines.
    pub fn data(text: impl Into<String>) -> Self {
        Self { data: Some(text.into()), ..Self::default() }
    }

    /// No event, but a comment that readers skip.
    pub fn comment(text: impl Into<String>) -> Self {
        Self { comment: Some(text.into()), ..Self::default() }
    }

    /// An event with a value as JSON.
    ///
    /// # Errors
    /// The value cannot be written as JSON.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self::data(serde_json::to_string(value)?))
    }

    /// Its kind; `message` if it has none.
    pub fn event(mut self, name: impl Into<String>) -> Result<Self, SseError> {
        self.event = Some(one_line("event", name.into())?);
        Ok(self)
    }

    /// What a reader that is cut off after this event asks to go on from.
    pub fn id(mut self, id: impl Into<String>) -> Result<Self, SseError> {
        let id = one_line("id", id.into())?;
        if id.contains('\0') {
            return Err(SseError { field: "id", what: "a NUL" }); // readers ignore such an id
        }
        self.id = Some(id);
        Ok(self)
    }

    /// How long a reader that was cut off waits before it comes back.
    pub fn retry(mut self, time: Duration) -> Self {
        self.retry = Some(time);
        self
    }

    /// The event as it goes over the wire.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(64 + self.data.as_ref().map_or(0, String::len));
        self.write_to(&mut out);
        out.freeze()
    }

    /// Appends the event, so that several make one `Data`.
    pub fn write_to(&self, out: &mut BytesMut) {
        let mut field = |name: &str, value: &str| {
            out.put_slice(name.as_bytes());
            out.put_slice(value.as_bytes());
            out.put_u8(b'\n');
        };
        for line in self.comment.iter().flat_map(|text| lines(text)) {
            field(": ", line);
        }
        if let Some(id) = &self.id {
            field("id: ", id);
        }
        if let Some(event) = &self.event {
            field("event: ", event);
        }
        if let Some(retry) = self.retry {
            field("retry: ", &retry.as_millis().to_string());
        }
        for line in self.data.iter().flat_map(|text| lines(text)) {
            field("data: ", line);
        }
        out.put_u8(b'\n');
    }
}

/// Lines as readers see them: CR LF, LF and CR each end one.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(at) = memchr::memchr2(b'\r', b'\n', text.as_bytes()) else {
            rest = None;
            return Some(text);
        };
        let end = if text[at..].starts_with("\r\n") { at + 2 } else { at + 1 };
        rest = Some(&text[end..]);
        Some(&text[..at])
    })
}

fn one_line(field: &'static str, text: String) -> Result<String, SseError> {
    if text.contains(['\r', '\n']) {
        return Err(SseError { field, what: "a line end" });
    }
    Ok(text)
}

/// Why a field of an event cannot be so.
///
/// ```
/// use netwright_http::web::SseEvent;
///
/// assert!(SseEvent::data("hello").event("two\nlines").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseError {
    /// Which.
    pub field: &'static str,
    /// What it has and must not have.
    pub what: &'static str,
}

impl fmt::Display for SseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of a server-sent event has {}", self.field, self.what)
    }
}

impl Error for SseError {}

/// Writes a comment into event streams that were silent for a while, so that nobody on the way takes them for dead.
///
/// A stage through which everything else passes. It goes by a reply's content type, and never writes into the middle of a
/// line. After a silence of one to two periods a comment is sent; none while there is no room to write.
///
/// ```
/// use netwright_http::web::SseKeepAlive;
/// use std::time::Duration;
///
/// // pipeline().add(HttpServer::new()).add(SseKeepAlive::every(Duration::from_secs(15))).…
/// let stage = SseKeepAlive::every(Duration::from_secs(15));
/// # let _ = stage;
/// ```
#[derive(Debug)]
pub struct SseKeepAlive {
    period: Duration,
    timer: Option<StageTimer>,
    /// A reply with events is under way, and the last line is whole.
    between_lines: bool,
    silent: bool,
}

impl SseKeepAlive {
    /// With a comment after this long at the earliest.
    pub fn every(period: Duration) -> Self {
        Self { period, timer: None, between_lines: false, silent: false }
    }

    fn stop(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(timer) = self.timer.take() {
            cx.disarm(timer);
        }
    }
}

impl Handler for SseKeepAlive {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        cx.fire_read(part);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        match &part {
            HttpPart::Head(head) => {
                let is_stream = head.headers.get(header::CONTENT_TYPE).is_some_and(is_event_stream);
                self.stop(cx);
                if is_stream {
                    (self.between_lines, self.silent) = (true, true);
                    self.timer = Some(cx.arm(self.period));
                }
            }
            HttpPart::Data(data) => {
                self.silent = false;
                if let Some(last) = data.last() {
                    self.between_lines = *last == b'\n';
                }
            }
            HttpPart::File(_) => (self.silent, self.between_lines) = (false, false),
            HttpPart::End(_) | HttpPart::Whole(..) => self.stop(cx),
            HttpPart::Interim(_) => {}
        }
        cx.write_with(part, done);
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        if self.timer != Some(timer) {
            return;
        }
        if self.silent && self.between_lines && cx.is_writable() {
            cx.write_and_flush(HttpPart::Data(Bytes::from_static(KEEP_ALIVE)));
        }
        self.silent = true;
        self.timer = Some(cx.arm(self.period));
    }

    fn start_over(&mut self) -> bool {
        *self = Self::every(self.period);
        true
    }
}

fn is_event_stream(value: &HeaderValue) -> bool {
    value
        .to_str()
        .ok()
        .and_then(|text| super::MediaType::parse(text).ok())
        .is_some_and(|media| media.is("text/event-stream"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::testing::{HttpEmbedded, reply_head, request, shown};

    #[test]
    fn any_text_is_one_event() {
        for (text, wire) in [
            ("", "data: \n\n"),
            ("a", "data: a\n\n"),
            ("a\nb\rc\r\nd", "data: a\ndata: b\ndata: c\ndata: d\n\n"),
            ("\n\nevent: x", "data: \ndata: \ndata: event: x\n\n"),
            ("end\n", "data: end\ndata: \n\n"),
            ("é\u{2028}", "data: é\u{2028}\n\n"),
        ] {
            assert_eq!(SseEvent::data(text).to_bytes(), wire, "{text:?}");
        }
        assert_eq!(SseEvent::comment("a\nb").to_bytes(), ": a\n: b\n\n");
    }

    #[test]
    fn line_ends_and_nul_are_refused_where_none_can_be() {
        for text in ["a\nb", "a\rb", "\n"] {
            assert!(
                SseEvent::data("").event(text).is_err() && SseEvent::data("").id(text).is_err(),
                "{text:?}"
            );
        }
        let error = SseEvent::data("").id("a\0").unwrap_err();
        assert_eq!(error.to_string(), "the id of a server-sent event has a NUL");
    }

    fn written(channel: &mut HttpEmbedded) -> Vec<String> {
        channel.replies().iter().map(shown).collect()
    }

    #[test]
    fn silence_is_filled_with_comments_and_events_put_them_off() {
        let secs = Duration::from_secs;
        let mut channel = HttpEmbedded::new(|_| SseKeepAlive::every(secs(10)));
        channel.ask(request("GET", "/", &[]));
        channel.reply(HttpPart::Head(event_stream().into()));
        channel.advance(secs(9));
        assert_eq!(written(&mut channel), ["Head 200"]);
        channel.advance(secs(1));
        assert_eq!(written(&mut channel), ["Data :\\n\\n"]);
        channel.reply(HttpPart::Data(SseEvent::data("x").to_bytes())).advance(secs(10));
        assert_eq!(written(&mut channel), ["Data data: x\\n\\n"], "somebody has said something");
        channel.reply(HttpPart::Data("data: hal".into())).advance(secs(30));
        assert_eq!(written(&mut channel), ["Data data: hal"], "never into the middle of a line");
        channel.reply(HttpPart::Data("f\n\n".into())).reply(HttpPart::End(None)).advance(secs(100));
        assert_eq!(written(&mut channel), ["Data f\\n\\n", "End"], "and not when it is over");
    }

    #[test]
    fn other_replies_and_peers_that_do_not_read_get_no_comments() {
        let secs = Duration::from_secs;
        let mut channel = HttpEmbedded::new(|_| SseKeepAlive::every(secs(10)));
        channel.reply(HttpPart::Head(reply_head(200, &[("content-type", "text/plain")]))).advance(secs(100));
        assert_eq!(written(&mut channel), ["Head 200"]);
        channel.reply(HttpPart::End(None));
        channel
            .reply(HttpPart::Head(reply_head(200, &[("content-type", "Text/Event-Stream; charset=utf-8")])));
        channel.channel.block_output(true);
        channel.advance(secs(1_000_000));
        // Each comment is a byte in this test, so the high water mark is where they stop.
        assert!(written(&mut channel).len() <= 64 * 1024 + 2);
        channel.channel.block_output(false);
    }
}

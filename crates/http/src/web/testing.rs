//! For tests of stages that lie between codec and application: parts in, parts out, nothing in between.

use crate::{HttpPart, ReplyPart, RequestPart};
use netwright_core::{EmbeddedChannel, Handler, HostSettings, pipeline};
use std::time::Duration;

/// A channel of parts: requests come as they are, and replies leave as they are.
pub(crate) type PartsChannel<R = RequestPart> = EmbeddedChannel<R, ReplyPart, RequestPart, ReplyPart>;

/// A stage between the wire and a collector.
pub(crate) struct HttpEmbedded {
    pub(crate) channel: PartsChannel,
}

impl HttpEmbedded {
    pub(crate) fn new<H>(stage: impl FnOnce(()) -> H) -> Self
    where
        H: Handler<Read = RequestPart, ReadOut = RequestPart, Write = ReplyPart, WriteOut = ReplyPart>,
    {
        let stages = pipeline().add(stage(()));
        Self { channel: EmbeddedChannel::of_messages_with(stages, HostSettings::default(), HttpPart::WEIGHT) }
    }

    /// A request, or a part of one, comes.
    pub(crate) fn ask(&mut self, part: RequestPart) -> &mut Self {
        self.channel.receive(part);
        self
    }

    /// The application writes and flushes.
    pub(crate) fn reply(&mut self, part: ReplyPart) -> &mut Self {
        self.channel.write_outbound(part);
        self
    }

    /// What the application has read, as short texts.
    pub(crate) fn requests(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.channel.read_inbound()).map(|part| shown_request(&part)).collect()
    }

    /// What was sent.
    pub(crate) fn replies(&mut self) -> Vec<ReplyPart> {
        std::iter::from_fn(|| self.channel.read_outbound()).collect()
    }

    pub(crate) fn advance(&mut self, by: Duration) -> &mut Self {
        self.channel.advance(by);
        self
    }
}

pub(crate) fn request(method: &str, uri: &str, headers: &[(&str, &str)]) -> RequestPart {
    let mut builder = http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    HttpPart::Head(builder.body(()).unwrap().into())
}

pub(crate) fn reply_head(status: u16, headers: &[(&str, &str)]) -> crate::ReplyHead {
    let mut builder = http::Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(()).unwrap().into()
}

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

pub(crate) fn shown_request(part: &RequestPart) -> String {
    match part {
        HttpPart::Head(head) => format!("Head {} {}", head.method, head.uri),
        HttpPart::Whole(head, body) => format!("Whole {} {} {}", head.method, head.uri, text(body)),
        other => shown_rest(other),
    }
}

pub(crate) fn shown(part: &ReplyPart) -> String {
    match part {
        HttpPart::Head(head) => format!("Head {}", head.status.as_u16()),
        HttpPart::Whole(head, body) => format!("Whole {} {}", head.status.as_u16(), text(body)),
        HttpPart::Interim(head) => format!("Interim {}", head.status.as_u16()),
        other => shown_rest(other),
    }
}

fn shown_rest<H>(part: &HttpPart<H>) -> String {
    match part {
        HttpPart::Data(data) => format!("Data {}", text(data)),
        HttpPart::File(region) => format!("File {}+{}", region.position(), region.remaining()),
        HttpPart::End(_) => "End".to_owned(),
        _ => "?".to_owned(),
    }
}

/// A directory that is gone when the test is over.
pub(crate) struct Directory(std::path::PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("netwright-http-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        self
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

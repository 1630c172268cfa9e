//! For tests of stages that lie between codec and application: parts in, parts out, nothing in between.

use crate::{Part, ReplyPart, RequestPart};
use bytes::{Bytes, BytesMut};
use netwright_core::{Context, EmbeddedChannel, Handler, Weight, WritePromise, pipeline};
use std::{cell::RefCell, collections::VecDeque, rc::Rc, time::Duration};

/// Stands for the codec: requests are put into a queue, and each byte that is read stands for one of them.
pub(crate) struct FakeCodec {
    requests: Rc<RefCell<VecDeque<RequestPart>>>,
    replies: Rc<RefCell<Vec<ReplyPart>>>,
    bytes: usize,
}

impl FakeCodec {
    pub(crate) fn new(
        requests: Rc<RefCell<VecDeque<RequestPart>>>,
        replies: Rc<RefCell<Vec<ReplyPart>>>,
    ) -> Self {
        Self { requests, replies, bytes: 0 }
    }
}

impl Handler for FakeCodec {
    type Read = BytesMut;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = Bytes;
    const WEIGHT: Weight<ReplyPart> = Part::WEIGHT;

    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.bytes += bytes.len();
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<RequestPart> {
        self.bytes = self.bytes.checked_sub(1)?;
        self.requests.borrow_mut().pop_front()
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        self.replies.borrow_mut().push(part);
        cx.write_with(Bytes::from_static(b"."), done);
    }
}

/// A stage between such a codec and a collector.
pub(crate) struct HttpEmbedded {
    pub(crate) channel: EmbeddedChannel<RequestPart, ReplyPart>,
    queue: Rc<RefCell<VecDeque<RequestPart>>>,
    replies: Rc<RefCell<Vec<ReplyPart>>>,
}

impl HttpEmbedded {
    pub(crate) fn new<H>(stage: impl FnOnce(()) -> H) -> Self
    where
        H: Handler<Read = RequestPart, ReadOut = RequestPart, Write = ReplyPart, WriteOut = ReplyPart>,
    {
        let (queue, replies) = (Rc::default(), Rc::default());
        let codec = FakeCodec::new(Rc::clone(&queue), Rc::clone(&replies));
        let channel = EmbeddedChannel::new(pipeline().add(codec).add(stage(())));
        Self { channel, queue, replies }
    }

    /// A request, or a part of one, comes.
    pub(crate) fn ask(&mut self, part: RequestPart) -> &mut Self {
        self.queue.borrow_mut().push_back(part);
        self.channel.write_inbound(b".");
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

    /// What the codec was asked to write.
    pub(crate) fn replies(&mut self) -> Vec<ReplyPart> {
        self.channel.run();
        self.replies.borrow_mut().drain(..).collect()
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
    Part::Head(builder.body(()).unwrap().into())
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
        Part::Head(head) => format!("Head {} {}", head.method, head.uri),
        Part::Whole(head, body) => format!("Whole {} {} {}", head.method, head.uri, text(body)),
        other => shown_rest(other),
    }
}

pub(crate) fn shown(part: &ReplyPart) -> String {
    match part {
        Part::Head(head) => format!("Head {}", head.status.as_u16()),
        Part::Whole(head, body) => format!("Whole {} {}", head.status.as_u16(), text(body)),
        Part::Interim(head) => format!("Interim {}", head.status.as_u16()),
        other => shown_rest(other),
    }
}

fn shown_rest<H>(part: &Part<H>) -> String {
    match part {
        Part::Data(data) => format!("Data {}", text(data)),
        Part::File(region) => format!("File {}+{}", region.position(), region.remaining()),
        Part::End(_) => "End".to_owned(),
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

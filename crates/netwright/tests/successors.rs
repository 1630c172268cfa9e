//! Whoever comes in the place of HTTP finds demand as it was before: every last stage of HTTP, every kind of successor, with and
//! without `auto_read`, by an upgrade to WebSocket and by a switch of one's own, and while the old stage is busy.

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use netwright::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, Event, Handler, Outgoing, Peer, Workers,
    WritePromise,
    channel::ShuttingDown,
    http::{
        Body, HttpPart, HttpServer, Received, ReplyHead, ReplyPart, RequestPart, respond, serve, tower,
        web::Files,
    },
    pipeline,
    pipeline::Switch,
    transport::HostSettings,
    websocket::{
        Accept, Config, Message, Upgrade, WebSocket,
        frame::{FrameHead, Opcode, mask},
    },
};
use std::{
    convert::Infallible,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context as TaskContext, Poll},
    time::{Duration, Instant},
};

type Outside = EmbeddedChannel<(), Infallible>;
type Way = Switch<Infallible>;

macro_rules! every {
    ($name:ident { $($kind:ident),+ }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        enum $name { $($kind),+ }
        impl $name {
            const ALL: &[Self] = &[$(Self::$kind),+];
        }
    };
}

every!(Last { Respond, Serve, Tower, Files });
impl Last {
    /// Whether it asks for each request, whatever the channel does by itself.
    fn asks_itself(self) -> bool {
        matches!(self, Self::Serve | Self::Tower)
    }
}

every!(Successor { Application, Closure, Tail });
every!(By { WebSocket, Switch });
every!(When { First, BehindAnother, WithAnother });

// ---- who comes ----

/// Sends everything back.
struct Echo<R>(std::marker::PhantomData<R>);

impl<R> Echo<R> {
    fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl Application for Echo<Message> {
    type Read = Message;
    type Write = Message;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
        cx.write_and_flush(message);
    }
}

impl Application for Echo<BytesMut> {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write_and_flush(bytes.freeze());
    }
}

async fn echo_messages(mut peer: Peer<Message, Message>) -> Result<(), CloseCause> {
    while let Some(message) = peer.read().await? {
        peer.write(message).await?;
    }
    Ok(())
}

async fn echo_bytes(mut peer: Peer) -> Result<(), CloseCause> {
    while let Some(bytes) = peer.read().await? {
        peer.write(bytes.freeze()).await?;
    }
    Ok(())
}

fn to_bytes(switch: &Way, successor: Successor) {
    match successor {
        Successor::Application => switch.to(pipeline().app(Echo::<BytesMut>::new()).sealed()),
        Successor::Closure => {
            switch.to(pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze())).sealed());
        }
        Successor::Tail => switch.to(pipeline().serve(echo_bytes).sealed()),
    }
}

fn upgrade(switch: Way, successor: Successor) -> Upgrade {
    let accept = Accept::new(Config::default().ping_after(None)).path("/leave");
    match successor {
        Successor::Application => Upgrade::new(switch, accept, |socket: WebSocket, _, _| {
            pipeline().add(socket).app(Echo::<Message>::new())
        }),
        Successor::Closure => Upgrade::new(switch, accept, |socket: WebSocket, _, _| {
            pipeline().add(socket).handle(|cx, message: Message| cx.write_and_flush(message))
        }),
        Successor::Tail => Upgrade::new(switch, accept, |socket: WebSocket, _, _| {
            pipeline().add(socket).serve(echo_messages)
        }),
    }
}

/// Changes to another protocol than WebSocket when it is asked to.
struct Gate {
    switch: Way,
    successor: Successor,
    /// Somebody else exchanges what is behind the joint.
    asleep: bool,
}

impl Handler for Gate {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        match &part {
            HttpPart::Whole(head, _) if head.uri.path() == "/leave" && !self.asleep => {
                let mut head = ReplyHead::from(http::StatusCode::SWITCHING_PROTOCOLS);
                head.headers.insert("upgrade", "echo".parse().unwrap());
                cx.write(HttpPart::Whole(head, Bytes::new()));
                to_bytes(&self.switch, self.successor);
            }
            _ => cx.fire_read(part),
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        cx.write_with(part, done);
    }
}

// ---- who was there before ----

async fn page(request: Request<Body>) -> Response<Body> {
    if request.uri().path() == "/never" {
        std::future::pending::<()>().await;
    }
    Response::new(Body::from("a page"))
}

#[derive(Clone)]
struct Service;

impl tower_service::Service<Request<Body>> for Service {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>>>>;
    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async { Ok(page(request).await) })
    }
}

struct Directory(std::path::PathBuf);

impl Directory {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name =
            format!("netwright-successors-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("page"), "a page").unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Table {
    files: Files,
    workers: Workers,
    _directory: Directory,
}

impl Table {
    fn new() -> Self {
        let directory = Directory::new();
        let files = Files::below(&directory.0).unwrap();
        Self { files, workers: Workers::new(1).unwrap(), _directory: directory }
    }

    /// A channel that speaks HTTP until it is asked to leave. Also the switch, for whoever asks from outside.
    fn channel(
        &self,
        last: Last,
        successor: Successor,
        by: By,
        auto_read: bool,
        asleep: bool,
    ) -> (Outside, Way) {
        let mut settings = HostSettings::default();
        settings.auto_read = auto_read;
        let mut way = None;
        macro_rules! channel {
            ($gate:expr, $last:expr) => {
                EmbeddedChannel::with_joint_and_settings(
                    pipeline().joint(|switch: Way| {
                        way = Some(switch.clone());
                        pipeline().add(HttpServer::new()).add($gate(switch)).app($last).sealed()
                    }),
                    settings,
                )
            };
        }
        macro_rules! with_last {
            ($gate:expr) => {
                match last {
                    Last::Respond => {
                        channel!($gate, respond(|_: &Received| Response::new(Bytes::from("a page"))))
                    }
                    Last::Serve => channel!($gate, serve(page)),
                    Last::Tower => channel!($gate, tower(Service)),
                    Last::Files => channel!($gate, self.files.server().on(self.workers.clone())),
                }
            };
        }
        let channel = match by {
            By::WebSocket => with_last!(|switch| upgrade(switch, successor)),
            By::Switch => with_last!(|switch| Gate { switch, successor, asleep }),
        };
        (channel, way.unwrap())
    }
}

// ---- the peer ----

const PAGE: &str = "GET /page HTTP/1.1\r\nHost: a\r\n\r\n";

fn leave(by: By) -> &'static str {
    match by {
        By::WebSocket => {
            "GET /leave HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        }
        By::Switch => "GET /leave HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n",
    }
}

fn said(by: By, text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    match by {
        By::WebSocket => {
            let key = [1, 2, 3, 4];
            FrameHead { fin: true, compressed: false, opcode: Opcode::Text, len: 3, mask: Some(key) }
                .write(&mut bytes);
            let at = bytes.len();
            bytes.extend_from_slice(text.as_bytes());
            mask(&mut bytes[at..], key);
        }
        By::Switch => bytes.extend_from_slice(text.as_bytes()),
    }
    bytes
}

fn echoed(by: By, text: &str) -> Vec<u8> {
    match by {
        By::WebSocket => [&[0x81, 3], text.as_bytes()].concat(),
        By::Switch => text.as_bytes().to_vec(),
    }
}

/// Runs the loop until so much is sent that it is enough: workers have threads of their own.
#[track_caller]
fn sent_until(channel: &mut Outside, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let (mut all, begun) = (Vec::new(), Instant::now());
    while !enough(&all) {
        all.extend(channel.run().outbound_bytes());
        assert!(begun.elapsed() < Duration::from_secs(20), "only {}", all.escape_ascii());
    }
    all
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Leads a channel through HTTP to its successor.
fn go_through(channel: &mut Outside, last: Last, by: By, when: When, auto_read: bool) {
    let ask = |channel: &mut Outside| {
        if !auto_read && !last.asks_itself() {
            channel.channel().request();
            channel.run();
        }
    };
    match when {
        When::First => _ = channel.write_inbound(leave(by)),
        When::BehindAnother => {
            channel.write_inbound(PAGE);
            ask(channel);
            sent_until(channel, |sent| contains(sent, "a page"));
            channel.write_inbound(leave(by));
        }
        When::WithAnother => {
            channel.write_inbound(format!("{PAGE}{}", leave(by)));
            ask(channel);
        }
    }
    ask(channel);
    sent_until(channel, |sent| contains(sent, "HTTP/1.1 101 ") && sent.ends_with(b"\r\n\r\n"));
}

// ---- the tables ----

fn each(mut check: impl FnMut(&Table, Last, Successor, By, bool)) {
    let table = Table::new();
    for &last in Last::ALL {
        for &successor in Successor::ALL {
            for &by in By::ALL {
                for auto_read in [true, false] {
                    check(&table, last, successor, by, auto_read);
                }
            }
        }
    }
}

/// Says things one after the other, and looks at what comes back. So many messages were asked for before.
#[track_caller]
fn talk(channel: &mut Outside, successor: Successor, by: By, auto_read: bool, asked: usize, what: &str) {
    for number in 0..5 {
        let text = format!("m-{number}");
        channel.write_inbound(said(by, &text));
        if !auto_read && successor != Successor::Tail && number >= asked {
            assert_eq!(channel.outbound_bytes(), b"", "{what}: nobody has asked for message {number}");
            channel.channel().request();
        }
        let got = channel.run().outbound_bytes();
        assert_eq!(got, echoed(by, &text), "{what}, message {number}");
    }
}

#[test]
fn a_successor_gets_all_messages_if_they_flowed_before_and_as_many_as_it_asks_for_if_not() {
    each(|table, last, successor, by, auto_read| {
        for &when in When::ALL {
            let what = format!("{last:?}, then {successor:?} by {by:?}, {when:?}, auto_read: {auto_read}");
            let (mut channel, _) = table.channel(last, successor, by, auto_read, false);
            go_through(&mut channel, last, by, when, auto_read);
            // The request to leave was asked for, and has not come to the last stage.
            talk(&mut channel, successor, by, auto_read, usize::from(!last.asks_itself()), &what);
        }
    });
}

#[test]
fn a_shutdown_reaches_whoever_came_in_the_place_of_http_at_once() {
    each(|table, last, successor, by, auto_read| {
        if by == By::Switch {
            return; // these applications have nothing to say to that
        }
        let what = format!("{last:?}, then {successor:?}, auto_read: {auto_read}");
        let (mut channel, _) = table.channel(last, successor, by, auto_read, false);
        go_through(&mut channel, last, by, When::BehindAnother, auto_read);
        talk(&mut channel, successor, by, auto_read, usize::from(!last.asks_itself()), &what);
        channel.channel().fire_event(Event::new(ShuttingDown));
        let goodbye = channel.run().outbound_bytes();
        assert_eq!(goodbye.first(), Some(&0x88), "{what}: {}", goodbye.escape_ascii());
    });
}

#[test]
fn a_successor_of_somebody_who_is_busy_finds_demand_as_it_was() {
    each(|table, last, successor, by, auto_read| {
        if by == By::WebSocket || last == Last::Respond {
            return; // an upgrade comes behind the replies; and who answers at once is never busy
        }
        let what = format!("{last:?}, then {successor:?}, auto_read: {auto_read}");
        let (mut channel, way) = table.channel(last, successor, by, auto_read, true);
        let (release, blocked) = mpsc::channel::<()>();
        let blocker = table.workers.submit(move || blocked.recv().is_ok()); // files wait behind it
        channel.write_inbound("GET /never HTTP/1.1\r\nHost: a\r\n\r\n");
        if !auto_read && !last.asks_itself() {
            channel.channel().request();
            channel.run();
        }
        to_bytes(&way, successor);
        channel.channel().fire_event(Event::new("something passes the joint"));
        channel.run();
        drop(release);
        drop(blocker);
        talk(&mut channel, successor, by, auto_read, 0, &what);
    });
}

#[test]
fn a_file_server_takes_as_many_requests_as_it_is_given() {
    let table = Table::new();
    let (mut channel, _) = table.channel(Last::Files, Successor::Closure, By::Switch, false, false);
    channel.write_inbound(PAGE.repeat(4));
    for number in 0..4 {
        assert_eq!(channel.run().outbound_bytes(), b"", "{number} were asked for");
        channel.channel().request();
        let got = sent_until(&mut channel, |sent| contains(sent, "a page"));
        assert_eq!(got.windows(6).filter(|window| window == b"a page").count(), 1, "{number}");
    }
}

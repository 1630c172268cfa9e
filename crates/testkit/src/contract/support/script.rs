//! An application that does as the test says, and tells what happens to its channel.

use super::PATIENCE;
use bytes::BytesMut;
use netwright_core::{AppContext, Application, Channel, CloseCause, Fault, Outgoing, StageTimer};
use std::{
    fmt,
    sync::{Arc, Mutex, mpsc},
};

/// What happened to a channel, in order.
#[derive(Debug)]
pub(crate) enum Seen {
    Active(Channel),
    Read(Vec<u8>),
    ReadComplete,
    Writability(bool),
    InputClosed,
    Error(String),
    Inactive(CloseCause),
    Removed,
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active(_) => f.write_str("active"),
            Self::Read(bytes) => write!(f, "read {} bytes", bytes.len()),
            Self::ReadComplete => f.write_str("read complete"),
            Self::Writability(writable) => write!(f, "writable: {writable}"),
            Self::InputClosed => f.write_str("input closed"),
            Self::Error(text) => write!(f, "error: {text}"),
            Self::Inactive(cause) => write!(f, "inactive: {cause}"),
            Self::Removed => f.write_str("removed"),
        }
    }
}

pub(crate) type Cx<'a> = AppContext<'a, Probe>;
type Hook<T> = Arc<dyn Fn(&mut Cx<'_>, T) + Send + Sync>;

fn nothing<T: 'static>() -> Hook<T> {
    Arc::new(|_, _| ())
}

/// What the channels of a server or a client do; every channel tells the same [`Events`].
#[derive(Clone)]
pub(crate) struct Script {
    seen: mpsc::Sender<Seen>,
    active: Hook<()>,
    read: Hook<BytesMut>,
    read_complete: Hook<()>,
    writability: Hook<bool>,
    input_closed: Hook<()>,
    inactive: Hook<()>,
    timer: Hook<StageTimer>,
    removed: Arc<dyn Fn() + Send + Sync>,
    /// Whether it asks for each message, because its channels do not read by themselves.
    asks: bool,
}

/// A script that only tells what it sees.
pub(crate) fn script() -> (Script, Events) {
    let (seen, events) = mpsc::channel();
    let script = Script {
        seen,
        active: nothing(),
        read: nothing(),
        read_complete: nothing(),
        writability: nothing(),
        input_closed: nothing(),
        inactive: nothing(),
        timer: nothing(),
        removed: Arc::new(|| ()),
        asks: false,
    };
    (script, Events { seen: Mutex::new(events) })
}

macro_rules! hooks {
    ($($method:ident $field:ident $with:ty),+ $(,)?) => { $(
        pub(crate) fn $method(mut self, hook: impl Fn(&mut Cx<'_>, $with) + Send + Sync + 'static) -> Self {
            self.$field = Arc::new(hook);
            self
        }
    )+ };
}

impl Script {
    hooks! {
        on_active active (),
        on_read read BytesMut,
        on_read_complete read_complete (),
        on_writability writability bool,
        on_input_closed input_closed (),
        on_inactive inactive (),
        on_timer timer StageTimer,
    }

    pub(crate) fn on_removed(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.removed = Arc::new(hook);
        self
    }

    pub(crate) fn asking(mut self, asks: bool) -> Self {
        self.asks = asks;
        self
    }

    pub(crate) fn probe(&self) -> Probe {
        Probe(self.clone())
    }
}

/// An application that does as its script says.
pub(crate) struct Probe(Script);

impl Probe {
    fn tell(&self, seen: Seen) {
        let _ = self.0.seen.send(seen); // a test that is over does not listen
    }
}

impl Application for Probe {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut Cx<'_>) {
        self.tell(Seen::Active(cx.channel()));
        if self.0.asks {
            cx.request();
        }
        (self.0.active)(cx, ());
    }
    fn read(&mut self, cx: &mut Cx<'_>, bytes: BytesMut) {
        self.tell(Seen::Read(bytes.to_vec()));
        if self.0.asks {
            cx.request();
        }
        (self.0.read)(cx, bytes);
    }
    fn read_complete(&mut self, cx: &mut Cx<'_>) {
        self.tell(Seen::ReadComplete);
        (self.0.read_complete)(cx, ());
    }
    fn writability(&mut self, cx: &mut Cx<'_>, writable: bool) {
        self.tell(Seen::Writability(writable));
        (self.0.writability)(cx, writable);
    }
    fn input_closed(&mut self, cx: &mut Cx<'_>) {
        self.tell(Seen::InputClosed);
        (self.0.input_closed)(cx, ());
    }
    fn error(&mut self, cx: &mut Cx<'_>, fault: Fault) {
        self.tell(Seen::Error(fault.to_string()));
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Cx<'_>, cause: CloseCause) {
        self.tell(Seen::Inactive(cause));
        (self.0.inactive)(cx, ());
    }
    fn timer(&mut self, cx: &mut Cx<'_>, timer: StageTimer) {
        (self.0.timer)(cx, timer);
    }
    fn removed(&mut self) {
        self.tell(Seen::Removed);
        (self.0.removed)();
    }
}

/// What the channels of a script have seen.
pub(crate) struct Events {
    seen: Mutex<mpsc::Receiver<Seen>>,
}

impl Events {
    /// The next thing that happens, `read complete` included.
    #[track_caller]
    pub(crate) fn next_of_all(&self) -> Seen {
        self.seen.lock().unwrap().recv_timeout(PATIENCE).expect("something happens to the channel")
    }

    /// The next thing that happens but for `read complete`, which comes as often as the system likes.
    #[track_caller]
    pub(crate) fn next(&self) -> Seen {
        loop {
            match self.next_of_all() {
                Seen::ReadComplete => {}
                seen => return seen,
            }
        }
    }

    /// What has happened and was not asked for yet.
    pub(crate) fn try_next(&self) -> Option<Seen> {
        self.seen.lock().unwrap().try_recv().ok()
    }

    #[track_caller]
    pub(crate) fn active(&self) -> Channel {
        match self.next() {
            Seen::Active(channel) => channel,
            other => panic!("expected active, got {other}"),
        }
    }

    /// Bytes, in however many pieces.
    #[track_caller]
    pub(crate) fn read(&self, expected: &[u8]) {
        let mut got = Vec::new();
        while got.len() < expected.len() {
            match self.next() {
                Seen::Read(bytes) => got.extend(bytes),
                Seen::Writability(_) => {} // large messages make them
                other => panic!("expected {} bytes, got {} and then {other}", expected.len(), got.len()),
            }
        }
        assert!(got == expected, "{} bytes came, as many as expected, but others", got.len());
    }

    #[track_caller]
    pub(crate) fn input_closed(&self) {
        match self.next() {
            Seen::InputClosed => {}
            other => panic!("expected the end of input, got {other}"),
        }
    }

    #[track_caller]
    pub(crate) fn inactive(&self) -> CloseCause {
        match self.next() {
            Seen::Inactive(cause) => cause,
            other => panic!("expected inactive, got {other}"),
        }
    }

    /// The end: `inactive`, then `removed`.
    #[track_caller]
    pub(crate) fn end(&self) -> CloseCause {
        let cause = self.inactive();
        match self.next() {
            Seen::Removed => cause,
            other => panic!("expected removed, got {other}"),
        }
    }

    /// Skips all that comes before the end.
    #[track_caller]
    pub(crate) fn skip_to_end(&self) -> CloseCause {
        loop {
            if let Seen::Inactive(cause) = self.next() {
                match self.next() {
                    Seen::Removed => return cause,
                    other => panic!("expected removed, got {other}"),
                }
            }
        }
    }

    /// Nothing has happened that was not asked for. Settle the loops before.
    #[track_caller]
    pub(crate) fn nothing(&self) {
        loop {
            match self.seen.lock().unwrap().try_recv() {
                Ok(Seen::ReadComplete) => {}
                Ok(seen) => panic!("expected nothing, got {seen}"),
                Err(_) => return,
            }
        }
    }
}

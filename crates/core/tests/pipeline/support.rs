//! Stages and applications for all of these tests.

use super::{EmbeddedChannel, Here, pipeline};
pub(crate) use bytes::{Buf, Bytes, BytesMut};
pub(crate) use netwright_core::{
    AppContext, Application, CloseCause, Context, Event, Fault, Handler, HostSettings, StageTimer,
    WriteError, WritePromise,
};
pub(crate) use std::{
    convert::Infallible,
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Longer than any healthy step of a test takes; only a failing test waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done` holds, letting other threads run. Fails after [`PATIENCE`].
#[track_caller]
pub(crate) fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}

/// A value that tests and stages share, wherever the stages run.
#[derive(Default)]
pub(crate) struct Shared<T>(Arc<Mutex<T>>);

impl<T> Shared<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Mutex::new(value)))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }

    pub(crate) fn set(&self, value: T) {
        *self.lock() = value;
    }
}

impl<T: Copy> Shared<T> {
    pub(crate) fn get(&self) -> T {
        *self.lock()
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Shared<Vec<String>>);

impl Log {
    pub(crate) fn add(&self, entry: impl fmt::Display) {
        self.0.lock().push(entry.to_string());
    }

    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

/// Shows what is on its way in a log.
pub(crate) trait Show {
    fn show(&self) -> String;
}

impl Show for String {
    fn show(&self) -> String {
        self.clone()
    }
}

impl Show for Bytes {
    fn show(&self) -> String {
        String::from_utf8_lossy(self).trim_end().replace('\n', "|")
    }
}

impl Show for BytesMut {
    fn show(&self) -> String {
        String::from_utf8_lossy(self).trim_end().replace('\n', "|")
    }
}

/// Cuts lines out of bytes, when it is asked for one.
#[derive(Default)]
pub(crate) struct Lines {
    pub(crate) rest: BytesMut,
}

impl Handler<Here> for Lines {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, _: &mut Context<'_, Self, Here>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, Self, Here>) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line = self.rest.split_to(end);
        self.rest.advance(1);
        Some(String::from_utf8(line.to_vec()).unwrap())
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, line: String, done: WritePromise) {
        cx.write_with(Bytes::from(line + "\n"), done);
    }
}

/// Cuts words out of lines, when it is asked for one.
#[derive(Default)]
pub(crate) struct Words {
    pub(crate) words: std::collections::VecDeque<String>,
}

impl Handler<Here> for Words {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, _: &mut Context<'_, Self, Here>, line: String) {
        self.words.extend(line.split_whitespace().map(str::to_owned));
    }
    fn pull(&mut self, _: &mut Context<'_, Self, Here>) -> Option<String> {
        self.words.pop_front()
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, word: String, done: WritePromise) {
        cx.write_with(word, done);
    }
}

/// Passes on every word of a line from inside one call, with no regard for anybody.
pub(crate) struct Burst;

impl Handler<Here> for Burst {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, cx: &mut Context<'_, Self, Here>, line: String) {
        for word in line.split_whitespace() {
            cx.fire_read(word.to_owned());
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, word: String, done: WritePromise) {
        cx.write_with(word, done);
    }
}

/// Passes everything on and writes down what. What it writes down begins with its name.
pub(crate) struct Spy<R, W> {
    pub(crate) name: &'static str,
    pub(crate) log: Log,
    pub(crate) types: PhantomData<fn(R, W)>,
}

pub(crate) fn spy<R, W>(name: &'static str, log: &Log) -> Spy<R, W> {
    Spy { name, log: log.clone(), types: PhantomData }
}

impl<R, W> Spy<R, W> {
    pub(crate) fn saw(&self, what: impl fmt::Display) {
        self.log.add(format_args!("{} {what}", self.name));
    }
}

impl<R: Show + 'static, W: Show + 'static> Handler<Here> for Spy<R, W> {
    type Read = R;
    type ReadOut = R;
    type Write = W;
    type WriteOut = W;

    fn added(&mut self, _: &mut Context<'_, Self, Here>) {
        self.saw("added");
    }
    fn active(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.saw("active");
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, Here>, msg: R) {
        self.saw(format_args!("read {}", msg.show()));
        cx.fire_read(msg);
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.saw("read_complete");
        cx.fire_read_complete();
    }
    fn event(&mut self, cx: &mut Context<'_, Self, Here>, event: Event) {
        self.saw("event");
        cx.fire_event(event);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, Here>, writable: bool) {
        self.saw(format_args!("writability {writable}"));
        cx.fire_writability(writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.saw("input_closed");
        cx.fire_input_closed();
    }
    fn error(&mut self, cx: &mut Context<'_, Self, Here>, fault: Fault) {
        self.saw(format_args!("error {fault}"));
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause) {
        self.saw(format_args!("inactive {cause}"));
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, Here>, msg: W, done: WritePromise) {
        self.saw(format_args!("write {}", msg.show()));
        cx.write_with(msg, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, Here>) {
        self.saw("flush");
        cx.flush();
    }
    fn close(&mut self, cx: &mut Context<'_, Self, Here>, cause: CloseCause, done: WritePromise) {
        self.saw("close");
        cx.close_with(cause, done);
    }
    fn removed(&mut self) {
        self.saw("removed");
    }
}

/// One call of a [`Script`].
pub(crate) enum Call {
    Active,
    Read(String),
    ReadComplete,
    Event(Event),
    Writability(bool),
    InputClosed,
    Error(Fault),
    Inactive(CloseCause),
    Timer,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Active => f.write_str("active"),
            Self::Read(text) => write!(f, "read {text}"),
            Self::ReadComplete => f.write_str("read_complete"),
            Self::Event(event) => match event.get::<&'static str>() {
                Some(text) => write!(f, "event {text}"),
                None => f.write_str("event"),
            },
            Self::Writability(writable) => write!(f, "writability {writable}"),
            Self::InputClosed => f.write_str("input_closed"),
            Self::Error(fault) => write!(f, "error {fault}"),
            Self::Inactive(cause) => write!(f, "inactive {cause}"),
            Self::Timer => f.write_str("timer"),
        }
    }
}

pub(crate) type Cx<'a, 'b> = &'a mut AppContext<'b, Script, Here>;

/// The last stage: writes down every call, then does what the test says. It reads and writes lines.
pub(crate) struct Script {
    log: Log,
    #[allow(clippy::type_complexity)]
    then: Box<dyn FnMut(Cx<'_, '_>, &Call) + Send>,
    keeps_errors: bool,
}

/// An application that does `then` in every call.
pub(crate) fn script(log: &Log, then: impl FnMut(Cx<'_, '_>, &Call) + Send + 'static) -> Script {
    Script { log: log.clone(), then: Box::new(then), keeps_errors: false }
}

/// An application that does `then` with every line, and nothing in other calls.
pub(crate) fn on_line(log: &Log, mut then: impl FnMut(Cx<'_, '_>, &str) + Send + 'static) -> Script {
    script(log, move |cx, call| {
        if let Call::Read(line) = call {
            then(cx, line);
        }
    })
}

/// An application that only writes down.
pub(crate) fn watch(log: &Log) -> Script {
    script(log, |_, _| ())
}

impl Script {
    /// Errors end here and do not close the channel.
    pub(crate) fn keeping_errors(mut self) -> Self {
        self.keeps_errors = true;
        self
    }

    fn call(&mut self, cx: &mut AppContext<'_, Self, Here>, call: &Call) {
        self.log.add(format_args!("app {call}"));
        (self.then)(cx, call);
    }
}

impl Application<Here> for Script {
    type Read = String;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self, Here>) {
        self.call(cx, &Call::Active);
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self, Here>, line: String) {
        self.call(cx, &Call::Read(line));
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self, Here>) {
        self.call(cx, &Call::ReadComplete);
    }
    fn event(&mut self, cx: &mut AppContext<'_, Self, Here>, event: Event) {
        self.call(cx, &Call::Event(event));
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self, Here>, writable: bool) {
        self.call(cx, &Call::Writability(writable));
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self, Here>) {
        self.call(cx, &Call::InputClosed);
    }
    fn error(&mut self, cx: &mut AppContext<'_, Self, Here>, fault: Fault) {
        self.call(cx, &Call::Error(fault.clone()));
        if !self.keeps_errors {
            cx.fire_error(fault);
        }
    }
    fn inactive(&mut self, cx: &mut AppContext<'_, Self, Here>, cause: CloseCause) {
        self.call(cx, &Call::Inactive(cause));
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self, Here>, _: StageTimer) {
        self.call(cx, &Call::Timer);
    }
    fn removed(&mut self) {
        self.log.add("app removed");
    }
}

/// A channel whose last stage is an application: nothing is collected behind it.
pub(crate) type AppChannel = EmbeddedChannel<Infallible, String>;

/// Lines, then the application; only the application writes down, and `active` is already forgotten.
pub(crate) fn lines(log: &Log, app: Script) -> AppChannel {
    let channel = EmbeddedChannel::new(pipeline().add(Lines::default()).app(app));
    log.take();
    channel
}

pub(crate) fn paused_at_first() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.auto_read = false;
    settings
}

/// A promise's result as text, to compare and to read.
pub(crate) fn outcome(result: Option<Result<(), WriteError>>) -> String {
    match result {
        None => "pending".to_owned(),
        Some(Ok(())) => "done".to_owned(),
        Some(Err(error)) => error.to_string(),
    }
}

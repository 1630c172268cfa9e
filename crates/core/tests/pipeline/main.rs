//! Typed pipelines and channels, as people who know Netty expect them, and where they are stricter. No sockets here: a
//! pipeline runs in an [`EmbeddedChannel`].
//!
//! | no. | behaviour | test |
//! | --- | --- | --- |
//! | 25 | `added` fails | `panics::a_panic_in_any_method_closes_the_channel_with_what_it_said` (first row): there is no pipeline without one of its stages, so the channel closes, and the cause says why |
//! | 26 | added and removed before registration | moot: a pipeline is built whole and linked at registration. Once each: `lifecycle::every_stage_is_added_once_in_order_and_removed_once_from_the_last_to_the_first` |
//! | 27 | what a removed handler holds goes to the right neighbour | `tests/joints.rs`; that it cannot be lost by accident: `compile_fail/dropped_leftover.rs` |
//! | 28 | a cancelled write is skipped | `write::cancelled_writes_are_left_out_and_the_others_stay_in_order`; a cancelled bind or connect: `netwright-transport` |
//! | 29 | promise of another channel, void promise where not allowed | moot: a write makes its own promise, and a [`WritePromise`] belongs to no channel; no promise at all is a type of its own. Completed twice: `compile_fail/promise_completed_twice.rs` |
//! | 30 | `write` fails and nobody tracks it | `panics::a_panic_in_any_method_closes_the_channel_with_what_it_said`, `write::a_stage_that_cannot_encode_fails_the_promise_and_raises_the_error_itself` |
//! | 31 | `error` fails itself | `panics::a_panic_while_an_error_is_handled_ends_there` |
//! | 32 | the same executor for a channel's stages | moot: every stage of a pipeline runs on its channel's loop |
//! | 33 | methods that are not overridden are not called | moot: defaults are inlined calls that pass on; the stages say by their types what they see |
//! | 34 | what nobody handled reaches the end | `lifecycle::an_error_that_nobody_takes_care_of_closes_the_channel_with_it`, `order::a_message_that_no_stage_took_ends_quietly_at_the_end` |
//! | 35 | order of nested initialisers | moot: there are none, a pipeline is a value. Declared order is call order: `order::inbound_calls_go_depth_first` |
//! | 36 | `active` comes once | `lifecycle::active_comes_once_and_after_added` |
//! | 37 | water marks flip once each way | `write::above_the_high_mark_it_says_false_once_and_below_the_low_one_true_once`; overhead per entry: `channel::outbound` unit tests |
//! | 38 | user's writability bits | `channel::outbound` unit tests |
//! | 39 | flush in write and write in flush | `write::writes_in_flush_and_flushes_in_write_keep_their_order_and_the_stack_flat` |
//! | 40 | close from a write's listener | `write::a_close_asked_for_when_a_write_is_done_comes_after_write_and_flush` |
//! | 41 | pending writes that fail fail in order, also when that causes new ones | `write::writes_that_fail_with_the_close_fail_in_order_and_so_do_those_that_this_causes` |
//! | 42 | connect is done before `active` | `netwright-transport`: there is no connect without a socket |
//! | 43 | writes after the close fail at once | `write::a_write_after_the_close_fails_at_once_and_lets_its_message_go` |
//! | 44 | options and attributes are there from the start | attributes: `handle::attributes_are_kept_by_type`; options and names: `netwright-transport` |
//! | 45 | bind or connect on another loop's task | `netwright-transport` |
//! | 46, 47 | pools | with the connection pool |
//! | 48 | adaptive receive sizes | moot: all sockets of a loop are read into one buffer of one size, so there is nothing to guess |
//!
//! Beyond the list: demand is strict and events never overtake messages (`demand`), a panic costs one channel (`panics`),
//! stages have timers (`timers`), and any thread may hold a channel (`handle`).
#![cfg(not(loom))]

mod demand;
mod handle;
mod lifecycle;
mod optional;
mod order;
mod panics;
mod timers;
mod write;

use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, CloseCause, Context, EmbeddedChannel, Event, Fault, Handler, HostSettings,
    StageTimer, WriteError, WritePromise, pipeline,
};
use std::{
    cell::RefCell,
    convert::Infallible,
    fmt,
    marker::PhantomData,
    rc::Rc,
    time::{Duration, Instant},
};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Longer than any healthy step of a test takes; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `done` holds, letting other threads run. Fails after [`PATIENCE`].
#[track_caller]
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        std::thread::yield_now();
    }
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn add(&self, entry: impl fmt::Display) {
        self.0.borrow_mut().push(entry.to_string());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

/// Shows what is on its way in a log.
trait Show {
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
struct Lines {
    rest: BytesMut,
}

impl Handler for Lines {
    type Read = BytesMut;
    type ReadOut = String;
    type Write = String;
    type WriteOut = Bytes;

    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.rest.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<String> {
        let end = self.rest.iter().position(|&byte| byte == b'\n')?;
        let line = self.rest.split_to(end);
        self.rest.advance(1);
        Some(String::from_utf8(line.to_vec()).unwrap())
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, line: String, done: WritePromise) {
        cx.write_with(Bytes::from(line + "\n"), done);
    }
}

/// Cuts words out of lines, when it is asked for one.
#[derive(Default)]
struct Words {
    words: std::collections::VecDeque<String>,
}

impl Handler for Words {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, _: &mut Context<'_, Self>, line: String) {
        self.words.extend(line.split_whitespace().map(str::to_owned));
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<String> {
        self.words.pop_front()
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, word: String, done: WritePromise) {
        cx.write_with(word, done);
    }
}

/// Passes on every word of a line from inside one call, with no regard for anybody.
struct Burst;

impl Handler for Burst {
    type Read = String;
    type ReadOut = String;
    type Write = String;
    type WriteOut = String;

    fn read(&mut self, cx: &mut Context<'_, Self>, line: String) {
        for word in line.split_whitespace() {
            cx.fire_read(word.to_owned());
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, word: String, done: WritePromise) {
        cx.write_with(word, done);
    }
}

/// Passes everything on and writes down what. What it writes down begins with its name.
struct Spy<R, W> {
    name: &'static str,
    log: Log,
    types: PhantomData<(R, W)>,
}

fn spy<R, W>(name: &'static str, log: &Log) -> Spy<R, W> {
    Spy { name, log: log.clone(), types: PhantomData }
}

impl<R, W> Spy<R, W> {
    fn saw(&self, what: impl fmt::Display) {
        self.log.add(format_args!("{} {what}", self.name));
    }
}

impl<R: Show + 'static, W: Show + 'static> Handler for Spy<R, W> {
    type Read = R;
    type ReadOut = R;
    type Write = W;
    type WriteOut = W;

    fn added(&mut self, _: &mut Context<'_, Self>) {
        self.saw("added");
    }
    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.saw("active");
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, msg: R) {
        self.saw(format_args!("read {}", msg.show()));
        cx.fire_read(msg);
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.saw("read_complete");
        cx.fire_read_complete();
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        self.saw("event");
        cx.fire_event(event);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        self.saw(format_args!("writability {writable}"));
        cx.fire_writability(writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.saw("input_closed");
        cx.fire_input_closed();
    }
    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        self.saw(format_args!("error {fault}"));
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.saw(format_args!("inactive {cause}"));
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, msg: W, done: WritePromise) {
        self.saw(format_args!("write {}", msg.show()));
        cx.write_with(msg, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self>) {
        self.saw("flush");
        cx.flush();
    }
    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.saw("close");
        cx.close_with(cause, done);
    }
    fn removed(&mut self) {
        self.saw("removed");
    }
}

/// One call of a [`Script`].
enum Call {
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

type Cx<'a, 'b> = &'a mut AppContext<'b, Script>;

/// The last stage: writes down every call, then does what the test says. It reads and writes lines.
struct Script {
    log: Log,
    #[allow(clippy::type_complexity)]
    then: Box<dyn FnMut(Cx<'_, '_>, &Call)>,
    keeps_errors: bool,
}

/// An application that does `then` in every call.
fn script(log: &Log, then: impl FnMut(Cx<'_, '_>, &Call) + 'static) -> Script {
    Script { log: log.clone(), then: Box::new(then), keeps_errors: false }
}

/// An application that does `then` with every line, and nothing in other calls.
fn on_line(log: &Log, mut then: impl FnMut(Cx<'_, '_>, &str) + 'static) -> Script {
    script(log, move |cx, call| {
        if let Call::Read(line) = call {
            then(cx, line);
        }
    })
}

/// An application that only writes down.
fn watch(log: &Log) -> Script {
    script(log, |_, _| ())
}

impl Script {
    /// Errors end here and do not close the channel.
    fn keeping_errors(mut self) -> Self {
        self.keeps_errors = true;
        self
    }

    fn call(&mut self, cx: &mut AppContext<'_, Self>, call: &Call) {
        self.log.add(format_args!("app {call}"));
        (self.then)(cx, call);
    }
}

impl Application for Script {
    type Read = String;
    type Write = String;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.call(cx, &Call::Active);
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, line: String) {
        self.call(cx, &Call::Read(line));
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        self.call(cx, &Call::ReadComplete);
    }
    fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
        self.call(cx, &Call::Event(event));
    }
    fn writability(&mut self, cx: &mut AppContext<'_, Self>, writable: bool) {
        self.call(cx, &Call::Writability(writable));
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        self.call(cx, &Call::InputClosed);
    }
    fn error(&mut self, cx: &mut AppContext<'_, Self>, fault: Fault) {
        self.call(cx, &Call::Error(fault.clone()));
        if !self.keeps_errors {
            cx.fire_error(fault);
        }
    }
    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.call(cx, &Call::Inactive(cause));
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        self.call(cx, &Call::Timer);
    }
    fn removed(&mut self) {
        self.log.add("app removed");
    }
}

/// A channel whose last stage is an application: nothing is collected behind it.
type AppChannel = EmbeddedChannel<Infallible, String>;

/// Lines, then the application; only the application writes down, and `active` is already forgotten.
fn lines(log: &Log, app: Script) -> AppChannel {
    let channel = EmbeddedChannel::new(pipeline().add(Lines::default()).app(app));
    log.take();
    channel
}

fn paused_at_first() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.auto_read = false;
    settings
}

/// A promise's result as text, to compare and to read.
fn outcome(result: Option<Result<(), WriteError>>) -> String {
    match result {
        None => "pending".to_owned(),
        Some(Ok(())) => "done".to_owned(),
        Some(Err(error)) => error.to_string(),
    }
}

//! Whatever wraps a handler passes every hook on: those that there are now, and those that will be.
#![cfg(not(loom))]

use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, Children, CloseCause, Context, Either, EmbeddedChannel, Event, Fault,
    HalfClosure, Handler, InboundOnly, InboundStage, Leftover, OnLoop, OnWorker, OnWorkers, Outgoing, Place,
    Segment, StageCaller, StageTimer, Switch, Weight, Workers, WritePromise, inbound, on_workers, pipeline,
};
use std::{
    cell::RefCell,
    collections::BTreeSet,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

/// The names of the functions and constants in the block that begins with this line.
fn functions(source: &str, block: &str) -> BTreeSet<String> {
    let start = source.find(block).unwrap_or_else(|| panic!("no {block}"));
    let body = &source[start..];
    let end = body.find("\n}\n").expect("the block ends");
    let item = |line: &'_ str| {
        let name = line.strip_prefix("    fn ").or(line.strip_prefix("    const "))?;
        name.split(['(', '<', ':']).next().map(str::to_owned)
    };
    body[..end].lines().filter_map(item).collect()
}

#[test]
fn every_wrapper_has_every_hook_of_its_trait() {
    let optional = include_str!("../src/pipeline/optional.rs");
    let workers = include_str!("../src/pipeline/on_workers/stage.rs");
    let simple = include_str!("../src/pipeline/simple.rs");
    let slot = include_str!("../src/pipeline/slot.rs");
    let all = functions(include_str!("../src/pipeline/handler.rs"), "pub trait Handler");
    assert!(all.len() >= 21, "{all:?}");
    for (wrapper, source, block) in [
        ("Option", optional, "Handler<P> for Option<H>"),
        ("Either", optional, "Handler<P> for Either<A, B>"),
        ("OnWorkers", workers, "Handler for OnWorkers<H>"),
    ] {
        assert_eq!(functions(source, block), all, "{wrapper}");
    }
    for (smaller, wrapper) in [
        ("pub trait Application", "Handler<P> for ApplicationStage<A>"),
        ("pub trait InboundOnly", "Handler<P> for InboundStage<D>"),
        ("pub trait OutboundOnly", "Handler<P> for OutboundStage<E>"),
    ] {
        let missing: Vec<_> =
            functions(simple, smaller).difference(&functions(simple, wrapper)).cloned().collect();
        assert!(missing.is_empty(), "{wrapper} does not pass on {missing:?}");
    }
    for (wrapper, source) in
        [("Handler<P> for ObserverStage<O>", simple), ("Handler<P> for SlotStage<R, W>", slot)]
    {
        let forwarded = functions(source, wrapper);
        for hook in functions(simple, "pub trait Observer") {
            let hook = match hook.strip_prefix("sees_").unwrap() {
                "channel" => "active", // nothing that happens: what observers see first
                hook => hook,
            };
            assert!(forwarded.contains(hook), "{wrapper} does not pass on {hook}");
        }
    }
}

#[test]
fn a_filter_has_every_hook_of_a_handler_but_those_that_change_what_passes_or_lead_back_to_it() {
    let source = include_str!("../src/pipeline/filter.rs");
    let hooks = functions(source, "pub trait Filter");
    let stage = functions(source, "Handler<P> for FilterStage<F, R, W>\nwhere");
    assert!(hooks.is_subset(&stage), "not passed on: {:?}", hooks.difference(&stage));
    let mut all = functions(include_str!("../src/pipeline/handler.rs"), "pub trait Handler");
    // Weights are those of the stages around; a filter keeps no children, and is no wrapper of another handler.
    for apart in ["WEIGHT", "called", "children_ready", "is_away", "name", "polled", "target"] {
        assert!(all.remove(apart));
    }
    assert_eq!(hooks, all);
}

/// Segments are not wrapped, but three of them wrap a segment, and a default is easily taken for an answer there.
#[test]
fn every_segment_says_for_itself_what_a_segment_is_asked() {
    let all = functions(include_str!("../src/pipeline/segment/mod.rs"), "pub trait Segment");
    assert!(all.len() >= 19, "{all:?}");
    for (segment, source) in [
        (
            "Segment<H::Read, H::WriteOut> for Stage<H, N>\nwhere",
            include_str!("../src/pipeline/segment/stage.rs"),
        ),
        (
            "Segment<H::Read, H::WriteOut> for Filtering<H, N>\nwhere",
            include_str!("../src/pipeline/segment/filtering.rs"),
        ),
        ("for Joint<T, R, W> {\n    type Tail", include_str!("../src/pipeline/joint.rs")),
        ("for Carrying<R, X, T, W> {\n    type Tail", include_str!("../src/pipeline/carrying.rs")),
        ("for Sealed<P, T>\nwhere\n    P: Segment", include_str!("../src/pipeline/sealed.rs")),
    ] {
        assert_eq!(functions(source, segment), all, "{segment}");
    }
}

/// What [`Notes`] does not note: questions that are answered without anything happening, what only those hear that let messages pass (`passes.rs`
/// tries them), and what belongs to callers, futures and children, which lead back to it by other ways.
const QUIET: [&str; 15] = [
    "PASSES",
    "WEIGHT",
    "called",
    "children_ready",
    "half_closure",
    "is_away",
    "is_busy",
    "leftover",
    "name",
    "owes",
    "passed_read",
    "passed_write",
    "polled",
    "start_over",
    "target",
];

/// So that the tour shows of a new hook that it is passed on, and not only that a function of its name is there.
#[test]
fn the_handler_of_the_tour_notes_every_hook() {
    let all = functions(include_str!("../src/pipeline/handler.rs"), "pub trait Handler");
    let mut noted = functions(include_str!("hooks.rs"), "\nimpl<P: Place> Handler<P> for Notes<P> {");
    noted.extend(QUIET.map(str::to_owned));
    assert_eq!(noted, all);
}

type Log = Arc<Mutex<Vec<String>>>;
/// The way back to a handler, once it has been added.
type Back<P> = Arc<Mutex<Option<StageCaller<Notes<P>, P>>>>;

/// Writes down every hook.
struct Notes<P: Place> {
    log: Log,
    rest: Option<BytesMut>,
    back: Back<P>,
}

impl<P: Place> Notes<P> {
    fn note(&self, what: &str) {
        self.log.lock().unwrap().push(what.to_owned());
    }
}

impl<P: Place> Handler<P> for Notes<P> {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn added(&mut self, cx: &mut Context<'_, Self, P>) {
        self.note("added");
        cx.arm(Duration::from_secs(1));
        *self.back.lock().unwrap() = Some(cx.caller());
    }
    fn active(&mut self, cx: &mut Context<'_, Self, P>) {
        self.note("active");
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, P>, bytes: BytesMut) {
        self.note("read");
        match &bytes[..] {
            b"keep" => self.rest = Some(bytes),
            b"event" => cx.fire_event(Event::new(())),
            _ => cx.fire_read(bytes),
        }
    }
    fn pull(&mut self, _: &mut Context<'_, Self, P>) -> Option<BytesMut> {
        self.note("pull");
        None
    }
    fn read_complete(&mut self, cx: &mut Context<'_, Self, P>) {
        self.note("read_complete");
        cx.fire_read_complete();
    }
    fn event(&mut self, cx: &mut Context<'_, Self, P>, event: Event) {
        self.note("event");
        cx.fire_event(event);
    }
    fn writability(&mut self, cx: &mut Context<'_, Self, P>, writable: bool) {
        self.note("writability");
        cx.fire_writability(writable);
    }
    fn input_closed(&mut self, cx: &mut Context<'_, Self, P>) {
        self.note("input_closed");
        cx.fire_input_closed();
    }
    fn error(&mut self, cx: &mut Context<'_, Self, P>, fault: Fault) {
        self.note("error");
        cx.fire_error(fault);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause) {
        self.note("inactive");
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, P>, bytes: Outgoing, done: WritePromise) {
        self.note("write");
        cx.write_with(bytes, done);
    }
    fn flush(&mut self, cx: &mut Context<'_, Self, P>) {
        self.note("flush");
        cx.flush();
    }
    fn close(&mut self, cx: &mut Context<'_, Self, P>, cause: CloseCause, done: WritePromise) {
        self.note("close");
        cx.close_with(cause, done);
    }
    fn shut_down_output(&mut self, cx: &mut Context<'_, Self, P>, done: WritePromise) {
        self.note("shut_down_output");
        cx.shut_down_output_with(done);
    }
    fn timer(&mut self, _: &mut Context<'_, Self, P>, _: StageTimer) {
        self.note("timer");
    }
    fn leaving(&mut self, cx: &mut Context<'_, Self, P>) {
        self.note("leaving");
        cx.write_and_flush("goodbye");
    }
    fn panicked(&mut self, cx: &mut Context<'_, Self, P>) {
        self.note("panicked");
        cx.write_and_flush("sorry");
    }
    fn removed(&mut self) {
        self.note("removed");
    }
    fn leftover(&mut self) -> Leftover<BytesMut> {
        self.rest.take().map_or_else(Leftover::nothing, Leftover::one)
    }
    fn name(&self) -> &'static str {
        "its own name"
    }
}

/// Drives a channel until its workers, if it has any, are done.
fn settle<R: 'static, W: 'static>(channel: &mut EmbeddedChannel<R, W>) -> &mut EmbeddedChannel<R, W> {
    while channel.run().is_busy() {
        std::thread::yield_now();
    }
    channel
}

/// Everything that can happen to a handler, and what it wrote down. Asked for a message it is more often on workers.
fn tour<H, P: Place>(wrap: impl Fn(Notes<P>) -> H + 'static, workers: &Workers) -> (Vec<String>, Vec<u8>)
where
    H: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
{
    let (log, back) = (Log::default(), Arc::<Mutex<Option<StageCaller<Notes<P>, P>>>>::default());
    let notes = || Notes { log: log.clone(), rest: None, back: Arc::clone(&back) };
    let mut sent = Vec::new();

    // All its life.
    let mut channel = EmbeddedChannel::new(pipeline().add(wrap(notes())));
    settle(&mut channel).write_inbound("hello");
    settle(&mut channel).channel().fire_event(Event::new(()));
    settle(&mut channel).write_outbound("x");
    settle(&mut channel).block_output(true).write_outbound(vec![0; 100_000]);
    settle(&mut channel).block_output(false);
    settle(&mut channel).advance(Duration::from_secs(1));
    let caller: StageCaller<Notes<P>, P> = back.lock().unwrap().clone().unwrap();
    caller.call(|notes, _| notes.note("called"));
    let mut listed = settle(&mut channel).channel().stages();
    assert_eq!(settle(&mut channel).is_open().then(|| listed.wait().unwrap()[0].name), Some("its own name"));
    settle(&mut channel).close_input();
    settle(&mut channel).channel().shut_down_output();
    drop(settle(&mut channel).channel().close());
    settle(&mut channel);

    // A stage behind it panics.
    let panics = pipeline().add(wrap(notes())).handle(|_, _| std::panic::resume_unwind(Box::new("oh")));
    let mut channel = EmbeddedChannel::new(panics);
    settle(&mut channel).write_inbound("hello");
    sent.extend(settle(&mut channel).outbound_bytes());

    // Its segment is exchanged.
    let kept: Rc<RefCell<Option<Switch<Outgoing>>>> = Rc::default();
    let (keep, stage) = (kept.clone(), wrap(notes()));
    let mut channel = EmbeddedChannel::<(), Outgoing>::with_joint(pipeline().joint(move |switch| {
        keep.replace(Some(switch));
        pipeline().add(stage).handle(|_, _| {})
    }));
    settle(&mut channel).write_inbound("keep");
    let echo = pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
    settle(&mut channel);
    kept.borrow().as_ref().unwrap().to(echo);
    channel.channel().flush();
    sent.extend(settle(&mut channel).outbound_bytes());
    drop(channel);

    workers.submit(|| ()).unwrap().wait().unwrap(); // behind what is said to those who leave
    let mut seen = log.lock().unwrap().clone();
    seen.retain(|entry| entry != "pull");
    (seen, sent)
}

#[test]
fn a_wrapped_handler_is_told_what_it_would_be_told_alone() {
    let workers = Workers::new(1).unwrap();
    let (seen, sent) = tour(|notes| notes, &workers);
    assert_eq!(sent, b"sorrygoodbyekeep");
    for hook in functions(include_str!("hooks.rs"), "\nimpl<P: Place> Handler<P> for Notes<P> {") {
        let apart = QUIET.contains(&hook.as_str()) || ["error", "pull"].contains(&hook.as_str());
        assert!(apart || seen.contains(&hook), "{hook}: {seen:?}");
    }
    assert!(seen.iter().any(|entry| entry == "called"));
    let on = workers.clone();
    let bare = (seen, sent);
    assert_eq!(tour(Some, &workers), bare, "an option");
    assert_eq!(tour(Either::<Notes<OnLoop>, Option<Notes<OnLoop>>>::Left, &workers), bare, "the one");
    assert_eq!(tour(Either::<Option<Notes<OnLoop>>, Notes<OnLoop>>::Right, &workers), bare, "the other");
    assert_eq!(tour(move |notes| on_workers(&on, notes), &workers), bare, "on workers");
    let on = workers.clone();
    assert_eq!(tour(move |notes| Some(on_workers(&on, Some(notes))), &workers), bare, "and in each other");
}

#[test]
fn a_decoder_that_only_looks_inbound_hears_that_the_peer_sends_no_more() {
    /// Keeps everything until then.
    #[derive(Default)]
    struct Whole(BytesMut);
    impl InboundOnly for Whole {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = Outgoing;
        fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
            self.0.extend_from_slice(&bytes);
        }
        fn input_closed(&mut self, cx: &mut Context<'_, InboundStage<Self>>) {
            let whole = std::mem::take(&mut self.0);
            cx.fire_read(whole);
            cx.fire_input_closed();
        }
    }
    let mut channel = EmbeddedChannel::new(pipeline().add(inbound(Whole::default())));
    channel.write_inbound("all ").write_inbound("of it").close_input();
    assert_eq!(channel.read_inbound().unwrap(), "all of it");
}

/// Answers every question in a way of its own.
struct Answers;

impl Handler for Answers {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    const WEIGHT: Weight<Outgoing> = Weight::of(|_| 7);

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.spawn(async {}, |_, cx, ()| cx.write_and_flush("polled"));
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn is_busy(&self) -> bool {
        true
    }
    fn is_away(&self) -> bool {
        true
    }
    fn owes(&self) -> bool {
        true
    }
    fn start_over(&mut self) -> bool {
        true
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
    fn name(&self) -> &'static str {
        "its own name"
    }
}

/// Answers in its way what is asked of a handler before it goes to its worker.
struct Elsewhere;

impl Handler<OnWorker> for Elsewhere {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    const WEIGHT: Weight<Outgoing> = Weight::of(|_| 7);

    fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
}

#[test]
fn what_is_asked_of_a_wrapper_its_handler_answers() {
    fn check<H: Handler<Write = Outgoing>>(mut wrapped: H) {
        let told = (wrapped.is_busy(), wrapped.is_away(), wrapped.owes(), wrapped.name());
        assert_eq!(told, (true, true, true, "its own name"));
        assert_eq!(wrapped.half_closure(), HalfClosure::Needs);
        assert!(H::WEIGHT.is_said() && wrapped.start_over());
    }
    check(Answers);
    check(Some(Answers));
    check(Either::<Answers, Option<Answers>>::Left(Answers));
    check(Either::<Option<Answers>, Answers>::Right(Answers));
    assert!(None::<Answers>.start_over(), "nobody has nothing to forget");
    // A handler on workers is not there to be asked but for what its type says.
    assert!(OnWorkers::<Elsewhere>::WEIGHT.is_said());
    let workers = Workers::new(1).unwrap();
    assert_eq!(on_workers(&workers, Elsewhere).half_closure(), HalfClosure::Needs);
}

#[test]
fn a_future_of_a_wrapped_handler_comes_back_to_it() {
    fn check<H>(wrapped: H)
    where
        H: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
    {
        let mut channel = EmbeddedChannel::new(pipeline().add(wrapped));
        assert_eq!(channel.outbound_bytes(), b"polled");
    }
    check(Answers);
    check(Some(Answers));
    check(Either::<Answers, Option<Answers>>::Left(Answers));
    check(Either::<Option<Answers>, Answers>::Right(Answers));
}

/// Has a child that speaks by itself, and says so when it hears of it.
struct Nest<P: Segment<BytesMut, Outgoing>>(Children<P, BytesMut, Outgoing>, Option<P>);

impl<P: Segment<BytesMut, Outgoing>> Handler for Nest<P> {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        let stages = self.1.take().unwrap();
        self.0.open(cx, || stages).unwrap();
    }
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
        let key = self.0.next_ready().unwrap();
        let said = self.0.with(key, |child| child.take_first().unwrap().0);
        cx.write_and_flush(said.unwrap());
    }
}

#[test]
fn a_wrapped_handler_hears_of_its_children() {
    /// Speaks when its future is polled, which is never within a call of its parent.
    struct Speaks;
    impl Application for Speaks {
        type Read = BytesMut;
        type Write = Outgoing;
        fn active(&mut self, cx: &mut AppContext<'_, Self>) {
            cx.spawn(async {}, |_, cx, ()| cx.write_and_flush("by itself"));
        }
        fn read(&mut self, _: &mut AppContext<'_, Self>, _: BytesMut) {}
    }
    fn nest() -> Nest<impl Segment<BytesMut, Outgoing>> {
        Nest(Children::default(), Some(pipeline().app(Speaks).into_segment()))
    }
    fn either<A>(_: &A) -> Option<Option<A>> {
        None
    }
    fn check<H>(wrapped: H)
    where
        H: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
    {
        let mut channel = EmbeddedChannel::new(pipeline().add(wrapped));
        assert_eq!(channel.outbound_bytes(), b"by itself");
    }
    check(nest());
    check(Some(nest()));
    let other = either(&nest());
    check(match other {
        Some(other) => Either::Right(other),
        None => Either::Left(nest()),
    });
    let other = either(&nest());
    check(match other {
        Some(other) => Either::Left(other),
        None => Either::Right(nest()),
    });
}

/// An error is passed on like any other event; closing because of it would cut the tour short.
#[test]
fn an_error_reaches_a_wrapped_handler() {
    let workers = Workers::new(1).unwrap();
    fn check<H, P: Place>(workers: &Workers, wrap: impl FnOnce(Notes<P>) -> H)
    where
        H: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
    {
        /// Has nothing but errors.
        struct Faults;
        impl InboundOnly for Faults {
            type Read = BytesMut;
            type ReadOut = BytesMut;
            type Write = Outgoing;
            fn read(&mut self, cx: &mut Context<'_, InboundStage<Self>>, _: BytesMut) {
                cx.fire_error(Fault::new("no"));
            }
        }
        let log = Log::default();
        let notes = Notes { log: log.clone(), rest: None, back: Arc::default() };
        let mut channel = EmbeddedChannel::new(pipeline().add(inbound(Faults)).add(wrap(notes)));
        settle(&mut channel).write_inbound("x");
        settle(&mut channel);
        workers.submit(|| ()).unwrap().wait().unwrap();
        assert!(log.lock().unwrap().iter().any(|entry| entry == "error"));
    }
    let on = workers.clone();
    check(&workers, |notes| notes);
    check(&workers, Some);
    check(&workers, Either::<Notes<OnLoop>, Option<Notes<OnLoop>>>::Left);
    check(&workers, Either::<Option<Notes<OnLoop>>, Notes<OnLoop>>::Right);
    check(&workers, |notes| on_workers(&on, notes));
}

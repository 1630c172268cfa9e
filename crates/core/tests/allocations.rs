//! What a loop may allocate: nothing while idle, one box for each task, nothing to wake a future. And what a channel
//! may: nothing for a message on its way.
#![cfg(not(loom))]

use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, ChildKey, Children, CloseCause, Context, EventLoop, Handler, Host, HostSettings,
    IntoPipeline, LocalLoop, ManualLoop, Observer, Outgoing, Peer, Segment, WritePromise, driver, observe,
    pipeline,
};
use netwright_testkit::{CountingAllocator, allocations_during, bytes_in_use};
use std::{convert::Infallible, future::poll_fn, sync::Arc, task::Poll, time::Duration};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const TASKS: u64 = 10_000;

#[test]
fn an_idle_turn_allocates_nothing() {
    let mut manual = ManualLoop::new();
    let _timer = manual.handle().schedule(Duration::from_secs(60), || ()).unwrap();
    let _tail = manual.handle().after_every_iteration(|| ()).unwrap();
    manual.run_once();
    manual.run_once();
    let (allocations, ()) = allocations_during(|| {
        for _ in 0..1000 {
            manual.run_once();
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn a_task_from_another_thread_costs_its_box_and_nothing_else() {
    let mut manual = ManualLoop::new();
    let value = Arc::new(());
    let mut run = || {
        for _ in 0..TASKS / 500 {
            for _ in 0..500 {
                let value = value.clone();
                // Outside `enter` this thread is any other thread.
                manual.handle().execute(move || drop(value)).unwrap();
            }
            while manual.run_once() {}
        }
    };
    run(); // fills what grows once
    let (allocations, ()) = allocations_during(run);
    assert_eq!(allocations, TASKS);
}

#[test]
fn a_task_on_the_loop_costs_its_box_and_nothing_else() {
    fn again(left: u64, _value: Arc<()>) {
        if left > 0 {
            EventLoop::current().unwrap().execute_local(move || again(left - 1, _value)).unwrap();
        }
    }
    let mut manual = ManualLoop::new();
    let mut run = || {
        manual.enter(|| again(TASKS, Arc::new(())));
        while manual.run_once() {}
    };
    run();
    let (allocations, ()) = allocations_during(run);
    assert!(allocations <= TASKS + 1, "{allocations} for {TASKS} tasks");
}

#[test]
fn waking_and_polling_a_future_allocates_nothing() {
    let mut manual = ManualLoop::new();
    let _endless = manual
        .handle()
        .spawn(poll_fn(|cx| {
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        }))
        .unwrap();
    manual.run_once();
    manual.run_once();
    let (allocations, _) = allocations_during(|| {
        for _ in 0..1000 {
            manual.run_once();
        }
    });
    assert_eq!(allocations, 0);
}

#[test]
fn arming_and_cancelling_a_timer_reuses_its_place_in_the_wheel() {
    let mut manual = ManualLoop::new();
    let (allocations, ()) = manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        let cycle = || assert!(local.schedule(Duration::from_secs(1), || ()).unwrap().cancel());
        cycle();
        allocations_during(|| (0..1000).for_each(|_| cycle()))
    });
    assert_eq!(allocations, 3 * 1000, "promise, ticket and task");
}

#[test]
fn a_timer_that_fires_costs_what_one_that_is_cancelled_does() {
    const TIMERS: u64 = 1000;
    let mut manual = ManualLoop::new();
    let mut run = || {
        manual.enter(|| {
            let here = LocalLoop::current().unwrap();
            for ms in 0..TIMERS {
                drop(here.schedule(Duration::from_millis(1 + ms), || ()).unwrap());
            }
        });
        manual.advance(Duration::from_millis(TIMERS));
    };
    run(); // fills what grows once
    let (allocations, ()) = allocations_during(run);
    assert_eq!(allocations, 3 * TIMERS, "promise, ticket and task");
}

// ---- channels ----

const MESSAGES: u64 = 1000;

/// Sends everything back.
struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
}

/// Looks on.
struct Look(u64);

impl Observer for Look {
    type Read = BytesMut;
    type Write = Outgoing;
    fn sees_read(&mut self, bytes: &BytesMut) {
        self.0 += bytes.len() as u64;
    }
}

/// Cuts what comes into pieces of sixteen bytes, and gives them out one by one.
#[derive(Default)]
struct Sixteen(BytesMut);

impl Handler for Sixteen {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, _: &mut Context<'_, Self>, bytes: BytesMut) {
        self.0.unsplit(bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, Self>) -> Option<BytesMut> {
        match self.0.len() {
            // The whole, so that no empty rest keeps the loop's buffer in use.
            16 => Some(std::mem::take(&mut self.0)),
            17.. => Some(self.0.split_to(16)),
            _ => None,
        }
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

/// Has a timer start anew with every message, as a guard against silence does.
#[derive(Default)]
struct Guard(Option<netwright_core::StageTimer>);

impl Handler for Guard {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;
    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        if let Some(timer) = self.0.replace(cx.arm(Duration::from_secs(30))) {
            cx.disarm(timer);
        }
        cx.fire_read(bytes);
    }
    fn write(&mut self, cx: &mut Context<'_, Self>, bytes: Outgoing, done: WritePromise) {
        cx.write_with(bytes, done);
    }
}

/// A loop on which nothing ever happens by itself.
struct Idle;

impl driver::Source for Idle {
    fn ready(&mut self, _: driver::Event) {}
    fn shut_down(&mut self) {}
}

/// What `MESSAGES` messages of 64 bytes through this pipeline and back allocate, once everything has grown to its size.
/// Bytes come and go as a transport has them do: out of one buffer that is used again.
fn allocated_by<T>(pipeline: impl IntoPipeline<T>) -> u64 {
    let mut manual = ManualLoop::new();
    manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        let mut host = Host::new(local.clone(), pipeline.into_pipeline(), HostSettings::default());
        host.register(local.register(Idle).unwrap());
        host.activate(None, None);
        host.run_commands(); // a transport's first turn: an async tail begins
        let mut scratch = BytesMut::with_capacity(64 * 1024);
        let mut echo = |times| {
            for _ in 0..times {
                assert!(scratch.try_reclaim(64));
                scratch.extend_from_slice(&[7; 64]);
                host.received(scratch.split());
                host.read_complete();
                assert!(host.take_flush());
                let mut sent = 0;
                while let Some(len) = host.outbound().first_bytes().map(Bytes::len) {
                    sent += len;
                    host.outbound().advance(len);
                }
                host.wrote();
                assert_eq!(sent, 64);
            }
        };
        echo(100);
        allocations_during(|| echo(MESSAGES)).0
    })
}

#[test]
fn an_echoed_message_allocates_nothing() {
    assert_eq!(allocated_by(pipeline().app(Echo)), 0);
}

#[test]
fn more_stages_allocate_nothing_for_a_message_either() {
    let stages = pipeline().add(observe(Look(0))).add(Some(observe(Look(0)))).add(None::<Guard>);
    let stages = stages.add(Sixteen::default()).add(Guard::default()).add(Sixteen::default());
    assert_eq!(allocated_by(stages.app(Echo)), 0);
}

#[test]
fn a_sealed_segment_behind_a_joint_allocates_nothing_for_a_message_either() {
    let joint = pipeline().joint(|_| pipeline().add(Sixteen::default()).app(Echo).sealed());
    assert_eq!(allocated_by(joint), 0);
}

#[test]
fn an_async_tail_that_sends_everything_back_allocates_nothing_for_a_message_either() {
    async fn echo(mut peer: Peer) -> Result<(), CloseCause> {
        while let Some(bytes) = peer.read().await? {
            peer.write(bytes.freeze()).await?;
        }
        Ok(())
    }
    assert_eq!(allocated_by(pipeline().serve(echo)), 0);
}

// ---- children ----

/// Has each message answered by a child of its own.
struct Conversations<F, P: Segment<BytesMut, Outgoing>> {
    children: Children<P, BytesMut, Outgoing>,
    build: F,
    /// The child is told that this was all, and ends by itself.
    to_the_end: bool,
}

impl<F: Fn() -> P + 'static, P: Segment<BytesMut, Outgoing>> Handler for Conversations<F, P> {
    type Read = BytesMut;
    type ReadOut = Infallible;
    type Write = Infallible;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
        let key = self.children.open(cx, &self.build).unwrap();
        let to_the_end = self.to_the_end;
        self.children.with(key, |child| {
            child.received(bytes, 64);
            if to_the_end {
                child.input_closed();
            }
        });
        assert_eq!(self.children.next_ready(), Some(key));
        let close = self.children.with(key, |child| {
            while let Some((bytes, done)) = child.take_first() {
                cx.write_with(bytes, done);
            }
            assert_eq!(child.take_credit(), 64);
            child.take_close()
        });
        assert_eq!(close.flatten().is_some(), to_the_end);
        self.children.end(key, CloseCause::Requested);
        cx.flush();
    }
    fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
        match never {}
    }
}

fn allocated_by_conversations<P: Segment<BytesMut, Outgoing>>(
    build: impl Fn() -> P + 'static,
    to_the_end: bool,
) -> u64 {
    let conversations = Conversations { children: Children::default(), build, to_the_end };
    allocated_by(pipeline().last(conversations))
}

#[test]
fn a_conversation_of_a_child_from_the_store_allocates_nothing() {
    let echo =
        || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).starts_over().into_segment();
    assert_eq!(allocated_by_conversations(echo, false), 0);
    assert_eq!(allocated_by_conversations(echo, true), 0, "also if the child closes it");
}

#[test]
fn an_idle_child_takes_less_than_700_bytes_in_all() {
    const CHILDREN: usize = 1 << 12;

    /// Has as many as it is told to.
    struct Many<F, P: Segment<BytesMut, Outgoing>>(Children<P, BytesMut, Outgoing>, F, Vec<ChildKey>);
    impl<F: Fn() -> P + 'static, P: Segment<BytesMut, Outgoing>> Handler for Many<F, P> {
        type Read = usize;
        type ReadOut = Infallible;
        type Write = Infallible;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, children: usize) {
            self.2.extend((0..children).map(|_| self.0.open(cx, &self.1).unwrap()));
        }
        fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
            match never {}
        }
    }
    let echo = || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).into_segment();
    ManualLoop::new().enter(|| {
        let local = LocalLoop::current().unwrap();
        let many = Many(Children::default(), echo, Vec::with_capacity(CHILDREN + 1));
        let mut host =
            Host::new(local.clone(), pipeline().last(many).into_segment(), HostSettings::default());
        host.register(local.register(Idle).unwrap());
        host.activate(None, None);
        host.received(1);
        let before = bytes_in_use();
        host.received(CHILDREN - 2); // with the first and the parent a power of two: tables grow by doubling
        let each = (bytes_in_use() - before) as f64 / (CHILDREN - 2) as f64;
        assert!(each <= 700.0, "{each} bytes");
        println!("{each} bytes");
    });
}

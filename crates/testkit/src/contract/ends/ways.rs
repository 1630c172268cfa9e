//! What channels wait for. A further way is a function and a line in the table.

use super::{End, Guard, SOON, ServerAt, Stream, Waiting, Watch, run};
use crate::contract::{Behaviour, Need, Setup, support::Soon};
use bytes::{Bytes, BytesMut};
use netwright_core::{
    AppContext, Application, Channel, ChannelGroup, CloseCause, Context, Handler, Hold, InboundOnly,
    InboundStage, OnWorker, Outgoing, Peer, Promised, StageTimer, Switch, WritePromise, inbound, pipeline,
};
use netwright_transport::{BindError, Server};
use std::{convert::Infallible, num::NonZeroUsize};

/// A behaviour for each way and each end.
macro_rules! table {
    ($($way:ident)+) => {
        pub(in crate::contract) const BEHAVIOURS: &[Behaviour] = &[$(
            entry!($way, "the_peer_leaves", PeerLeaves),
            entry!($way, "the_peer_resets", PeerResets).needs(&[Need::Reset]),
            entry!($way, "the_peer_half_closes", PeerHalfCloses).needs(&[Need::Reset, Need::HalfClosure]),
            entry!($way, "we_close", WeClose),
            entry!($way, "the_loop_shuts_down", LoopShutsDown),
            entry!($way, "the_server_shuts_down", ServerShutsDown),
        )+];
    };
}

macro_rules! entry {
    ($way:ident, $end:literal, $variant:ident) => {
        Behaviour::new(
            "ends",
            concat!("whoever_waits_for_", stringify!($way), "_is_gone_when_", $end),
            |setup: Setup| {
                run(
                    setup,
                    &Waiting { name: stringify!($way), serve: $way, approach: three_messages },
                    End::$variant,
                )
            },
        )
        .in_one_model()
    };
}

table! {
    room
    room_without_a_thought
    room_in_an_async_function
    room_in_a_service
    a_message
    a_message_beside_the_peers_end
    a_timer
    a_timer_of_a_stage_that_holds
    who_paused_it
    offloaded_work
    a_stage_on_workers
    an_application_on_workers
    a_segment_that_was_exchanged
    a_sealed_segment
    writes_of_others
    writes_of_a_group
    everything_to_be_sent
    its_output_to_be_shut_down
}

type Bound = Promised<Server, BindError>;

/// More than is taken of anybody who does not read.
const MUCH: usize = 8 << 20;

fn much() -> Bytes {
    Bytes::from(vec![b'!'; MUCH])
}

fn three_messages(peer: &mut dyn Stream) {
    peer.write_all(b"123").unwrap();
}

/// One message for each byte.
#[derive(Default)]
struct Singles(BytesMut);

impl InboundOnly for Singles {
    type Read = BytesMut;
    type ReadOut = u8;
    type Write = Outgoing;

    fn read(&mut self, _: &mut Context<'_, InboundStage<Self>>, bytes: BytesMut) {
        self.0.extend_from_slice(&bytes);
    }
    fn pull(&mut self, _: &mut Context<'_, InboundStage<Self>>) -> Option<u8> {
        (!self.0.is_empty()).then(|| self.0.split_to(1)[0])
    }
}

fn singles() -> InboundStage<Singles> {
    inbound(Singles::default())
}

/// An application that does something with its first message, and waits.
struct Waits {
    watch: Watch,
    waits: bool,
    first: fn(&mut Self, &mut Cx<'_>),
    _guard: Guard,
}

type Cx<'a> = AppContext<'a, Waits>;

impl Waits {
    fn new(watch: &Watch, first: fn(&mut Self, &mut Cx<'_>)) -> Self {
        Self { watch: watch.clone(), waits: false, first, _guard: watch.guard() }
    }
}

impl Application for Waits {
    type Read = u8;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut Cx<'_>, _: u8) {
        (self.first)(self, cx);
        if !std::mem::replace(&mut self.waits, true) {
            self.watch.waits();
        }
    }
    fn writability(&mut self, cx: &mut Cx<'_>, writable: bool) {
        if writable {
            cx.resume();
        }
    }
    fn timer(&mut self, cx: &mut Cx<'_>, _: StageTimer) {
        cx.resume();
    }
}

fn serve_waits(place: ServerAt, first: fn(&mut Waits, &mut Cx<'_>)) -> Bound {
    let watch = place.watch;
    place
        .builder
        .pipeline(move |_| pipeline().add(watch.stage()).add(singles()).app(Waits::new(&watch, first)))
        .bind(place.at)
}

// ---- room ----

fn room(place: ServerAt) -> Bound {
    serve_waits(place, |_, cx| {
        cx.write_and_flush(much());
        cx.pause();
    })
}

fn room_without_a_thought(place: ServerAt) -> Bound {
    serve_waits(place, |_, cx| cx.write_and_flush(much()))
}

fn room_in_an_async_function(place: ServerAt) -> Bound {
    async fn echo(mut peer: Peer<u8>, watch: Watch, _guard: Guard) -> Result<(), CloseCause> {
        let mut read = 0;
        while let Some(_byte) = peer.read().await? {
            read += 1;
            if read == 2 {
                watch.waits();
            }
            peer.write(much()).await?;
        }
        Ok(())
    }
    let watch = place.watch;
    let make = move |_: &_| {
        let (watch, guard) = (watch.clone(), watch.guard());
        pipeline().add(watch.stage()).add(singles()).serve(move |peer| echo(peer, watch, guard))
    };
    place.builder.pipeline(make).bind(place.at)
}

fn room_in_a_service(place: ServerAt) -> Bound {
    let watch = place.watch;
    let make = move |_: &_| {
        let (watch, guard, mut begun) = (watch.clone(), watch.guard(), false);
        pipeline().add(watch.stage()).add(singles()).service(NonZeroUsize::MIN, move |_| {
            let _ = &guard;
            if !std::mem::replace(&mut begun, true) {
                watch.waits();
            }
            async { much() }
        })
    };
    place.builder.pipeline(make).bind(place.at)
}

// ---- messages ----

fn a_message(place: ServerAt) -> Bound {
    async fn reads(mut peer: Peer<u8>, watch: Watch, _guard: Guard) -> Result<(), CloseCause> {
        for _ in 0..3 {
            peer.read().await?;
        }
        watch.waits();
        while peer.read().await?.is_some() {}
        Ok(())
    }
    let watch = place.watch;
    let make = move |_: &_| {
        let (watch, guard) = (watch.clone(), watch.guard());
        pipeline().add(watch.stage()).add(singles()).serve(move |peer| reads(peer, watch, guard))
    };
    place.builder.pipeline(make).bind(place.at)
}

/// It does not read, but looks out for the end.
fn a_message_beside_the_peers_end(place: ServerAt) -> Bound {
    async fn looks(mut peer: Peer<u8>, watch: Watch, _guard: Guard) -> Result<(), CloseCause> {
        peer.read().await?;
        watch.waits();
        Err(peer.closed().await)
    }
    let watch = place.watch;
    let make = move |_: &_| {
        let (watch, guard) = (watch.clone(), watch.guard());
        pipeline().add(watch.stage()).add(singles()).serve(move |peer| looks(peer, watch, guard))
    };
    place.builder.pipeline(make).bind(place.at)
}

// ---- time ----

fn a_timer(place: ServerAt) -> Bound {
    serve_waits(place, |_, cx| {
        cx.pause();
        cx.arm(SOON);
    })
}

fn a_timer_of_a_stage_that_holds(place: ServerAt) -> Bound {
    /// Lets one message through at a time, with a pause in between.
    #[derive(Default)]
    struct Slow(Option<Hold>);
    impl Handler for Slow {
        type Read = u8;
        type ReadOut = u8;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, byte: u8) {
            cx.fire_read(byte);
            self.0 = Some(cx.hold());
            cx.arm(SOON);
        }
        fn timer(&mut self, _: &mut Context<'_, Self>, _: StageTimer) {
            self.0 = None;
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, msg: Outgoing, done: WritePromise) {
            cx.write_with(msg, done);
        }
    }
    let watch = place.watch;
    let make = move |_: &_| {
        pipeline().add(watch.stage()).add(singles()).add(Slow::default()).app(Waits::new(&watch, |_, _| ()))
    };
    place.builder.pipeline(make).bind(place.at)
}

/// Nobody resumes it: what came is given up after a while.
fn who_paused_it(place: ServerAt) -> Bound {
    struct Paused(Watch, Guard);
    impl Application for Paused {
        type Read = u8;
        type Write = Outgoing;
        fn read(&mut self, cx: &mut AppContext<'_, Self>, _: u8) {
            cx.pause();
            self.0.waits();
            let _ = &self.1;
        }
    }
    let watch = place.watch;
    place
        .builder
        .forsaken_after(SOON)
        .pipeline(move |_| {
            pipeline().add(watch.stage()).add(singles()).app(Paused(watch.clone(), watch.guard()))
        })
        .bind(place.at)
}

// ---- other threads ----

fn offloaded_work(place: ServerAt) -> Bound {
    serve_waits(place, |this, cx| {
        cx.pause();
        let watch = this.watch.clone();
        let workers = this.watch.workers();
        cx.offload_to(&workers, move || watch.wait_at_gate(), |_, cx, ()| cx.resume());
    })
}

fn a_stage_on_workers(place: ServerAt) -> Bound {
    struct Blocks(Watch, Guard);
    impl Handler<OnWorker> for Blocks {
        type Read = u8;
        type ReadOut = u8;
        type Write = Outgoing;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, byte: u8) {
            if byte == b'1' {
                self.0.waits();
            }
            self.0.wait_at_gate();
            let _ = &self.1;
            cx.fire_read(byte);
        }
        fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, msg: Outgoing, done: WritePromise) {
            cx.write_with(msg, done);
        }
    }
    let watch = place.watch;
    let make = move |_: &_| {
        let (workers, stage) = (watch.workers(), Blocks(watch.clone(), watch.guard()));
        let stages = pipeline().add(watch.stage()).add(singles()).add_on(&workers, stage);
        stages.handle(|cx, _| cx.write_and_flush("answer"))
    };
    place.builder.pipeline(make).bind(place.at)
}

fn an_application_on_workers(place: ServerAt) -> Bound {
    struct Blocks(Watch, Guard);
    impl Application<OnWorker> for Blocks {
        type Read = u8;
        type Write = Outgoing;
        fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, byte: u8) {
            if byte == b'1' {
                self.0.waits();
            }
            self.0.wait_at_gate();
            let _ = &self.1;
            cx.write_and_flush("answer");
        }
    }
    let watch = place.watch;
    let make = move |_: &_| {
        let (workers, app) = (watch.workers(), Blocks(watch.clone(), watch.guard()));
        pipeline().add(watch.stage()).add(singles()).app_on(&workers, app)
    };
    place.builder.pipeline(make).bind(place.at)
}

// ---- segments ----

/// Exchanged for one that waits, with messages left over.
fn a_segment_that_was_exchanged(place: ServerAt) -> Bound {
    let watch = place.watch;
    let make = move |_: &_| {
        let watch = watch.clone();
        pipeline().add(watch.stage()).joint(move |switch: Switch<Outgoing>| {
            pipeline().handle(move |cx, bytes| {
                let first = |_: &mut Waits, cx: &mut Cx<'_>| {
                    cx.pause();
                    cx.arm(SOON);
                };
                let next = pipeline().add(singles()).app(Waits::new(&watch, first));
                switch.to_with(next, netwright_core::Leftover::one(bytes));
                cx.flush();
            })
        })
    };
    place.builder.pipeline(make).bind(place.at)
}

fn a_sealed_segment(place: ServerAt) -> Bound {
    let watch = place.watch;
    let make = move |_: &_| {
        let watch = watch.clone();
        pipeline().add(watch.stage()).joint(move |_: Switch<Infallible>| {
            let writes = |this: &mut Waits, cx: &mut Cx<'_>| {
                cx.pause();
                tracked(&this.watch, &cx.channel());
            };
            pipeline().add(singles()).app(Waits::new(&watch, writes)).sealed()
        })
    };
    place.builder.forsaken_after(SOON).pipeline(make).bind(place.at)
}

// ---- writes ----

/// Somebody writes from outside, and waits to hear of it and for room for more.
fn tracked(watch: &Watch, channel: &Channel) {
    let mut written = channel.send(much());
    let channel = channel.clone();
    watch.afterwards(move || {
        written.soon().unwrap_err();
        Box::pin(channel.writable()).soon().unwrap_err();
        channel.closed().soon();
        channel.send("too late").soon().unwrap_err();
    });
}

fn writes_of_others(place: ServerAt) -> Bound {
    serve_waits(place, |this, cx| {
        if !this.waits {
            tracked(&this.watch, &cx.channel());
        }
    })
}

fn writes_of_a_group(place: ServerAt) -> Bound {
    serve_waits(place, |this, cx| {
        if !this.waits {
            let group = ChannelGroup::new();
            group.add(cx.channel());
            let mut written = group.send(much());
            this.watch.afterwards(move || {
                let _ = written.soon();
                assert!(group.is_empty(), "those that have ended leave their groups");
            });
        }
    })
}

fn everything_to_be_sent(place: ServerAt) -> Bound {
    serve_waits(place, |_, cx| {
        cx.write_and_flush(much());
        cx.close_when_flushed();
    })
}

fn its_output_to_be_shut_down(place: ServerAt) -> Bound {
    serve_waits(place, |this, cx| {
        if !this.waits {
            let channel = cx.channel();
            cx.write_and_flush(much());
            let mut over = channel.shut_down_output_tracked();
            this.watch.afterwards(move || {
                over.soon().unwrap_err();
            });
        }
    })
}

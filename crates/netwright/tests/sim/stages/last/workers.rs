//! Stages and applications that run on workers.

use super::{
    super::{
        moments::Moment,
        record::{Place, Record, Wrote},
        slips::Step,
        wire::{Asks, Request},
    },
    Bye, Set, Slow, Wire, requests,
};
use netwright::{
    AppContext, Application, CloseCause, Context, Handler, Outgoing, Promised, Server, WritePromise,
    pipeline,
    pipeline::{HalfClosure, OnWorker, StageTimer},
    server::{BindError, ServerBuilder},
};

/// Lets everything through, on workers; what is behind it is an application on the loop.
struct Through {
    set: Set,
    record: Record,
}

impl Handler<OnWorker> for Through {
    type Read = Request;
    type ReadOut = Request;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self, OnWorker>) {
        self.record.active(Place::Last(1));
        self.record.step(Step::Active);
        cx.fire_active();
    }
    fn read(&mut self, cx: &mut Context<'_, Self, OnWorker>, request: Request) {
        self.record.between(Place::Last(1), "a request");
        self.record.step(Step::Read);
        if request.asks == Asks::Work {
            self.record.reach(Moment::WhileWorkIsUnderWay);
            self.set.work()();
        }
        cx.fire_read(request);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self, OnWorker>, cause: CloseCause) {
        self.record.inactive(Place::Last(1), &cause);
        self.record.step(Step::Inactive);
        cx.fire_inactive(cause);
    }
    fn write(&mut self, cx: &mut Context<'_, Self, OnWorker>, msg: Outgoing, done: WritePromise) {
        cx.write_with(msg, done);
    }
    fn removed(&mut self) {
        self.record.removed(Place::Last(1));
        self.record.step(Step::Removed);
    }
}

pub(crate) fn stage(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let record = set.record(accepted);
        let through = Through { set: set.clone(), record: record.clone() };
        pipeline()
            .add(Wire(record.clone()))
            .add(requests())
            .add(Slow::new(&set))
            .add_on(&set.workers, through)
            .app(super::applications::App::new(&set, &record, 0))
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

pub(crate) fn application(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let record = set.record(accepted);
        let app = WorkerApp::new(&set, &record, 0);
        pipeline().add(Wire(record)).add(requests()).add(Slow::new(&set)).app_on(&set.workers, app)
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

/// Does what it is asked for, on workers.
pub(crate) struct WorkerApp {
    set: Set,
    record: Record,
    place: Place,
    paused: Option<Request>,
    input_ended: bool,
}

impl WorkerApp {
    pub(crate) fn new(set: &Set, record: &Record, number: u8) -> Self {
        Self {
            set: set.clone(),
            record: record.clone(),
            place: Place::Last(number),
            paused: None,
            input_ended: false,
        }
    }

    fn answer(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, request: Request) {
        let lane = u8::from(self.owes());
        let written = cx.write_tracked(request.answer(lane));
        self.record.tracks(request.wrote(lane), written);
        if request.number.is_multiple_of(2) || self.input_ended {
            cx.flush();
        }
    }
}

impl Application<OnWorker> for WorkerApp {
    type Read = Request;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self, OnWorker>) {
        self.record.active(self.place);
        self.record.has_channel(cx.channel());
        self.record.step(Step::Active);
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, request: Request) {
        self.record.between(self.place, "a request");
        self.record.reads(request.number);
        self.record.step(Step::Read);
        match request.asks_of(self.owes()) {
            Asks::Answer => self.answer(cx, request),
            Asks::Pause => {
                cx.pause();
                cx.arm(self.set.pause);
                self.paused = Some(request);
                self.record.reach(Moment::WhileTheApplicationHasPaused);
            }
            Asks::Work => {
                self.record.reach(Moment::WhileWorkIsUnderWay);
                self.set.work()();
                self.answer(cx, request);
            }
            Asks::Bye => {
                self.answer(cx, request);
                cx.flush();
                self.record.reach(Moment::BehindAClose);
                match self.set.bye {
                    Bye::WhenFlushed => cx.close_when_flushed(),
                    Bye::AtOnce => cx.close(),
                    Bye::OutputFirst => {
                        cx.shut_down_output();
                        cx.close_when_flushed();
                    }
                }
            }
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self, OnWorker>) {
        self.record.step(Step::ReadComplete);
        cx.flush();
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, _: StageTimer) {
        self.record.step(Step::Timer);
        if let Some(request) = self.paused.take() {
            self.answer(cx, request);
            cx.flush();
            cx.resume();
            if self.input_ended {
                cx.close_when_flushed();
            }
        }
    }
    fn owes(&self) -> bool {
        self.paused.is_some()
    }
    fn half_closure(&self) -> HalfClosure {
        if self.set.half_closure { HalfClosure::Needs } else { HalfClosure::Passes }
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self, OnWorker>) {
        self.record.between(self.place, "the end of input");
        self.record.step(Step::InputClosed);
        self.input_ended = true;
        if self.paused.is_none() {
            cx.flush();
            cx.close_when_flushed();
        }
    }
    fn inactive(&mut self, cx: &mut AppContext<'_, Self, OnWorker>, cause: CloseCause) {
        self.record.inactive(self.place, &cause);
        self.record.tracks(Wrote::TooLate, cx.send("too late"));
        self.record.step(Step::Inactive);
    }
    fn removed(&mut self) {
        self.record.removed(self.place);
        self.record.step(Step::Removed);
    }
}

//! Applications and closures.

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
    AppContext, Application, CloseCause, Outgoing, Promised, Server, pipeline,
    pipeline::{HalfClosure, StageTimer, Switch},
    server::{BindError, ServerBuilder},
};
use std::{cell::Cell, rc::Rc};

pub(crate) fn application(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let record = set.record(accepted);
        pipeline()
            .add(Wire(record.clone()))
            .add(requests())
            .add(Slow::new(&set))
            .app(App::new(&set, &record, 0))
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

pub(crate) fn closure(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let is_busy = Rc::new(Cell::new(false));
        pipeline().add(Wire(record.clone())).add(requests()).add(Slow::new(&set)).handle(
            move |cx, request: Request| {
                record.has_channel(cx.channel());
                record.reads(request.number);
                record.step(Step::Read);
                let (told, done) = (record.clone(), is_busy.clone());
                match request.asks_of(is_busy.get()) {
                    Asks::Answer => {
                        let lane = u8::from(is_busy.get());
                        record.tracks(request.wrote(lane), cx.send(request.answer(lane)));
                    }
                    Asks::Pause => {
                        is_busy.set(true);
                        cx.pause();
                        record.reach(Moment::WhileTheApplicationHasPaused);
                        cx.schedule(set.pause, move |_, cx| {
                            told.step(Step::Timer);
                            told.tracks(request.wrote(0), cx.send(request.answer(0)));
                            done.set(false);
                            cx.resume();
                        });
                    }
                    Asks::Work => {
                        is_busy.set(true);
                        cx.pause();
                        record.reach(Moment::WhileWorkIsUnderWay);
                        cx.offload_to(&set.workers, set.work(), move |_, cx, ()| {
                            told.step(Step::Done);
                            told.tracks(request.wrote(0), cx.send(request.answer(0)));
                            done.set(false);
                            cx.resume();
                        });
                    }
                    Asks::Bye => {
                        let lane = u8::from(is_busy.get());
                        record.tracks(request.wrote(lane), cx.send(request.answer(lane)));
                        record.reach(Moment::BehindAClose);
                        match set.bye {
                            Bye::WhenFlushed => cx.close_when_flushed(),
                            Bye::AtOnce => cx.close(),
                            Bye::OutputFirst => {
                                cx.shut_down_output();
                                cx.close_when_flushed();
                            }
                        }
                    }
                }
            },
        )
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

impl Request {
    pub(crate) fn wrote(self, lane: u8) -> Wrote {
        Wrote::Answer(lane, self.number)
    }

    /// What it asks of somebody who may be busy with one before: who has paused may be resumed by others, and answers at once then, on another lane.
    pub(crate) fn asks_of(self, is_busy: bool) -> Asks {
        match self.asks {
            Asks::Pause | Asks::Work if is_busy => Asks::Answer,
            asks => asks,
        }
    }
}

impl Set {
    /// What workers do for a request.
    pub(crate) fn work(&self) -> impl FnOnce() + Send + 'static {
        let time = self.work;
        move || {
            if let Some(time) = time {
                let (_promise, mut never) =
                    netwright::promise::promise::<(), netwright::promise::PromiseError>();
                let waited = never.wait_timeout(time);
                assert!(waited.is_none(), "nobody keeps that promise");
            }
        }
    }
}

/// Does what it is asked for.
pub(crate) struct App {
    set: Set,
    record: Record,
    place: Place,
    /// What is answered when the pause is over.
    paused: Option<Request>,
    works: bool,
    /// The peer sends no more.
    input_ended: bool,
    /// Gives way to the next segment.
    pub(crate) next: Option<Box<dyn FnOnce()>>,
}

impl App {
    pub(crate) fn new(set: &Set, record: &Record, number: u8) -> Self {
        let place = Place::Last(number);
        Self {
            set: set.clone(),
            record: record.clone(),
            place,
            paused: None,
            works: false,
            input_ended: false,
            next: None,
        }
    }

    fn answer(&mut self, cx: &mut AppContext<'_, Self>, request: Request) {
        let lane = u8::from(self.owes());
        // Some are flushed one by one, others by `read_complete`.
        let written = cx.write_tracked(request.answer(lane));
        self.record.tracks(request.wrote(lane), written);
        if request.number.is_multiple_of(2) || self.input_ended {
            cx.flush();
        }
    }

    fn end_if_done(&mut self, cx: &mut AppContext<'_, Self>) {
        if self.input_ended && !self.owes() {
            cx.flush();
            cx.close_when_flushed();
        }
    }
}

impl Application for App {
    type Read = Request;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        self.record.active(self.place);
        self.record.has_channel(cx.channel());
        self.record.step(Step::Active);
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, request: Request) {
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
                cx.pause();
                self.works = true;
                self.record.reach(Moment::WhileWorkIsUnderWay);
                cx.offload_to(&self.set.workers, self.set.work(), move |this, cx, ()| {
                    this.works = false;
                    this.record.step(Step::Done);
                    this.answer(cx, request);
                    cx.flush();
                    cx.resume();
                    this.end_if_done(cx);
                });
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
        if request.asks == Asks::Answer
            && !self.owes()
            && request.number >= self.set.exchange_at
            && let Some(next) = self.next.take()
        {
            cx.flush();
            next();
        }
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        self.record.step(Step::ReadComplete);
        cx.flush();
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        self.record.step(Step::Timer);
        if let Some(request) = self.paused.take() {
            self.answer(cx, request);
            cx.flush();
            cx.resume();
            self.end_if_done(cx);
        }
    }
    fn owes(&self) -> bool {
        self.paused.is_some() || self.works
    }
    fn half_closure(&self) -> HalfClosure {
        if self.set.half_closure { HalfClosure::Needs } else { HalfClosure::Passes }
    }
    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        self.record.between(self.place, "the end of input");
        self.record.step(Step::InputClosed);
        self.input_ended = true;
        self.end_if_done(cx);
    }
    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.record.inactive(self.place, &cause);
        self.record.tracks(Wrote::TooLate, cx.send("too late"));
        self.record.step(Step::Inactive);
    }
    fn removed(&mut self) {
        self.record.removed(self.place);
        self.record.step(Step::Removed);
    }
}

/// An application that gives way to what `next` makes.
pub(crate) fn giving_way<T: 'static>(
    set: &Set,
    record: &Record,
    switch: Switch<T>,
    next: impl FnOnce(&Switch<T>) + 'static,
) -> App {
    let mut app = App::new(set, record, 0);
    app.next = Some(Box::new(move || next(&switch)));
    app
}

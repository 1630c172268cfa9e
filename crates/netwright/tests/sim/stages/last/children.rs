//! A stage with children: each has requests of its own, by their numbers.

use super::{
    super::{
        moments::Moment,
        record::{Place, Record, Wrote},
        slips::Step,
        wire::{Asks, Request},
    },
    Set, Slow, Wire, requests,
};
use netwright::{
    AppContext, Application, CloseCause, Context, Handler, Outgoing, Promised, Server, WritePromise,
    channel::{ChildKey, Children},
    pipeline,
    pipeline::{Segment, StageTimer},
    server::{BindError, ServerBuilder},
};
use std::{cell::Cell, collections::BTreeMap, convert::Infallible, rc::Rc};

/// How many children a connection may have at a time.
const LANES: u32 = 3;

struct Family<F, P: Segment<Request, Outgoing>> {
    children: Children<P, Request, Outgoing>,
    keys: BTreeMap<u8, ChildKey>,
    build: F,
    record: Record,
}

impl<F: FnMut() -> P + 'static, P: Segment<Request, Outgoing>> Family<F, P> {
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        while let Some(key) = self.children.next_ready() {
            let ended = self.children.end_if(key, |child| {
                while let Some((answer, done)) = child.take_first() {
                    cx.write_with(answer, done);
                }
                child.take_close()
            });
            if ended.is_some() {
                self.keys.retain(|_, known| *known != key);
            }
        }
        cx.flush();
    }
}

impl<F: FnMut() -> P + 'static, P: Segment<Request, Outgoing>> Handler for Family<F, P> {
    type Read = Request;
    type ReadOut = Infallible;
    type Write = Infallible;
    type WriteOut = Outgoing;

    fn read(&mut self, cx: &mut Context<'_, Self>, request: Request) {
        let lane = request.lane(LANES);
        match self.keys.get(&lane) {
            Some(key) => drop(self.children.with(*key, |child| child.received(request, 0))),
            None => match self.children.open_with(cx, &mut self.build, |child| child.received(request, 0)) {
                Ok(key) => drop(self.keys.insert(lane, key)),
                Err(error) => cx.fire_error(error),
            },
        }
        self.look(cx);
        if request.asks == Asks::Bye {
            self.record.reach(Moment::BehindAClose);
            cx.close_when_flushed();
        }
    }
    fn children_ready(&mut self, cx: &mut Context<'_, Self>) {
        self.look(cx);
    }
    fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
        match never {}
    }
}

pub(crate) fn children(builder: ServerBuilder, set: Set) -> Promised<Server, BindError> {
    let make = move |accepted: &_| {
        let (set, record) = (set.clone(), set.record(accepted));
        let (told, born, slow) = (record.clone(), Rc::new(Cell::new(0)), Slow::new(&set));
        let build = move || {
            let (set, record, born) = (set.clone(), told.clone(), born.clone());
            pipeline().app(Child { set, record, born, number: 0, paused: None }).into_segment()
        };
        let family =
            Family { children: Children::default(), keys: BTreeMap::new(), build, record: record.clone() };
        pipeline().add(Wire(record)).add(requests()).add(slow).last(family)
    };
    builder.pipeline(make).bind("0.0.0.0:7")
}

/// The last stage of a child.
struct Child {
    set: Set,
    record: Record,
    /// How many conversations there have been.
    born: Rc<Cell<u8>>,
    /// Which one this is.
    number: u8,
    paused: Option<Request>,
}

impl Child {
    fn answer(&self, cx: &mut AppContext<'_, Self>, request: Request) {
        let lane = request.lane(LANES);
        self.record.tracks(Wrote::Answer(lane, request.number), cx.send(request.answer(lane)));
    }

    fn place(&self) -> Place {
        Place::Last(self.number)
    }
}

impl Application for Child {
    type Read = Request;
    type Write = Outgoing;

    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.number = self.born.get();
        self.born.set(self.number + 1);
        self.record.active(self.place());
        self.record.step(Step::Active);
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, request: Request) {
        self.record.between(self.place(), "a request");
        self.record.reads(request.number);
        self.record.step(Step::Read);
        match request.asks {
            Asks::Answer => self.answer(cx, request),
            Asks::Pause => {
                cx.pause();
                cx.arm(self.set.pause);
                self.paused = Some(request);
                self.record.reach(Moment::WhileTheApplicationHasPaused);
            }
            Asks::Work => {
                cx.pause();
                self.record.reach(Moment::WhileWorkIsUnderWay);
                cx.offload_to(&self.set.workers, self.set.work(), move |this, cx, ()| {
                    this.record.step(Step::Done);
                    this.answer(cx, request);
                    cx.resume();
                });
            }
            Asks::Bye => {
                self.answer(cx, request);
                cx.close_when_flushed();
            }
        }
    }
    fn timer(&mut self, cx: &mut AppContext<'_, Self>, _: StageTimer) {
        self.record.step(Step::Timer);
        if let Some(request) = self.paused.take() {
            self.answer(cx, request);
            cx.resume();
        }
    }
    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.record.inactive(self.place(), &cause);
        self.record.tracks(Wrote::TooLate, cx.send("too late"));
        self.record.step(Step::Inactive);
    }
    fn removed(&mut self) {
        self.record.removed(self.place());
        self.record.step(Step::Removed);
    }
}

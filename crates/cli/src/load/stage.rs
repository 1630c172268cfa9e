//! The last stage of a load connection, whatever that speaks: takes orders from outside, keeps `depth` messages on their way and
//! has every answer judged.

use super::course::{Course, Order, Problem};
use netwright::{CloseCause, Context, Fault, Handler, WritePromise};
use std::{convert::Infallible, time::Instant};

/// What a connection says, and what it makes of what comes back.
pub(super) trait Talk: 'static {
    type Read: 'static;
    type Write: 'static;
    /// What is missing if it ends early.
    const MISSING: &'static str;

    /// The next message; there is room for it.
    fn say(&mut self, course: &Course) -> Self::Write;

    /// How many messages have come back with this, whole and right.
    fn judge(&mut self, course: &Course, answer: Self::Read) -> Result<usize, Problem>;

    /// How much has not come back.
    fn missing(&self, course: &Course) -> u64 {
        course.on_their_way() as u64
    }
}

pub(super) struct Load<T> {
    course: Course,
    talk: T,
    /// It was ordered before this stage was there.
    go: bool,
}

impl<T: Talk> Load<T> {
    pub(super) fn new(course: Course, talk: T) -> Self {
        Self { course, talk, go: false }
    }

    pub(super) fn ordered(mut self, go: bool) -> Self {
        self.go = go;
        self
    }

    fn fill_up(&mut self, cx: &mut Context<'_, Self>, now: Instant) {
        while self.course.has_room() {
            cx.write(self.talk.say(&self.course));
            self.course.sent(now);
        }
        cx.flush();
    }

    fn close_if_done(&mut self, cx: &mut Context<'_, Self>) {
        if self.course.is_done() {
            cx.close();
        }
    }
}

impl<T: Talk> Handler for Load<T> {
    type Read = T::Read;
    type ReadOut = Infallible;
    type Write = Order;
    type WriteOut = T::Write;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        if self.go {
            self.fill_up(cx, Instant::now());
        }
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, answer: T::Read) {
        if self.course.has_failed() {
            return;
        }
        match self.talk.judge(&self.course, answer) {
            Ok(0) => {}
            Ok(messages) => {
                let now = Instant::now();
                self.course.came_back(messages, now);
                self.fill_up(cx, now);
                self.close_if_done(cx);
            }
            Err(problem) => {
                self.course.fail(problem);
                cx.close();
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, order: Order, done: WritePromise) {
        match order {
            Order::Go => self.fill_up(cx, Instant::now()),
            Order::Finish => {
                self.course.finish();
                self.close_if_done(cx);
            }
        }
        done.succeed();
    }

    /// Comes again as the cause of the end.
    fn error(&mut self, _: &mut Context<'_, Self>, _: Fault) {}

    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        let missing = self.talk.missing(&self.course);
        self.course.end(cause, missing, T::MISSING);
    }
}

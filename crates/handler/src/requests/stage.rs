//! What the stage does when something happens. Whose reply a message is, and whose deadline has passed, `awaited` decides.

use super::{
    Ask, NumbersUsedUp, Request, RequestError, Requests, UnmatchedReply,
    ask::{Answer, Finish, Taken},
    awaited::{Found, NoId, Part, Waiting},
};
use netwright_core::{CloseCause, Context, Event, Fault, Handler, StageTimer, Weight, WritePromise};
use std::time::Instant;

impl<Q: 'static, R: 'static, X: 'static> Requests<Q, R, X> {
    // ---- what comes from the application ----

    fn begin(&mut self, cx: &mut Context<'_, Self>, ask: Ask<Q, R>) {
        let Some(Taken { request, answer, limit, parts }) = ask.take() else { return };
        let limit = limit.unwrap_or(self.limits.deadline);
        let deadline = if limit.is_zero() { None } else { cx.now().checked_add(limit) };
        let request = Request { request, waiting: Waiting { answer: Some(answer), deadline, limit, parts } };
        if let Some(cause) = self.over.as_ref().or(cx.view().close_cause()).cloned() {
            return request.fail(RequestError::Closed { cause, written: false });
        }
        if is_cancelled(&request) {
            return;
        }
        if self.waiting.is_empty() && self.has_room(cx) {
            self.send(cx, request);
        } else if !self.has_place() {
            self.figures.count_refused();
            return request.fail(RequestError::TooManyWaiting { max_waiting: self.limits.waiting });
        } else {
            self.waiting.push_back(request);
            self.look_for_cancelled(cx);
        }
        self.watch(cx, deadline);
    }

    fn has_room(&self, cx: &Context<'_, Self>) -> bool {
        self.active && self.awaited.len() < self.limits.in_flight && cx.is_writable()
    }

    /// Whether one more may wait, if need be in the place of somebody who has given up.
    fn has_place(&mut self) -> bool {
        if self.waiting.len() >= self.limits.waiting {
            self.waiting.retain(|request| !is_cancelled(request));
        }
        self.waiting.len() < self.limits.waiting
    }

    /// Who cancels is not heard of: now and then, while others wait, those in flight are asked. Each look is paid for by those who came since.
    fn look_for_cancelled(&mut self, cx: &mut Context<'_, Self>) {
        self.since_look += 1;
        if self.since_look * 4 >= self.limits.in_flight {
            self.since_look = 0;
            self.awaited.forget_cancelled();
            self.go_on(cx);
        }
    }

    /// Writes a request, and waits for its reply.
    fn send(&mut self, cx: &mut Context<'_, Self>, request: Request<Q, R>) {
        let Request { mut request, waiting } = request;
        match self.awaited.add(&mut request, waiting) {
            Ok(()) => cx.write(request),
            Err((waiting, NoId::InUse)) => {
                self.figures.count_refused();
                Request { request, waiting }.fail(RequestError::IdInUse);
            }
            Err((waiting, NoId::Unanswered(requests))) => {
                // It would be so for ever: the next connection has all numbers.
                let cause = CloseCause::Fault(NumbersUsedUp { unanswered: requests }.into());
                Request { request, waiting }
                    .fail(RequestError::Closed { cause: cause.clone(), written: false });
                self.break_off(cx, cause);
            }
        }
    }

    /// Sends what waits, as far as there is room.
    fn go_on(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(cause) = cx.view().close_cause().cloned() {
            return self.fail_waiting(&cause); // there is room now, for nothing is sent any more
        }
        let mut sent = false;
        while !self.waiting.is_empty() && self.has_room(cx) {
            let Some(request) = self.waiting.pop_front() else { break };
            if !is_cancelled(&request) {
                sent = true;
                self.send(cx, request);
            }
        }
        if sent {
            cx.flush();
        }
        if self.finishing && self.waiting.is_empty() && !self.awaited.is_anybody_waiting() {
            self.finishing = false;
            cx.close();
        }
    }

    /// A part of a reply whose last part is still to come.
    fn part(&mut self, cx: &mut Context<'_, Self>, part: R) {
        match self.awaited.part(part, cx.now(), self.limits.stuck_after) {
            Part::Taken => {}
            Part::Late(due) => {
                self.figures.count_late();
                self.watch(cx, due);
            }
            Part::Unmatched => self.unmatched(cx),
        }
    }

    fn unmatched(&mut self, cx: &mut Context<'_, Self>) {
        let fault = UnmatchedReply { in_flight: self.awaited.len() };
        self.break_off(cx, CloseCause::Fault(fault.into()));
    }

    // ---- time ----

    /// Sees to it that somebody looks at this moment, or before.
    fn watch(&mut self, cx: &mut Context<'_, Self>, moment: Option<Instant>) {
        let Some(moment) = moment else { return };
        match self.timer {
            Some((_, at)) if at <= moment => return,
            Some((timer, _)) => drop(cx.disarm(timer)),
            None => {}
        }
        self.timer = Some((cx.arm(moment.saturating_duration_since(cx.now())), moment));
    }

    fn look_at_deadlines(&mut self, cx: &mut Context<'_, Self>, now: Instant) {
        let look = self.awaited.look(now, self.limits.stuck_after);
        let mut next = look.next;
        let mut late = Vec::new();
        for _ in 0..self.waiting.len() {
            let Some(request) = self.waiting.pop_front() else { break };
            match request.waiting.deadline {
                Some(deadline) if deadline <= now => late.push(request),
                deadline => {
                    next = next.into_iter().chain(deadline).min();
                    self.waiting.push_back(request);
                }
            }
        }
        for (answer, limit) in look.late {
            self.figures.count_timed_out();
            answer.fail(RequestError::TimedOut { limit, written: true }, None);
        }
        for request in late {
            self.figures.count_timed_out();
            let limit = request.waiting.limit;
            request.fail(RequestError::TimedOut { limit, written: false });
        }
        if look.stuck {
            return self.break_off(cx, CloseCause::TimedOut(self.limits.stuck_after));
        }
        self.go_on(cx);
        self.watch(cx, next);
    }

    // ---- the end ----

    /// Tells those who have not been written that they will not be.
    fn fail_waiting(&mut self, cause: &CloseCause) {
        self.over.get_or_insert_with(|| cause.clone());
        for request in std::mem::take(&mut self.waiting) {
            request.fail(RequestError::Closed { cause: cause.clone(), written: false });
        }
    }

    /// Tells everybody that no reply will come.
    fn fail_all(&mut self, cause: &CloseCause) {
        self.fail_waiting(cause);
        for waiting in self.awaited.take_all() {
            waiting.fail(RequestError::Closed { cause: cause.clone(), written: true });
        }
    }

    fn break_off(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.fail_all(&cause);
        cx.close_because(cause);
    }
}

fn is_cancelled<Q: 'static, R: 'static>(request: &Request<Q, R>) -> bool {
    request.waiting.answer.as_ref().is_none_or(Answer::is_cancelled)
}

impl<Q: 'static, R: 'static, X: 'static> Handler for Requests<Q, R, X> {
    type Read = R;
    type ReadOut = X;
    type Write = Ask<Q, R>;
    type WriteOut = Q;
    const WEIGHT: Weight<Ask<Q, R>> = Ask::<Q, R>::WEIGHT;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.active = true;
        self.go_on(cx);
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, message: R) {
        let reply = match &mut self.pushes {
            None => message,
            Some(sort) => match sort(message) {
                Ok(reply) => reply,
                Err(push) => return cx.fire_read(push),
            },
        };
        if self.is_part.as_mut().is_some_and(|is_part| is_part(&reply)) {
            return self.part(cx, reply);
        }
        match self.awaited.take(&reply) {
            Found::Of(answer) => answer.succeed(reply),
            Found::Late => self.figures.count_late(),
            Found::Unmatched => self.unmatched(cx),
        }
    }

    // What waits is sent here and not in `read`: there it would count as an answer, and a peer that does not read would not be read from either. Servers
    // stop reading while nobody takes their replies.
    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.go_on(cx);
        cx.fire_read_complete();
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, ask: Ask<Q, R>, done: WritePromise) {
        self.begin(cx, ask);
        done.succeed(); // what became of it, the reply tells
    }

    fn writability(&mut self, cx: &mut Context<'_, Self>, writable: bool) {
        if writable {
            self.go_on(cx);
        }
        cx.fire_writability(writable);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        match event.get::<Finish>() {
            Some(Finish) => {
                self.over.get_or_insert(CloseCause::Requested);
                self.finishing = true;
                self.go_on(cx);
            }
            None => cx.fire_event(event),
        }
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        if let Some((armed, at)) = self.timer
            && armed == timer
        {
            self.timer = None;
            let now = cx.now().max(at);
            self.look_at_deadlines(cx, now);
        }
    }

    fn input_closed(&mut self, cx: &mut Context<'_, Self>) {
        self.fail_all(&CloseCause::PeerClosed); // no reply can come any more
        cx.fire_input_closed();
        cx.close_because(CloseCause::PeerClosed);
    }

    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        self.break_off(cx, CloseCause::Fault(fault));
    }

    fn close(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause, done: WritePromise) {
        self.fail_waiting(&cause);
        cx.close_with(cause, done);
    }

    fn shut_down_output(&mut self, cx: &mut Context<'_, Self>, done: WritePromise) {
        self.fail_waiting(&CloseCause::Requested);
        cx.shut_down_output_with(done);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.fail_all(&cause);
        cx.fire_inactive(cause);
    }

    fn name(&self) -> &'static str {
        "Requests"
    }
}

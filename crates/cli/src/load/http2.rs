//! A connection of the load on an HTTP/2 server: many questions at a time, each on a stream of its own.
//!
//! ```text
//!   bytes ◀─▶ [ Http2Client ] ══▶ [ Answer ]     one for each stream: checks what comes
//!                   ▲                 │ noted in what both share
//!              [ Streams ] ◀──────────┘ when what came in a turn was read: asks again
//! ```
//! Always true: a stream is noted once, as answered or as the problem that ended it.

use super::{
    course::{Course, Order, Problem},
    http::{Check, Question},
    pattern::Supply,
};
use netwright::{
    CloseCause, Context, Event, Fault, Handler, WritePromise,
    http::{HttpLimits, ReplyPart, RequestPart, http2::http2_client},
    pipeline,
    pipeline::IntoPipeline,
    tls::Handshake,
};
use std::{cell::RefCell, convert::Infallible, rc::Rc, sync::Arc, time::Instant};

/// What TLS calls HTTP/2.
pub(super) const H2: &str = "h2";

/// The stages of a connection.
pub(super) fn stages(course: Course, question: Arc<Question>, tls: bool) -> impl IntoPipeline<Order> + use<> {
    let supply = Supply::of_connection(course.number);
    let noted = Rc::new(RefCell::new(Noted::default()));
    let (size, depth) = (course.shared.size, course.shared.depth);
    let (check, told) = ((question.clone(), supply.pattern), noted.clone());
    let stream = move || {
        let check = Check::new(check.0.clone(), check.1, size);
        pipeline().last(Answer { check, noted: told.clone(), sent: None })
    };
    let client = http2_client(stream).over_tls(tls).limits(limits(depth));
    pipeline().add(client).last(Streams { course, question, supply, noted })
}

/// As for clients, and as many streams as are wanted: those that the server does not take yet wait here.
pub(super) fn limits(streams: usize) -> HttpLimits {
    let mut limits = HttpLimits::client();
    limits.in_flight = streams;
    limits.http2.streams = streams;
    limits
}

/// What streams have come to since it was looked at last.
#[derive(Default)]
struct Noted {
    /// When what was answered had been asked.
    right: Vec<Instant>,
    problem: Option<Problem>,
    answers: u64,
}

impl Noted {
    fn problem(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }
}

/// What is asked on a new stream.
struct Ask {
    request: RequestPart,
    /// Where its body begins in the connection's pattern.
    from: u64,
    sent: Instant,
}

/// The far end of a stream.
struct Answer {
    check: Check,
    noted: Rc<RefCell<Noted>>,
    /// When it was asked; `None` when it is answered.
    sent: Option<Instant>,
}

impl Handler for Answer {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = Ask;
    type WriteOut = RequestPart;

    fn write(&mut self, cx: &mut Context<'_, Self>, ask: Ask, done: WritePromise) {
        self.check.begin(ask.from);
        self.sent = Some(ask.sent);
        cx.write_with(ask.request, done);
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart) {
        let Some(sent) = self.sent else { return };
        let mut noted = self.noted.borrow_mut();
        match self.check.part(part) {
            Ok(false) => {}
            Ok(true) => {
                self.sent = None;
                noted.answers += 1;
                noted.right.push(sent);
            }
            Err(why) => {
                self.sent = None;
                let number = noted.answers + 1;
                noted.problem(Problem::Answer { number, why });
                cx.close();
            }
        }
    }

    /// Comes again as the cause of the end.
    fn error(&mut self, _: &mut Context<'_, Self>, _: Fault) {}

    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        if self.sent.take().is_some() {
            self.noted.borrow_mut().problem(Problem::Ended { cause, missing: 1, of: "answers" });
        }
    }
}

/// The last stage of the connection itself: takes orders from outside, and keeps as many streams open as is wanted.
struct Streams {
    course: Course,
    question: Arc<Question>,
    supply: Supply,
    noted: Rc<RefCell<Noted>>,
}

impl Streams {
    fn fill_up(&mut self, cx: &mut Context<'_, Self>, now: Instant) {
        while self.course.has_room() {
            let from = self.supply.given;
            let request = self.question.ask(&mut self.supply, self.course.shared.size);
            self.course.sent(now);
            cx.write(Ask { request, from, sent: now });
        }
        cx.flush();
    }

    /// Takes what the streams have noted.
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        let mut noted = self.noted.borrow_mut();
        if let Some(problem) = noted.problem.take() {
            self.course.fail(problem);
            drop(noted);
            return cx.close();
        }
        if noted.right.is_empty() || self.course.has_failed() {
            return;
        }
        let now = Instant::now();
        for sent in noted.right.drain(..) {
            self.course.came_back_from(sent, now);
        }
        drop(noted);
        self.fill_up(cx, now);
        self.close_if_done(cx);
    }

    fn close_if_done(&mut self, cx: &mut Context<'_, Self>) {
        if self.course.is_done() {
            cx.close();
        }
    }
}

impl Handler for Streams {
    type Read = Infallible;
    type ReadOut = Infallible;
    type Write = Order;
    type WriteOut = Ask;

    fn read(&mut self, _: &mut Context<'_, Self>, never: Infallible) {
        match never {}
    }

    fn read_complete(&mut self, cx: &mut Context<'_, Self>) {
        self.look(cx);
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if let Some(handshake) = event.get::<Handshake>()
            && handshake.alpn.as_deref() != Some(H2.as_bytes())
        {
            let why = "the server did not agree to speak HTTP/2 when TLS asked it".to_owned();
            self.course.fail(Problem::Refused(why));
            cx.close();
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, order: Order, done: WritePromise) {
        match order {
            Order::Go => self.fill_up(cx, Instant::now()),
            Order::Finish => {
                self.course.finish();
                self.look(cx);
                self.close_if_done(cx);
            }
        }
        done.succeed();
    }

    /// Comes again as the cause of the end.
    fn error(&mut self, _: &mut Context<'_, Self>, _: Fault) {}

    fn inactive(&mut self, _: &mut Context<'_, Self>, cause: CloseCause) {
        if let Some(problem) = self.noted.borrow_mut().problem.take()
            && !matches!(problem, Problem::Ended { .. })
        {
            self.course.fail(problem);
        }
        let missing = self.course.on_their_way() as u64;
        self.course.end(cause, missing, "answers");
    }
}

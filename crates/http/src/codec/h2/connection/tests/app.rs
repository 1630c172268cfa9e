//! Applications of tests: a closure that gets each part of a request, and what came of it.

use super::peer::Peer;
use crate::{
    codec::{
        RequestRefused,
        h2::connection::{http2_server, tests::peer::Heard},
    },
    limits::HttpLimits,
    message::{HttpPart, ReplyHead, ReplyPart, RequestPart},
};
use http::StatusCode;
use netwright_core::{
    CloseCause, Context, EmbeddedChannel, Event, HalfClosure, Handler, WritePromise, pipeline,
};
use std::{cell::RefCell, convert::Infallible, rc::Rc};

/// What applications were told, by all streams.
#[derive(Debug, Clone, Default)]
pub(super) struct Told(Rc<RefCell<Vec<String>>>);

impl Told {
    pub(super) fn tell(&self, what: impl Into<String>) {
        self.0.borrow_mut().push(what.into());
    }

    /// Everything since the last time.
    pub(super) fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

type Call = Rc<dyn Fn(&mut Context<'_, App>, RequestPart)>;

pub(super) struct App {
    call: Call,
    told: Told,
}

impl Handler for App {
    type Read = RequestPart;
    type ReadOut = Infallible;
    type Write = Infallible;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        (self.call.clone())(cx, part);
    }
    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }
    fn write(&mut self, _: &mut Context<'_, Self>, never: Infallible, _: WritePromise) {
        match never {}
    }
    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if let Some(RequestRefused(error)) = event.get() {
            self.told.tell(format!("refused: {error}"));
        }
        cx.fire_event(event);
    }
    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.told.tell(format!("ended: {cause}"));
        cx.fire_inactive(cause);
    }
}

/// A server whose streams call this, and a peer that has been greeted by it.
pub(super) fn serving(
    limits: HttpLimits,
    call: impl Fn(&mut Context<'_, App>, RequestPart) + 'static,
) -> (Peer<Infallible>, Told) {
    let (call, told): (Call, _) = (Rc::new(call), Told::default());
    let log = told.clone();
    let build = move || pipeline().last(App { call: call.clone(), told: log.clone() });
    let server = http2_server(build).date(false).limits(limits);
    (Peer::greeted(EmbeddedChannel::of(pipeline().last(server))), told)
}

/// One whose streams never answer.
pub(super) fn silent() -> (Peer<Infallible>, Told) {
    serving(HttpLimits::default(), |_, _| ())
}

/// A reply of this length when the request's head has come.
pub(super) fn replies(len: usize) -> impl Fn(&mut Context<'_, App>, RequestPart) {
    move |cx, part| {
        if matches!(part, HttpPart::Head(_) | HttpPart::Whole(..)) {
            cx.write_and_flush(whole(200, len));
        }
    }
}

pub(super) fn head(status: u16) -> ReplyPart {
    HttpPart::Head(ReplyHead::from(StatusCode::from_u16(status).unwrap()))
}

pub(super) fn whole(status: u16, len: usize) -> ReplyPart {
    HttpPart::Whole(ReplyHead::from(StatusCode::from_u16(status).unwrap()), vec![b'x'; len].into())
}

/// How many bytes of bodies were heard.
pub(super) fn bytes(heard: &[Heard]) -> usize {
    heard.iter().map(|heard| if let Heard::Data { data, .. } = heard { data.len() } else { 0 }).sum()
}

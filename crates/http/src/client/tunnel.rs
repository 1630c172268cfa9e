//! The way through a proxy: `CONNECT`, and in what that opens, TLS and HTTP.
//!
//! ```text
//!   codec ─▶ Tunnel     CONNECT host:port ─▶ 2xx ──▶ switch ──▶ TLS ─▶ codec ─▶ Exchange
//!                       what is asked meanwhile waits
//! ```
//! Always true: the answer to `CONNECT` comes within the time that a connection has to be made, because it is a part of that;
//! and what is asked is not written before it, so that it comes back if the connection ends.

use super::{WebClientError, ask::Ask, exchange::Exchange};
use crate::{
    codec::HttpClient,
    limits::HttpLimits,
    message::{HttpPart, ReplyPart, RequestHead, RequestPart},
};
use bytes::Bytes;
use http::{Method, Uri};
use netwright_core::{
    CloseCause, Context, Fault, Handler, Joint, PipelineBuilder, StageTimer, Switch, WritePromise, pipeline,
};
use netwright_tls::{Destination, Tls};
use std::{convert::Infallible, sync::Arc, time::Duration};

type Pipeline = PipelineBuilder<(), Joint<Ask>>;

/// Where a tunnel leads, and what is done there.
#[derive(Clone)]
pub(super) struct Route {
    /// The host and the port that the proxy is asked for.
    pub(super) target: String,
    /// Who has to be there.
    pub(super) server: Destination,
    pub(super) limits: Arc<HttpLimits>,
    /// How long the connection may be unused. Zero: for ever.
    pub(super) idle: Duration,
    /// How long the proxy may take. Zero: no limit.
    pub(super) time: Duration,
}

/// A pipeline that goes through a proxy, and does TLS at the other end.
pub(super) fn through(way: Route) -> Pipeline {
    pipeline().joint(move |switch| {
        let codec = HttpClient::with(way.limits.clone());
        pipeline().add(codec).last(Tunnel { way, switch, asked: None, answer_due: None, total_due: None })
    })
}

struct Tunnel {
    way: Route,
    switch: Switch<Ask>,
    /// The pool lends to one at a time.
    asked: Option<Ask>,
    answer_due: Option<StageTimer>,
    /// When what was asked has to be over, and how long that is.
    total_due: Option<(StageTimer, Duration)>,
}

impl Tunnel {
    fn fail(&mut self, cx: &mut Context<'_, Self>, error: WebClientError) {
        if let Some(ask) = self.asked.take() {
            ask.refuse(error);
        }
        cx.close();
    }
}

impl Handler for Tunnel {
    type Read = ReplyPart;
    type ReadOut = Infallible;
    type Write = Ask;
    type WriteOut = RequestPart;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        self.answer_due = (!self.way.time.is_zero()).then(|| cx.arm(self.way.time));
        let mut head = RequestHead::new();
        head.method = Method::CONNECT;
        match self.way.target.parse::<Uri>() {
            Ok(target) => {
                head.uri = target;
                cx.write_and_flush(HttpPart::Whole(head, Bytes::new()));
            }
            Err(_) => {
                let (url, why) = (self.way.target.clone(), "it is not a host and a port");
                self.fail(cx, WebClientError::Url { url, why });
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart) {
        let (HttpPart::Whole(head, _) | HttpPart::Head(head)) = part else { return };
        if !head.status.is_success() {
            return self.fail(cx, WebClientError::Proxy { status: head.status.as_u16() });
        }
        let codec = HttpClient::with(self.way.limits.clone());
        let exchange = Exchange::after(self.asked.take(), self.way.idle);
        self.switch.to(pipeline().add(Tls::to(&self.way.server)).add(codec).last(exchange));
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, mut ask: Ask, done: WritePromise) {
        let now = cx.view().event_loop().now();
        let since = *ask.since.get_or_insert(now);
        let total = ask.times.total;
        let left = total.saturating_sub(now.saturating_duration_since(since));
        self.total_due = (!total.is_zero()).then(|| (cx.arm(left), total));
        self.asked = Some(ask);
        done.succeed();
    }

    fn timer(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        if self.answer_due == Some(timer) {
            let (what, limit) = ("the proxy's answer to CONNECT", self.way.time);
            self.fail(cx, WebClientError::TimedOut { what, limit });
        } else if let Some((due, limit)) = self.total_due
            && due == timer
        {
            self.fail(cx, WebClientError::TimedOut { what: "the end of the reply", limit });
        }
    }

    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        self.fail(cx, WebClientError::Closed(CloseCause::Fault(fault)));
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.fail(cx, WebClientError::Closed(cause.clone()));
        cx.fire_inactive(cause);
    }
}

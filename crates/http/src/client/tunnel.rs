//! The way through a proxy: `CONNECT`, and in what that opens, TLS and HTTP.
//!
//! ```text
//!   codec ─▶ Tunnel     CONNECT host:port ─▶ 2xx ──▶ switch ──▶ TLS ─▶ codec ─▶ Exchange
//!                       what is asked meanwhile waits
//! ```

use super::{
    ClientError,
    exchange::{Ask, Exchange},
};
use crate::{
    codec::HttpClient,
    head::RequestHead,
    limits::Limits,
    message::{Part, ReplyPart, RequestPart},
};
use bytes::{Bytes, BytesMut};
use http::{Method, Uri};
use netwright_core::{
    CloseCause, Context, Fault, Handler, Joint, Outgoing, PipelineBuilder, Switch, WritePromise, pipeline,
};
use netwright_tls::{Destination, Tls};
use std::{convert::Infallible, sync::Arc};

type Pipeline = PipelineBuilder<(), Joint<BytesMut, Outgoing, Ask>>;

/// A pipeline that goes through a proxy to `target` (host and port), and does TLS with the server there.
pub(super) fn through(target: String, server: Destination, limits: Arc<Limits>) -> Pipeline {
    pipeline().joint(move |switch| {
        let codec = HttpClient::with(limits.clone());
        pipeline().add(codec).last(Tunnel { target, server, limits, switch, asked: Vec::new() })
    })
}

struct Tunnel {
    target: String,
    server: Destination,
    limits: Arc<Limits>,
    switch: Switch<BytesMut, Outgoing, Ask>,
    asked: Vec<Ask>,
}

impl Tunnel {
    fn fail(&mut self, cx: &mut Context<'_, Self>, error: &ClientError) {
        for ask in self.asked.drain(..) {
            ask.refuse(error.clone());
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
        let mut head = RequestHead::new();
        head.method = Method::CONNECT;
        match self.target.parse::<Uri>() {
            Ok(target) => {
                head.uri = target;
                cx.write_and_flush(Part::Whole(head, Bytes::new()));
            }
            Err(_) => {
                let error = ClientError::Url { url: self.target.clone(), why: "it is not a host and a port" };
                self.fail(cx, &error);
            }
        }
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart) {
        let (Part::Whole(head, _) | Part::Head(head)) = part else { return };
        if !head.status.is_success() {
            return self.fail(cx, &ClientError::Proxy { status: head.status.as_u16() });
        }
        let exchange = Exchange::after(std::mem::take(&mut self.asked));
        let tls = Tls::to(&self.server);
        self.switch.to(pipeline().add(tls).add(HttpClient::with(self.limits.clone())).last(exchange));
    }

    fn write(&mut self, _: &mut Context<'_, Self>, ask: Ask, done: WritePromise) {
        self.asked.push(ask);
        done.succeed();
    }

    fn error(&mut self, cx: &mut Context<'_, Self>, fault: Fault) {
        self.fail(cx, &ClientError::Closed(CloseCause::Fault(fault)));
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        self.fail(cx, &ClientError::Closed(cause.clone()));
        cx.fire_inactive(cause);
    }
}

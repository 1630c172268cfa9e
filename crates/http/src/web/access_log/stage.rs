//! [`AccessLog`] as a stage: it notes, counts and tells.

use super::{AccessEntry, AccessLog};
use crate::{
    HttpPart, ReplyPart, RequestPart, RequestRefused,
    web::turns::{Turns, ends},
};
use http::header;
use netwright_core::{CloseCause, Context, Event, Handler, WritePromise};
use std::time::Instant;

/// Made by [`AccessLog::stage`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_http::{HttpServer, web::AccessLog};
///
/// let log = AccessLog::new(|entry| println!("{}", entry.common())); // one for all connections
/// let _stages = pipeline().add(HttpServer::new()).add(log.stage()); // a stage for each
/// ```
#[derive(Debug)]
pub struct AccessLogStage {
    log: AccessLog,
    turns: Turns<Box<(AccessEntry, Instant)>>,
    /// Bytes of the request that is being read: it is not always the one that is being answered.
    reading: u64,
    /// The body of the request that came last is not over.
    in_body: bool,
    /// Requests whose replies are not over.
    waiting: usize,
    /// A head that was refused, and waits for the replies before it.
    refused: Option<Box<(AccessEntry, Instant)>>,
}

impl Handler for AccessLogStage {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        match &part {
            HttpPart::Head(head) | HttpPart::Whole(head, _) => {
                self.reading = if let HttpPart::Whole(_, body) = &part { body.len() as u64 } else { 0 };
                self.in_body = matches!(part, HttpPart::Head(_));
                self.waiting += 1;
                let peer = cx.view().peer_addr().map(|peer| peer.ip());
                let mut entry = AccessEntry::new(peer, head.method.clone(), head.uri.clone(), head.version);
                entry.request_bytes = self.reading;
                entry.referer = head.headers.get(header::REFERER).cloned();
                entry.user_agent = head.headers.get(header::USER_AGENT).cloned();
                self.turns.expect(Box::new((entry, cx.view().event_loop().now())));
            }
            HttpPart::Data(data) => {
                self.reading += data.len() as u64;
                // Only the last request can have a body that is not over.
                if let Some(last) = self.turns.last() {
                    last.0.request_bytes = self.reading;
                }
            }
            HttpPart::End(_) => self.in_body = false,
            _ => {}
        }
        cx.fire_read(part);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        if let Some(note) = self.turns.current() {
            let entry = &mut note.0;
            match &part {
                HttpPart::Head(head) => entry.status = Some(head.status),
                HttpPart::Whole(head, body) => {
                    entry.status = Some(head.status);
                    entry.reply_bytes += body.len() as u64;
                }
                HttpPart::Data(data) => entry.reply_bytes += data.len() as u64,
                HttpPart::File(region) => entry.reply_bytes += region.remaining(),
                HttpPart::End(_) | HttpPart::Interim(_) => {}
            }
        }
        let over = ends(&part);
        cx.write_with(part, done);
        if over && let Some(mut note) = self.turns.done(cx) {
            note.0.complete = true;
            self.tell(cx, *note);
            self.waiting -= 1;
            self.tell_refused(cx);
        }
    }

    fn event(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        if let Some(RequestRefused(error)) = event.get::<RequestRefused>() {
            if !std::mem::take(&mut self.in_body) {
                let mut entry = AccessEntry::without_head(cx.view().peer_addr().map(|peer| peer.ip()));
                entry.refuse(error);
                self.refused = Some(Box::new((entry, cx.view().event_loop().now())));
                self.tell_refused(cx);
            } else if let Some(last) = self.turns.last() {
                last.0.refuse(error); // unless its reply was over before its body
            }
        }
        cx.fire_event(event);
    }

    fn inactive(&mut self, cx: &mut Context<'_, Self>, cause: CloseCause) {
        for note in self.turns.abandon() {
            self.tell(cx, *note);
        }
        self.waiting = 0;
        self.tell_refused(cx);
        cx.fire_inactive(cause);
    }

    fn start_over(&mut self) -> bool {
        *self = Self::new(self.log.clone());
        true
    }
}

impl AccessLogStage {
    pub(super) fn new(log: AccessLog) -> Self {
        Self { log, turns: Turns::default(), reading: 0, in_body: false, waiting: 0, refused: None }
    }

    fn tell(&self, cx: &Context<'_, Self>, (mut entry, began): (AccessEntry, Instant)) {
        entry.latency = cx.view().event_loop().now().saturating_duration_since(began);
        (self.log.sink)(&entry);
    }

    /// Tells of a head that was refused, if it is its turn.
    fn tell_refused(&mut self, cx: &Context<'_, Self>) {
        if self.waiting == 0
            && let Some(note) = self.refused.take()
        {
            self.tell(cx, *note);
        }
    }
}

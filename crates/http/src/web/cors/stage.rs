//! [`Cors`] as a stage: requests and replies of the same types pass through it.

use super::{Cors, CorsDecision};
use crate::{
    HttpPart, ReplyPart, RequestPart,
    web::{
        Reply,
        accept::add_vary,
        turns::{Turns, ends, head_mut},
    },
};
use http::HeaderMap;
use netwright_core::{Context, Handler, WritePromise};

/// Made by [`Cors::stage`].
///
/// ```
/// use netwright_core::pipeline;
/// use netwright_http::web::Cors;
/// # use netwright_http::{RequestPart, ReplyPart};
///
/// let cors = Cors::any();
/// // one for each connection: pipeline().add(HttpServer::new()).add(cors.stage()).…
/// let stage = cors.stage();
/// # fn is_stage<S: netwright_core::Handler<Read = RequestPart, WriteOut = ReplyPart>>(_: S) {}
/// # is_stage(stage);
/// ```
#[derive(Debug)]
pub struct CorsStage {
    cors: Cors,
    turns: Turns<Option<HeaderMap>>,
    /// The body of a request that was answered here is thrown away.
    skips: bool,
}

impl CorsStage {
    pub(super) fn new(cors: Cors) -> Self {
        Self { cors, turns: Turns::default(), skips: false }
    }
}

impl Handler for CorsStage {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        if let HttpPart::Head(head) | HttpPart::Whole(head, _) = &part {
            let granted = match self.cors.decide(head) {
                CorsDecision::Pass => None,
                CorsDecision::Grant(headers) => Some(headers),
                CorsDecision::Preflight(reply) | CorsDecision::Refuse(reply) => {
                    self.skips = matches!(part, HttpPart::Head(_));
                    return self.turns.answer(cx, Reply::whole(reply));
                }
            };
            self.turns.expect(granted);
        } else if self.skips {
            self.skips = !matches!(part, HttpPart::End(_));
            return;
        }
        cx.fire_read(part);
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, mut part: ReplyPart, done: WritePromise) {
        if let Some(head) = head_mut(&mut part) {
            if let Some(granted) = self.turns.current().and_then(Option::take) {
                for (name, value) in granted {
                    if let Some(name) = name {
                        head.headers.insert(name, value);
                    }
                }
            }
            if self.cors.varies() {
                add_vary(&mut head.headers, "origin");
            }
        }
        let over = ends(&part);
        cx.write_with(part, done);
        if over {
            self.turns.done(cx);
        }
    }

    fn start_over(&mut self) -> bool {
        (self.turns, self.skips) = (Turns::default(), false);
        true
    }
}

//! From HTTP/1.1 to HTTP/2 on a connection in the clear (RFC 7540, section 3.2).
//!
//! ```text
//!   [ HttpServer ] ─▶ [ UpgradeToHttp2 ] ─▶ S          GET / … Upgrade: h2c, HTTP2-Settings: AAMAAABk
//!         101, then the whole segment is exchanged for
//!   [ Http2Server ] ═▶ S                               that request is stream 1
//! ```
//! The standard of today has dropped this, but programs ask for it, and who does not understand the answer has not asked. A request with a
//! body is answered as if it had not asked, as the standard of then allows.

use super::h2::{Settings, http2_server};
use crate::{
    limits::HttpLimits,
    message::{HttpPart, ReplyHead, ReplyPart, RequestHead, RequestPart},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use netwright_core::{Context, Handler, IntoPipeline, Switch, WritePromise, pipeline};
use std::{convert::Infallible, sync::Arc};

/// The stage that looks for such a request.
pub(super) struct UpgradeToHttp2 {
    #[allow(clippy::type_complexity)] // a closure and its arguments
    switch: Option<Box<dyn FnOnce(Settings, RequestHead)>>,
    /// Requests that the application has not answered: one that waits behind them is answered by it as well.
    unanswered: usize,
}

const SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

impl UpgradeToHttp2 {
    pub(super) fn new<B, T>(
        switch: Switch<Infallible>,
        limits: Arc<HttpLimits>,
        date: bool,
        build: impl FnMut() -> B + 'static,
    ) -> Self
    where
        B: IntoPipeline<T, RequestPart, ReplyPart, Written = ReplyPart> + 'static,
        T: 'static,
    {
        let switch = move |settings, request| {
            let server = http2_server(build).limits(limits).date(date).asked_before(settings, request);
            switch.to(pipeline().last(server).sealed());
        };
        Self { switch: Some(Box::new(switch)), unanswered: 0 }
    }
}

/// The settings that come with a request for HTTP/2, if it is one.
fn wanted(headers: &HeaderMap) -> Option<Settings> {
    let upgrade = headers.get(header::UPGRADE)?;
    if !upgrade.as_bytes().eq_ignore_ascii_case(b"h2c") || headers.get_all(&SETTINGS).iter().count() != 1 {
        return None;
    }
    let options = headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    let mut named = (false, false);
    for option in options.map(<[u8]>::trim_ascii) {
        named.0 |= option.eq_ignore_ascii_case(b"upgrade");
        named.1 |= option.eq_ignore_ascii_case(b"http2-settings");
    }
    if named != (true, true) {
        return None;
    }
    Settings::of_payload(&base64url(headers.get(&SETTINGS)?.as_bytes())?)
}

/// The bytes of a text in the alphabet for URLs. `None`: it is none.
fn base64url(text: &[u8]) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut held) = (Vec::with_capacity(text.len() * 3 / 4), 0u32, 0);
    for byte in text {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'-' => 62,
            b'_' => 63,
            _ => return None,
        };
        (bits, held) = (bits << 6 | u32::from(digit), held + 6);
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
        }
    }
    Some(bytes)
}

impl Handler for UpgradeToHttp2 {
    type Read = RequestPart;
    type ReadOut = RequestPart;
    type Write = ReplyPart;
    type WriteOut = ReplyPart;

    fn read(&mut self, cx: &mut Context<'_, Self>, part: RequestPart) {
        match part {
            HttpPart::Whole(request, body) if body.is_empty() && self.unanswered == 0 => {
                if let Some(settings) = wanted(&request.headers)
                    && let Some(switch) = self.switch.take()
                {
                    let mut reply = ReplyHead::from(StatusCode::SWITCHING_PROTOCOLS);
                    reply.headers.insert(header::UPGRADE, HeaderValue::from_static("h2c"));
                    cx.write_and_flush(HttpPart::Interim(reply));
                    return switch(settings, request);
                }
                self.unanswered += 1;
                cx.fire_read(HttpPart::Whole(request, body));
            }
            part => {
                self.unanswered += usize::from(matches!(part, HttpPart::Head(_) | HttpPart::Whole(..)));
                cx.fire_read(part);
            }
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, part: ReplyPart, done: WritePromise) {
        let ends = matches!(part, HttpPart::Whole(..) | HttpPart::End(_));
        cx.write_with(part, done);
        if ends {
            self.unanswered = self.unanswered.saturating_sub(1);
        }
    }

    fn name(&self) -> &'static str {
        "UpgradeToHttp2"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_for_urls_are_read_and_others_refused() {
        assert_eq!(base64url(b"AAMAAABk").as_deref(), Some(&[0, 3, 0, 0, 0, 100][..]));
        assert_eq!(base64url(b"_-8").as_deref(), Some(&[0xff, 0xef][..]));
        for bad in ["AAM=", "A+", "A/", "\u{e4}"] {
            assert_eq!(base64url(bad.as_bytes()), None, "{bad:?}");
        }
    }
}

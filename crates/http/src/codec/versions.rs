//! One pipeline for both versions: the first bytes decide.
//!
//! ```text
//!   [ Tls ] ─▶ ( joint ) ─▶ [ Detect ]                             "PRI * HTTP/2.0 …"?
//!                   ├─────▶ [ HttpServer ] ─▶ [ UpgradeToHttp2 ] ─▶ S         no
//!                   └─────▶ [ Http2Server ] ═▶ S, one for each stream         yes
//! ```
//! TLS says by ALPN what a client wants, and a client that wants HTTP/2 begins with those bytes: so they decide, with TLS and without.

use super::{
    HttpServer,
    h2::{PREFACE, http2_server},
    upgrade::UpgradeToHttp2,
};
use crate::{
    limits::HttpLimits,
    message::{HttpPart, ReplyHead, ReplyPart, RequestPart},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use netwright_core::{
    AppContext, Application, IntoPipeline, Joint, PipelineBuilder,
    detect::{Detect, prefix},
    pipeline,
};
use std::{convert::Infallible, rc::Rc, sync::Arc};

/// Which versions of HTTP a server speaks, and within which limits: what comes behind TLS, or next to the wire.
///
/// `build` makes the stages behind the codec, of the same types for all versions: once for a connection of HTTP/1.1, and for each stream of
/// HTTP/2. They read [`RequestPart`]s and write [`ReplyPart`]s.
///
/// ```
/// use http::Response;
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpVersions, Received, respond};
///
/// let hello = |request: &Received| Response::new(format!("{:?} {}", request.version(), request.uri()));
/// let server = HttpVersions::new(move || pipeline().app(respond(hello))).pipeline();
/// let mut channel = EmbeddedChannel::<(), _>::with_joint(server);
/// channel.write_inbound("GET /one HTTP/1.1\r\nHost: example\r\n\r\n");
/// assert!(channel.outbound_bytes().ends_with(b"\r\n\r\nHTTP/1.1 /one"));
/// ```
///
/// Behind TLS: `pipeline().add(Tls::server(&acceptor)).then(HttpVersions::new(build).pipeline())`, with an acceptor that offers
/// [`ALPN`](Self::ALPN).
#[derive(Debug, Clone)]
pub struct HttpVersions<F> {
    build: F,
    limits: Arc<HttpLimits>,
    http1: bool,
    http2: bool,
    date: bool,
}

impl<F> HttpVersions<F> {
    /// HTTP/1.1 and HTTP/2, with the default limits.
    pub fn new(build: F) -> Self {
        Self { build, limits: super::h1::default_limits(), http1: true, http2: true, date: true }
    }

    /// Other limits; an `Arc` of them is shared by many connections.
    #[must_use]
    pub fn limits(mut self, limits: impl Into<Arc<HttpLimits>>) -> Self {
        self.limits = limits.into();
        self
    }

    /// Only HTTP/1.1.
    #[must_use]
    pub fn http1_only(mut self) -> Self {
        (self.http1, self.http2) = (true, false);
        self
    }

    /// Only HTTP/2: who asks by HTTP/1.1 is told so, by 505, and the connection ends.
    #[must_use]
    pub fn http2_only(mut self) -> Self {
        (self.http1, self.http2) = (false, true);
        self
    }

    /// Whether `date` is added to replies that have none. Default: yes, as servers with a clock have to.
    #[must_use]
    pub fn date(mut self, date: bool) -> Self {
        self.date = date;
        self
    }

    /// The stages of one connection.
    pub fn pipeline<B, T>(self) -> PipelineBuilder<(), Joint<Infallible>>
    where
        F: Fn() -> B + 'static,
        B: IntoPipeline<T, RequestPart, ReplyPart, Written = ReplyPart> + 'static,
        T: 'static,
    {
        let Self { build, limits, http1, http2, date } = self;
        let build = Rc::new(build);
        let for_streams = build.clone();
        let own = limits.clone();
        pipeline().joint(move |switch| {
            let streams = move || {
                let server = http2_server(move || for_streams()).limits(own).date(date);
                pipeline().last(server).sealed()
            };
            let upgrades = http2.then(|| switch.clone());
            // Silence is idle time, which goes on behind this; and the first bytes of HTTP/2 have as long as its settings.
            let deadline = limits.http2.setup_time.min(limits.idle_time);
            let detect = Detect::new(switch.clone()).deadline(deadline);
            if !http1 {
                let refuse =
                    move || pipeline().add(HttpServer::with(limits).date(date)).app(OnlyHttp2).sealed();
                return pipeline().last(detect.rule(prefix(PREFACE), streams).otherwise(refuse));
            }
            let one = move || {
                let upgrade = upgrades.map(|switch| {
                    let (build, limits) = (build.clone(), limits.clone());
                    UpgradeToHttp2::new(switch, limits, date, move || build())
                });
                let codec = HttpServer::with(limits.clone()).date(date);
                pipeline().add(codec).add(upgrade).then(build()).sealed()
            };
            let detect = if http2 { detect.rule(prefix(PREFACE), streams) } else { detect };
            pipeline().last(detect.otherwise(one))
        })
    }
}

impl HttpVersions<()> {
    /// What TLS offers for HTTP/2 and HTTP/1.1, the better first.
    pub const ALPN: [&'static str; 2] = ["h2", "http/1.1"];
}

/// Tells who asks by HTTP/1.1 that only HTTP/2 is spoken here.
struct OnlyHttp2;

impl Application for OnlyHttp2 {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, part: RequestPart) {
        if matches!(part, HttpPart::Head(_) | HttpPart::Whole(..)) {
            let mut head = ReplyHead::from(StatusCode::HTTP_VERSION_NOT_SUPPORTED);
            head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            head.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            cx.write_and_flush(HttpPart::Whole(
                head,
                Bytes::from_static(b"this server speaks only HTTP/2\n"),
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Received, respond};
    use http::Response;
    use netwright_core::EmbeddedChannel;

    #[test]
    fn who_asks_by_http1_where_only_http2_is_spoken_is_told_so_in_http1() {
        let server = HttpVersions::new(|| pipeline().app(respond(|_: &Received| Response::new("hello"))));
        let mut channel = EmbeddedChannel::<(), _>::with_joint(server.http2_only().pipeline());
        channel.write_inbound("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nthe beginning");
        let told = channel.outbound_bytes();
        let told = String::from_utf8_lossy(&told);
        assert!(told.starts_with("HTTP/1.1 505 "), "{told}");
        assert!(told.contains("connection: close\r\n") && told.ends_with("only HTTP/2\n"), "{told}");
    }
}

//! A page for browsers, and the WebSocket that it opens to the room.
//!
//! ```text
//!   GET /             the page, all in one file
//!   GET /chat?name=N  101, then WebSocket: lines in, news as JSON out
//! ```

use super::room::{News, Room, harmless};
use bytes::Bytes;
use http::{HeaderValue, Response, header};
use netwright::{
    AppContext, Application, CloseCause, Promised, Server,
    http::{
        HttpVersions, respond,
        web::{Query, Reply},
    },
    pipeline,
    server::{BindError, ServerBuilder},
    websocket::{Accept, Config, Message, Upgrade},
};
use std::{net::IpAddr, sync::Arc};

const PAGE: &str = include_str!("page.html");
/// What the page may do: what is in it, and talk to where it came from.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:",
);
/// As long as lines of the others.
const LINE_MAX: usize = 4096;
/// Letters of a name.
const NAME_MAX: usize = 24;

pub(crate) fn bind(room: Room, server: ServerBuilder, address: &str) -> Promised<Server, BindError> {
    let config = Config::default().max_message(LINE_MAX);
    let accept = Arc::new(Accept::new(config).path("/chat").origins(is_of_this_machine));
    server
        .pipeline(move |_| {
            let (room, accept) = (room.clone(), accept.clone());
            let web = HttpVersions::new(move || {
                let (room, accept) = (room.clone(), accept.clone());
                pipeline().joint_between(|switch| {
                    let upgrade = Upgrade::tunnel(switch, accept, move |socket, request, _| {
                        let visitor = Visitor { room: room.clone(), name: name(&request.uri) };
                        pipeline().add(socket).app(visitor)
                    });
                    let page = respond(|request| page(request.method(), request.uri().path()));
                    pipeline().add(upgrade).app(page).sealed()
                })
            });
            web.pipeline()
        })
        .bind(address)
}

fn page(method: &http::Method, path: &str) -> Response<Bytes> {
    if path != "/" || ![http::Method::GET, http::Method::HEAD].contains(method) {
        return Reply::not_found();
    }
    let mut reply = Reply::html(PAGE);
    reply.headers_mut().insert(header::CONTENT_SECURITY_POLICY, POLICY);
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

/// Pages of others cannot make a visitor's browser talk here.
fn is_of_this_machine(origin: &str) -> bool {
    let Ok(origin) = origin.parse::<http::Uri>() else { return false };
    let host = origin.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// What a visitor wants to be called; empty if that is not said.
fn name(uri: &http::Uri) -> String {
    let wanted =
        Query::of(uri).ok().and_then(|query| query.get("name").map(str::to_owned)).unwrap_or_default();
    harmless(wanted.trim().as_bytes()).chars().take(NAME_MAX).collect()
}

/// Somebody with a browser.
struct Visitor {
    room: Room,
    name: String,
}

impl Application for Visitor {
    type Read = Message;
    type Write = Message;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        if self.name.is_empty() {
            let port = cx
                .view()
                .peer_addr()
                .map_or_else(|| cx.view().id().to_string(), |peer| peer.port().to_string());
            self.name = format!("guest {port}");
        }
        self.room.enter_by_page(cx.channel());
        cx.write_and_flush(News::You { who: &self.name, others: self.room.others() }.message());
        self.room.tell_others(cx.view().id(), News::Came { who: &self.name });
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, message: Message) {
        let Some(text) = message.as_text() else { return };
        let text = harmless(text.as_bytes());
        self.room.tell_others(cx.view().id(), News::Say { who: &self.name, text: &text });
    }

    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        tracing::info!(peer = self.name, %cause, "left");
        self.room.tell_others(cx.view().id(), News::Left { who: &self.name });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_machine_may_open_a_chat() {
        for (origin, allowed) in [
            ("http://127.0.0.1:7004", true),
            ("http://localhost:1", true),
            ("http://[::1]:7004", true),
            ("https://example.org", false),
            ("http://127.0.0.1.example.org", false),
            ("null", false),
        ] {
            assert_eq!(is_of_this_machine(origin), allowed, "{origin}");
        }
    }

    #[test]
    fn names_are_text_and_not_long() {
        let name = |uri: &str| name(&uri.parse().unwrap());
        assert_eq!(name("/chat?name=%20ada%0a"), "ada");
        assert_eq!(name("/chat"), "");
        assert_eq!(name(&format!("/chat?name={}", "x".repeat(100))).len(), NAME_MAX);
    }
}

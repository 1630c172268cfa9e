//! What connections and streams hold while nothing happens. The head of a request that somebody keeps comes on top: with four fields it is
//! about a kibibyte, as everywhere.

use super::peer::Peer;
use crate::{
    Body,
    codec::h2::{
        connection::http2_server,
        frame::{PREFACE, Settings},
    },
    message::{ReplyPart, RequestPart},
    serve,
};
use http::{Request, Response};
use netwright_core::{AppContext, Application, EmbeddedChannel, IntoPipeline, pipeline};
use netwright_testkit::bytes_in_use;

/// Streams that a connection may have at a time by default.
const STREAMS: u32 = 100;

/// Keeps nothing of a request, and never answers.
struct Silent;

impl Application for Silent {
    type Read = RequestPart;
    type Write = ReplyPart;

    fn read(&mut self, _: &mut AppContext<'_, Self>, _: RequestPart) {}
}

/// Bytes in use for each of many streams whose request is not over, on one connection.
fn each_stream<B, T>(build: impl FnMut() -> B + 'static) -> i64
where
    B: IntoPipeline<T, RequestPart, ReplyPart, Written = ReplyPart> + 'static,
    T: 'static,
{
    let mut peer = Peer::greeted(EmbeddedChannel::of(pipeline().last(http2_server(build))));
    let open = |peer: &mut Peer<_>, from: u32, streams: u32| {
        for number in 0..streams {
            peer.request(from + 2 * number, "POST", "/upload", &[("user-agent", "a test")], false);
        }
        peer.send();
        peer.hear();
    };
    open(&mut peer, 1, 1); // makes what all share
    let before = bytes_in_use();
    open(&mut peer, 3, STREAMS - 1);
    (bytes_in_use() - before) / i64::from(STREAMS - 1)
}

#[test]
fn an_open_stream_holds_at_most_a_kibibyte() {
    let each = each_stream(|| pipeline().app(Silent));
    assert!(each <= 1024, "{each}");
}

#[test]
fn an_open_stream_of_an_async_function_that_waits_for_its_body_holds_at_most_three_kibibytes() {
    let each = each_stream(|| {
        pipeline().app(serve(async |request: Request<Body>| {
            let mut body = request.into_body();
            while let Ok(Some(_)) = body.read().await {}
            Response::new("hello")
        }))
    });
    assert!(each <= 3 * 1024, "{each}");
}

#[test]
fn a_connection_without_streams_holds_at_most_two_kibibytes_more_than_one_that_does_nothing() {
    let nothing = || EmbeddedChannel::of(pipeline().handle(|_, _: bytes::BytesMut| {}));
    let connect = || {
        let mut channel = EmbeddedChannel::of(pipeline().last(http2_server(|| pipeline().app(Silent))));
        let mut hello = bytes::BytesMut::from(&PREFACE[..]);
        crate::codec::h2::frame::encode::settings(&mut hello, &Settings::default());
        crate::codec::h2::frame::encode::settings_ack(&mut hello);
        channel.write_inbound(&hello);
        channel.outbound_bytes();
        channel
    };
    let each = |make: &dyn Fn() -> i64| (0..10).map(|_| make()).min().unwrap_or_default();
    let idle = each(&|| {
        let before = bytes_in_use();
        let _kept = nothing();
        bytes_in_use() - before
    });
    let speaking = each(&|| {
        let before = bytes_in_use();
        let _kept = connect();
        bytes_in_use() - before
    });
    assert!(speaking - idle <= 2048, "{speaking} - {idle}");
}

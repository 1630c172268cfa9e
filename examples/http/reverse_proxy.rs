//! A reverse proxy: `cargo run --release --example http_reverse_proxy -- 127.0.0.1:7018 127.0.0.1:7016`, in front of the
//! server at the second address.
//!
//! ```text
//!   client ── request ──▶ [ HTTP/1.1 or HTTP/2 ] ──▶ forward() ── pieces ──▶ [ HttpClient ] ──▶ upstream, by HTTP/1.1
//!          ◀── reply ────                                      ◀── pieces ──
//! ```
//!
//! Bodies pass piece by piece in both directions. A piece is read from one side when the other has taken the one before, so
//! however long a body is and however slow one of them is, the proxy holds little of it. With HTTP/2 that is so for each stream: one that stands
//! still holds up no other. Try `curl --http2-prior-knowledge 127.0.0.1:7018`.
//!
//! Not here: a pool of connections to the upstream (each request has one of its own), WebSockets.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version, header};
use netwright::{
    Client, CloseCause, EventLoopGroup, Peer, Server, event_loops,
    http::{
        Body, BodySender, HttpClient, HttpLimits, HttpPart, HttpVersions, ReplyPart, RequestHead,
        RequestPart, serve,
    },
    pipeline,
    pipeline::{PeerReader, PeerWriter},
    promise::{Promise, PromiseError, Selected, promise, select},
};
use std::{
    error::Error,
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Bodies are passed on and not held, so they may be long.
const BODY_MAX: u64 = 1 << 40;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

struct Upstream {
    group: EventLoopGroup,
    address: String,
}

/// What a request becomes: its reply, or why there is none.
type Replying = Promise<Result<Response<Body>, String>, PromiseError>;

/// Asks the upstream what a client asks.
async fn forward(upstream: Arc<Upstream>, request: Request<Body>) -> Response<Body> {
    let (mut head, body) = request.into_parts();
    // Who has announced how much there will be is held to it; the rest is for the next hop only.
    strip(&mut head.headers);
    head.headers.remove(header::EXPECT); // our codec has answered that
    let via = if head.version == Version::HTTP_2 { "2.0 netwright" } else { "1.1 netwright" };
    head.headers.append(header::VIA, HeaderValue::from_static(via));
    head.version = Version::HTTP_11;
    head.headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    let (reply, replied) = promise();
    let reply = match ask(&upstream, Exchange { head: head.into(), body, reply }).await {
        Ok(()) => replied.await.unwrap_or_else(|error| Err(error.to_string())),
        Err(why) => Err(why),
    };
    reply.unwrap_or_else(|why| bad_gateway(&why))
}

/// All that is needed to ask once.
struct Exchange {
    head: RequestHead,
    body: Body,
    reply: Replying,
}

/// Connects; the rest goes on by itself.
async fn ask(upstream: &Upstream, exchange: Exchange) -> Result<(), String> {
    let exchange = Mutex::new(Some(exchange)); // there is one connection, which takes it
    let client =
        Client::builder().group(upstream.group.clone()).connect_timeout(CONNECT_LIMIT).pipeline(move || {
            let exchange = exchange.lock().ok().and_then(|mut exchange| exchange.take());
            pipeline().add(HttpClient::new()).serve(move |peer| converse(peer, exchange))
        });
    let connecting = client.map_err(|error| error.to_string())?.connect(&upstream.address);
    connecting.await.map(drop).map_err(|error| error.to_string())
}

/// One conversation with the upstream: the request goes out while the reply comes in.
async fn converse(peer: Peer<ReplyPart, RequestPart>, exchange: Option<Exchange>) -> Result<(), CloseCause> {
    let Some(Exchange { head, body, reply }) = exchange else { return Ok(()) };
    let (mut from_upstream, mut to_upstream) = peer.split();
    let asking = send(&mut to_upstream, head, body);
    let mut answering = pin!(receive(&mut from_upstream, reply));
    // An upstream may answer before it has heard everything, and then it has said all.
    match select(asking, answering.as_mut()).await {
        Selected::First(_) => answering.await,
        Selected::Second(answered) => answered,
    }
}

type ToUpstream = PeerWriter<ReplyPart, RequestPart>;
type FromUpstream = PeerReader<ReplyPart, RequestPart>;

async fn send(upstream: &mut ToUpstream, head: RequestHead, mut body: Body) -> Result<(), CloseCause> {
    if body.is_empty() {
        upstream.write(HttpPart::Whole(head, Bytes::new())).await?;
        upstream.flush();
        return Ok(());
    }
    upstream.write(HttpPart::Head(head)).await?;
    loop {
        match body.read().await {
            Ok(Some(piece)) => upstream.write(HttpPart::Data(piece)).await?,
            Ok(None) => break,
            Err(_) => {
                upstream.close_when_flushed(); // the client has left in the middle: the upstream must not take that for the whole
                return Ok(());
            }
        }
        upstream.flush();
    }
    upstream.write(HttpPart::End(body.trailers().cloned().map(Box::new))).await?;
    upstream.flush();
    Ok(())
}

async fn receive(upstream: &mut FromUpstream, reply: Replying) -> Result<(), CloseCause> {
    let mut reply = Some(reply);
    let mut sender: Option<BodySender> = None;
    loop {
        let part = match upstream.read().await {
            Ok(Some(part)) => part,
            ended => {
                // A body that was begun breaks off with its sender; a reply that was not is a failure of the upstream.
                let why = ended.err().map_or_else(|| "it has ended".to_owned(), |cause| cause.to_string());
                if let Some(reply) = reply {
                    reply.succeed(Err(why));
                }
                return Ok(());
            }
        };
        match part {
            HttpPart::Interim(_) => {} // for us
            HttpPart::Whole(mut head, body) => {
                strip(&mut head.headers);
                if let Some(reply) = reply.take() {
                    reply.succeed(Ok(Response::from_parts(head.into_parts(), body.into())));
                }
                return Ok(());
            }
            HttpPart::Head(mut head) => {
                strip(&mut head.headers);
                let (begun, body) = Body::channel();
                sender = Some(begun);
                if let Some(reply) = reply.take() {
                    reply.succeed(Ok(Response::from_parts(head.into_parts(), body)));
                }
            }
            HttpPart::Data(bytes) => {
                if let Some(sender) = &mut sender
                    && sender.send(bytes).await.is_err()
                {
                    return Ok(()); // the client has left
                }
            }
            HttpPart::End(trailers) => {
                match (sender.take(), trailers) {
                    (Some(sender), Some(trailers)) => sender.end_with(*trailers),
                    (Some(sender), None) => sender.end(),
                    (None, _) => {}
                }
                return Ok(());
            }
            HttpPart::File(_) => {} // never read
        }
    }
}

/// Takes away what is between two neighbours only (RFC 9110, section 7.6.1).
fn strip(headers: &mut HeaderMap) {
    let named: Vec<_> = headers
        .get_all(header::CONNECTION)
        .into_iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(|name| name.trim().to_owned()))
        .collect();
    let always =
        ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"];
    for name in named.iter().map(String::as_str).chain(always) {
        headers.remove(name);
    }
}

fn bad_gateway(why: &str) -> Response<Body> {
    eprintln!("no answer from the upstream: {why}");
    let mut reply = Response::new(Body::from("the server behind this proxy does not answer\n"));
    *reply.status_mut() = StatusCode::BAD_GATEWAY;
    reply
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7018".to_owned());
    let upstream = arguments.next().unwrap_or_else(|| "127.0.0.1:7016".to_owned());
    let group = event_loops(2)?;
    let upstream = Arc::new(Upstream { group: group.clone(), address: upstream });
    let mut limits = HttpLimits::default();
    limits.body = BODY_MAX;
    let limits = Arc::new(limits);
    let server = Server::builder()
        .group(group)
        .pipeline(move |_| {
            let upstream = upstream.clone();
            let web = HttpVersions::new(move || {
                let upstream = upstream.clone();
                pipeline().app(serve(move |request| forward(upstream.clone(), request)))
            });
            web.limits(limits.clone()).pipeline()
        })
        .bind(address)
        .wait()?;
    println!("proxy on {}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}

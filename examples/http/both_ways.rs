//! A conversation within one request, without gRPC: `cargo run --release --example http_both_ways`. The client sends numbers in the body of its
//! request, the server answers each in the body of its reply, and neither waits for the other's end.
//!
//! ```text
//!   client:  HEADERS POST /sums   DATA "3"            DATA "4"            DATA "5"   …  end
//!   server:                        HEADERS 200  DATA "3"        DATA "7"        DATA "12"  …  end
//! ```
//!
//! One connection of HTTP/2 carries three such conversations. Each stream is a channel of its own, so each has back pressure of its own: who does
//! not read what the other says has the other wait.

use http::{Method, Request, StatusCode};
use netwright::{
    Client, CloseCause, Peer, Server, event_loops,
    http::{HttpPart, HttpVersions, ReplyHead, ReplyPart, RequestHead, RequestPart, http2::http2_client},
    pipeline,
};
use std::{error::Error, sync::mpsc::channel, time::Duration};

/// One message for each piece of a body. A protocol of one's own would have a frame around each, because pieces may be cut or joined
/// on the way.
const NUMBERS: [u64; 3] = [3, 4, 5];

/// A stream as the server has it: every number is answered with the sum so far.
async fn sums(mut peer: Peer<RequestPart, ReplyPart>) -> Result<(), CloseCause> {
    let mut sum = 0;
    while let Some(part) = peer.read().await? {
        match part {
            HttpPart::Head(_) => {
                peer.write(HttpPart::Head(ReplyHead::from(StatusCode::OK))).await?;
                peer.flush();
            }
            HttpPart::Data(number) => {
                sum += String::from_utf8_lossy(&number).trim().parse::<u64>().unwrap_or_default();
                peer.write(HttpPart::Data(sum.to_string().into())).await?; // waits while the client takes nothing
                peer.flush();
            }
            HttpPart::End(_) => {
                peer.write(HttpPart::End(None)).await?;
                peer.flush();
            }
            _ => {
                peer.write(HttpPart::Whole(StatusCode::BAD_REQUEST.into(), "numbers, please\n".into()))
                    .await?
            }
        }
    }
    Ok(())
}

/// A stream as the client has it, whose request has been begun: the next number is said when the last one was answered.
async fn ask(mut peer: Peer<ReplyPart, RequestPart>) -> Result<Vec<u64>, CloseCause> {
    let (mut numbers, mut heard) = (NUMBERS.into_iter(), Vec::new());
    while let Some(part) = peer.read().await? {
        match part {
            HttpPart::Head(head) if head.status.is_success() => {}
            HttpPart::Data(sum) => heard.extend(String::from_utf8_lossy(&sum).parse::<u64>()),
            _ => break,
        }
        let next = match numbers.next() {
            Some(number) => HttpPart::Data(number.to_string().into()),
            None => HttpPart::End(None),
        };
        peer.write(next).await?;
        peer.flush();
    }
    Ok(heard)
}

fn main() -> Result<(), Box<dyn Error>> {
    let group = event_loops(2)?;
    let server = Server::builder()
        .group(group.clone())
        .pipeline(|_| HttpVersions::new(|| pipeline().serve_between(sums)).pipeline())
        .bind("127.0.0.1:0")
        .wait()?;

    let (tell, told) = channel();
    let client = Client::builder().group(group).pipeline(move || {
        let tell = tell.clone();
        let stream = move || {
            let tell = tell.clone();
            pipeline().serve_between(async move |peer| {
                let heard = ask(peer).await?;
                let _ = tell.send(heard);
                Ok::<(), CloseCause>(())
            })
        };
        pipeline().last(http2_client(stream))
    })?;
    let connection = client.connect(server.address()).wait()?;
    for _ in 0..3 {
        // What is written to the connection opens a stream.
        let request =
            Request::builder().method(Method::POST).uri(format!("http://{}/sums", server.address()));
        connection.write_and_flush(HttpPart::Head(RequestHead::from(request.body(())?)));
    }
    for _ in 0..3 {
        println!("sums of {NUMBERS:?}: {:?}", told.recv_timeout(Duration::from_secs(10))?);
    }
    connection.close().wait()?;
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}

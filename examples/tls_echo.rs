//! Echo in TLS, both sides, with a certificate that can be exchanged while the server runs.
//!
//! ```text
//! cargo run --release --example tls_echo                                       both sides at once, once
//! cargo run --release --example tls_echo -- 127.0.0.1:7443                     a server, self-signed
//! cargo run --release --example tls_echo -- 127.0.0.1:7443 cert.pem key.pem    with files, read again when they change
//! openssl s_client -connect 127.0.0.1:7443
//! ```

use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Client, CloseCause, Event, Outgoing, Peer, Server, event_loops, pipeline,
    tls::{Acceptor, Certificate, Connector, Handshake, Reloadable, Roots, Tls},
};
use std::{error::Error, time::Duration};

/// Sends everything back, and says who has come.
struct Echo;

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;

    fn event(&mut self, cx: &mut AppContext<'_, Self>, event: Event) {
        if let Some(Handshake { version, cipher_suite, resumed, .. }) = event.get() {
            println!("{}: {version:?}, {cipher_suite:?}, resumed: {resumed}", cx.view().id());
        }
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        cx.write(bytes.freeze());
    }

    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }

    fn inactive(&mut self, cx: &mut AppContext<'_, Self>, cause: CloseCause) {
        println!("{}: {cause}", cx.view().id());
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next();
    let certificate = match (arguments.next(), arguments.next()) {
        (Some(chain), Some(key)) => Reloadable::from_pem_files(chain, key)?,
        _ => Reloadable::new(Certificate::self_signed(["localhost"])?),
    };

    let loops = event_loops(1)?;
    let watching = certificate.watch(&loops.next(), Duration::from_secs(5))?;
    let acceptor = Acceptor::new(&certificate)?;
    let server = Server::builder()
        .group(loops)
        .pipeline(move |_| pipeline().add(Tls::server(&acceptor)).app(Echo))
        .bind(address.as_deref().unwrap_or("127.0.0.1:0"))
        .wait()?;
    println!("echo in TLS on {}; stop with Ctrl-C", server.address());
    if address.is_some() {
        server.group().termination().wait()?;
    } else {
        talk(&server, &certificate.current())?;
    }
    watching.cancel();
    Ok(())
}

/// Connects twice, so that the second handshake resumes the session of the first.
fn talk(server: &Server, certificate: &Certificate) -> Result<(), Box<dyn Error>> {
    let localhost = Connector::builder().roots(Roots::of(certificate)?).build()?.to("localhost")?;
    let client = Client::builder().pipeline(move || {
        pipeline().add(Tls::to(&localhost)).serve(|mut peer: Peer| async move {
            peer.write(Bytes::from("hello in secret")).await?; // sent when the handshake is done
            if let Some(answer) = peer.read().await? {
                println!("the server says {:?}", String::from_utf8_lossy(&answer));
            }
            Ok::<(), CloseCause>(())
        })
    })?;
    for _ in 0..2 {
        client.connect(server.address()).wait()?.closed().wait()?;
    }
    Ok(())
}

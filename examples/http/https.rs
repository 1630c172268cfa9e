//! HTTPS with a certificate that can be exchanged while the server runs.
//!
//! ```text
//! openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=localhost \
//!     -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem
//! cargo run --release --example https -- 127.0.0.1:7443 cert.pem key.pem
//! curl --cacert cert.pem https://localhost:7443/
//! ```
//!
//! Write other files in their place: connections that are open go on, new ones get the new certificate. Files that do not fit
//! together, as when only one of them is new, change nothing. Without files the certificate is self-signed.

use http::Response;
use netwright::{
    Server, event_loops,
    http::{HttpServer, respond},
    pipeline,
    tls::{Acceptor, Certificate, Reloadable, Tls},
};
use std::{error::Error, time::Duration};

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:7443".to_owned());
    let certificate = match (arguments.next(), arguments.next()) {
        (Some(chain), Some(key)) => Reloadable::from_pem_files(chain, key)?,
        _ => Reloadable::new(Certificate::self_signed(["localhost", "127.0.0.1"])?),
    };
    let loops = event_loops(2)?;
    // `Reloadable::watch` does the same, and tells `tracing`.
    let shown = certificate.clone();
    let look = move || match shown.reload_if_changed() {
        Ok(true) => println!("another certificate is shown from now on"),
        Ok(false) => {}
        Err(error) => println!("the certificate stays as it was: {error}"),
    };
    let watching = loops.next().schedule_with_fixed_delay(LOOK_EVERY, LOOK_EVERY, look)?;
    let acceptor = Acceptor::builder().certificate(&certificate).alpn(["http/1.1"]).build()?;
    let server = Server::builder()
        .group(loops)
        .pipeline(move |_| {
            pipeline()
                .add(Tls::server(&acceptor))
                .add(HttpServer::new())
                .app(respond(|request| Response::new(format!("{} in secret\n", request.uri().path()))))
        })
        .bind(address)
        .wait()?;
    println!("https on {}; Enter ends it", server.address());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    watching.cancel();
    let cut = server.drain(Duration::from_secs(10)).wait()?.cut;
    println!("ended; {cut} connections did not finish in time");
    Ok(())
}

//! TLS as a stage of a pipeline, by rustls.

#![forbid(unsafe_code)]

mod acceptor;
mod alpn;
mod certificate;
mod connection;
mod connector;
mod error;
mod handler;
mod handshake;
mod hello;
mod inbox;
mod limits;
mod pem;
mod queue;
mod room;
mod roots;

pub use acceptor::{Acceptor, AcceptorBuilder};
pub use alpn::Alpn;
pub use certificate::{Certificate, CertificateSource, Reloadable};
pub use connector::{Connector, ConnectorBuilder};
pub use error::TlsError;
pub use handler::Tls;
pub use handshake::Handshake;
pub use hello::{Hello, Resolved, looks_like_tls};
pub use limits::Limits;
pub use pem::{PemError, PemProblem};
pub use queue::Plain;
pub use roots::Roots;
pub use rustls;

use rustls::crypto::CryptoProvider;
use std::sync::{Arc, OnceLock};

/// The cryptography that everything here uses: ring's.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(rustls::crypto::ring::default_provider())).clone()
}

//! TLS in front of any server, or not.
//!
//! ```text
//!   socket ──▶ [ what make gives ]                       plain
//!   socket ──▶ [ Tls ] ──▶ ( joint ) ──▶ [ the same ]    with TLS
//! ```
//! What lies behind does not know the difference.

use crate::failure::Failure;
use bytes::BytesMut;
use netwright::{
    BindError, Ending, Link, Outgoing, PipelineBuilder, Promised, Segment, Server, ServerBuilder, pipeline,
    tls::{Acceptor, Certificate, Tls},
};
use std::path::Path;

/// What a certificate that we make ourselves is for.
const SELF_SIGNED_FOR: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// From files, or made for the occasion.
pub(crate) fn acceptor(files: Option<(&Path, &Path)>) -> Result<Acceptor, Failure> {
    let certificate = match files {
        Some((chain, key)) => Certificate::from_pem_files(chain, key)?,
        None => Certificate::self_signed(SELF_SIGNED_FOR)?,
    };
    Ok(Acceptor::builder().certificate(certificate).alpn(["http/1.1"]).build()?)
}

/// Puts what `make` gives for each connection on a server, behind TLS if there is an acceptor.
pub(crate) fn bind<S, E, P>(
    server: ServerBuilder,
    address: &str,
    tls: Option<Acceptor>,
    make: impl Fn() -> PipelineBuilder<S, E> + Send + Sync + 'static,
) -> Promised<Server, BindError>
where
    E: Ending + 'static,
    S: Link<E::Segment, Linked = P> + 'static,
    P: Segment<BytesMut, Outgoing, Tail: Send + 'static>,
{
    match tls {
        None => server.pipeline(move |_| make()).bind(address),
        Some(acceptor) => server
            .pipeline(move |_| pipeline().add(Tls::<Outgoing>::server(&acceptor)).joint(|_| make()))
            .bind(address),
    }
}

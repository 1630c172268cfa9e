//! What stands in front of a server's protocol, whichever that is.
//!
//! ```text
//!   socket ──▶ [ guard ] ──▶ ( joint ) ──▶ [ Tls ] ──▶ [ Faults ] ──▶ ( joint ) ──▶ [ what make gives ]
//!              └── if there is one ──┘      └────── if it is asked for ──────┘
//! ```
//! What lies behind does not know the difference.

use super::versions::Versions;
use crate::{failure::Failure, guard::Guard, record::Tape};
use bytes::BytesMut;
use netwright::{
    CloseCause, Fault, Promised, Server,
    handler::Capture,
    pipeline,
    pipeline::{Filter, FilterContext, IntoPipeline},
    server::{Accepted, BindError, ServerBuilder},
    tls::{Acceptor, Certificate, KeyLines, Tls},
};
use std::{path::Path, sync::Arc};

/// What a certificate that we make ourselves is for.
const SELF_SIGNED_FOR: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// From files, or made for the occasion.
/// With a capture, that gets the secrets.
pub(crate) fn acceptor(
    files: Option<(&Path, &Path)>,
    versions: Versions,
    capture: Option<&Capture>,
) -> Result<Acceptor, Failure> {
    let certificate = match files {
        Some((chain, key)) => Certificate::from_pem_files(chain, key)?,
        None => Certificate::self_signed(SELF_SIGNED_FOR)?,
    };
    let mut acceptor = Acceptor::builder().certificate(certificate).alpn(versions.alpn().iter().copied());
    if let Some(capture) = capture.cloned() {
        acceptor = acceptor.key_log(Arc::new(KeyLines::new(move |line| drop(capture.tls_secret_line(line)))));
    }
    Ok(acceptor.build()?)
}

/// What every connection of a server passes before its protocol, and the recorder that may be the first stage of that.
#[derive(Default)]
pub(crate) struct Front {
    pub(crate) guard: Option<Guard>,
    pub(crate) tls: Option<Acceptor>,
    pub(crate) tape: Tape,
}

impl Front {
    /// Puts what `make` gives for each connection on a server, behind whatever stands in front of it.
    pub(crate) fn bind<P, T>(
        self,
        server: ServerBuilder,
        address: &str,
        make: impl Fn(&Accepted, &Tape) -> P + Send + Sync + 'static,
    ) -> Promised<Server, BindError>
    where
        P: IntoPipeline<T>,
        T: Send + 'static,
    {
        let Self { guard, tls, tape } = self;
        let bound = match (guard, tls) {
            (None, None) => server.pipeline(move |who| make(who, &tape)),
            (None, Some(tls)) => server.pipeline(move |who| secure(&tls, make(who, &tape))),
            (Some(guard), None) => server.pipeline(move |who| guard.before(make(who, &tape))),
            (Some(guard), Some(tls)) => {
                server.pipeline(move |who| guard.before(secure(&tls, make(who, &tape))))
            }
        };
        bound.bind(address)
    }
}

/// A protocol behind TLS.
fn secure<P, T>(acceptor: &Acceptor, protocol: P) -> impl IntoPipeline<T> + use<P, T>
where
    P: IntoPipeline<T>,
    T: Send + 'static,
{
    pipeline().add(Tls::server(acceptor)).filter(Faults).joint(|_| protocol)
}

/// Peers that break off a handshake, or end without a word, are everyday life: said with -v.
struct Faults;

impl<W: 'static> Filter<BytesMut, W> for Faults {
    const PASSES: bool = true;

    fn error(&mut self, cx: &mut FilterContext<'_, Self, BytesMut, W>, fault: Fault) {
        tracing::info!(peer = ?cx.view().peer_addr(), error = %fault, "closing");
        cx.close_because(CloseCause::Fault(fault));
    }
}

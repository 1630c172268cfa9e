//! Transports from outside.

use super::{Model, Need};
use netwright_transport::{Backend, ClientBuilder, ServerBuilder};

/// A transport that is to keep the contract, as the suite knows it: how servers and clients learn of it, and what it does not have.
///
/// A test of one is a program of its own (`harness = false`), which [`run`](super::run)s the [`cases_of`](super::cases_of) it:
///
/// ```no_run
/// use netwright_testkit::contract::{Need, Subject, cases_of, run};
/// use netwright_transport::{ClientBuilder, ServerBuilder};
/// use std::{process::ExitCode, sync::atomic::{AtomicU64, Ordering}};
///
/// # use netwright_transport::open::{Connect, Connecting, Listen, Listener, Transport};
/// # struct Pigeons;
/// # impl Transport for Pigeons {
/// #     fn listen(&self, _: &Listen<'_>) -> std::io::Result<std::sync::Arc<dyn Listener>> { unreachable!() }
/// #     fn connect(&self, _: &Connect<'_>) -> Connecting { unreachable!() }
/// # }
/// struct ByPigeon;
///
/// impl Subject for ByPigeon {
///     fn name(&self) -> &'static str {
///         "pigeon"
///     }
///     fn address(&self) -> String {
///         static LOFTS: AtomicU64 = AtomicU64::new(0);
///         format!("pigeon:{}", LOFTS.fetch_add(1, Ordering::Relaxed))
///     }
///     fn server(&self, builder: ServerBuilder) -> ServerBuilder {
///         builder.scheme("pigeon", Pigeons)
///     }
///     fn client(&self, builder: ClientBuilder) -> ClientBuilder {
///         builder.scheme("pigeon", Pigeons)
///     }
///     fn lacks(&self, need: Need) -> Option<&'static str> {
///         match need {
///             Need::Reset => Some("a pigeon that does not come says nothing"),
///             Need::Descriptors => Some("a pigeon is no socket"),
///             _ => None,
///         }
///     }
/// }
///
/// fn main() -> ExitCode {
///     run(cases_of(&ByPigeon))
/// }
/// ```
pub trait Subject: Sync {
    /// As it is called in the names of tests; no name of ours.
    fn name(&self) -> &'static str;

    /// An address that nobody listens on, and that no other call has given.
    fn address(&self) -> String;

    /// Tells a server of the transport.
    fn server(&self, builder: ServerBuilder) -> ServerBuilder;

    /// Tells a client of the transport.
    fn client(&self, builder: ClientBuilder) -> ClientBuilder;

    /// Why a behaviour with this need cannot be shown, if so: its cases are skipped, with this reason. Asked of
    /// [`Reset`](Need::Reset), [`HalfClosure`](Need::HalfClosure), [`Files`](Need::Files), [`Copies`](Need::Copies) and
    /// [`Descriptors`](Need::Descriptors); what only sockets have is never shown.
    fn lacks(&self, need: Need) -> Option<&'static str>;

    /// What the loops wait by. Default: readiness.
    fn backend(&self) -> Backend {
        Backend::Readiness
    }

    /// The reactor models to run in. Default: all but a thread for each channel.
    fn models(&self) -> &'static [Model] {
        &Model::ALL[..4]
    }

    /// Why this machine does not have it, if it does not: all cases are skipped, with this reason.
    fn missing(&self) -> Option<String> {
        None
    }
}

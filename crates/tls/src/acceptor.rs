//! The server's side: which certificate, which clients, which protocols.

use crate::{
    Certificate, CertificateSource, Reloadable, Roots, TlsError,
    hello::{Hello, Resolved},
    provider,
    settings::{Common, Settings, shared_settings},
};
use netwright_core::Fault;
use rustls::{
    ServerConfig,
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use std::{collections::HashMap, fmt, pin::Pin, sync::Arc};

/// How a server does TLS: made once, used by [`Tls::server`](crate::Tls::server) for each connection. Cheap to clone;
/// clones share sessions and tickets.
///
/// ```
/// use netwright_tls::{Acceptor, Certificate};
///
/// let acceptor = Acceptor::builder()
///     .certificate(Certificate::self_signed(["localhost"])?)
///     .certificate_for("*.example.org", Certificate::self_signed(["*.example.org"])?)
///     .alpn(["h2", "http/1.1"])
///     .build()?;
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Clone)]
pub struct Acceptor(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) resolver: Option<AsyncResolver>,
    pub(crate) common: Common,
}

type Answer = Pin<Box<dyn Future<Output = Result<Resolved, Fault>>>>;
pub(crate) type AsyncResolver = Arc<dyn Fn(Hello) -> Answer + Send + Sync>;

impl Acceptor {
    /// Starts to say how.
    pub fn builder() -> AcceptorBuilder {
        AcceptorBuilder {
            names: Names::default(),
            resolver: None,
            asynchronous: None,
            clients: None,
            settings: Settings::default(),
        }
    }

    /// With a certificate and defaults for everything else.
    ///
    /// # Errors
    /// As for [`AcceptorBuilder::build`].
    pub fn new(certificate: impl Into<CertificateSource>) -> Result<Self, TlsError> {
        Self::builder().certificate(certificate).build()
    }

    /// With a configuration of rustls, whatever is in it. Early data is not supported: it is turned off.
    pub fn from_config(config: impl Into<Arc<ServerConfig>>) -> Self {
        let config = without_early_data(config.into());
        Self(Arc::new(Shared { config, resolver: None, common: Common::default() }))
    }

    /// The configuration as rustls has it.
    pub fn config(&self) -> &Arc<ServerConfig> {
        &self.0.config
    }
}

/// Early data can be replayed by anybody who saw it; nobody here can tell it from other data, so there is none.
pub(crate) fn without_early_data(mut config: Arc<ServerConfig>) -> Arc<ServerConfig> {
    if config.max_early_data_size > 0 {
        Arc::make_mut(&mut config).max_early_data_size = 0;
    }
    config
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acceptor").field("common", &self.0.common).finish_non_exhaustive()
    }
}

/// An [`Acceptor`] under construction.
///
/// ```
/// use netwright_tls::{Acceptor, Certificate};
///
/// let acceptor = Acceptor::builder()
///     .certificate(&Certificate::self_signed(["localhost"])?)
///     .certificate_for("example.test", &Certificate::self_signed(["example.test"])?)
///     .alpn(["http/1.1"])
///     .build()?;
/// # drop(acceptor);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[must_use = "an acceptor is made by `build`"]
pub struct AcceptorBuilder {
    names: Names,
    resolver: Option<Arc<dyn ResolvesServerCert>>,
    asynchronous: Option<AsyncResolver>,
    clients: Option<(Roots, bool)>,
    settings: Settings,
}

shared_settings!(AcceptorBuilder);

impl AcceptorBuilder {
    /// The certificate for clients that name no server, or one that no other certificate is for.
    pub fn certificate(mut self, certificate: impl Into<CertificateSource>) -> Self {
        self.names.default = Some(certificate.into().0);
        self
    }

    /// The certificate for clients that name this server (SNI). `*.example.org` is for every name with one label before
    /// `.example.org`; an exact name wins over it.
    pub fn certificate_for(mut self, name: &str, certificate: impl Into<CertificateSource>) -> Self {
        let certificate = certificate.into().0;
        let name = name.to_ascii_lowercase();
        match name.strip_prefix("*.") {
            Some(parent) => self.names.wildcards.insert(parent.into(), certificate),
            None => self.names.exact.insert(name, certificate),
        };
        self
    }

    /// Asks a resolver of rustls instead. It is called on the loop, or on the workers where handshakes run, and must not
    /// block the loop.
    pub fn resolver(mut self, resolver: Arc<dyn ResolvesServerCert>) -> Self {
        self.resolver = Some(resolver);
        self
    }

    /// Asks a future of one's own for each ClientHello. It runs on the connection's loop and may take as long as the
    /// handshake may; meanwhile nothing more is read.
    ///
    /// ```
    /// use netwright_tls::{Acceptor, Certificate, Hello, Resolved};
    ///
    /// # async fn look_up(name: &str) -> Option<Certificate> { None }
    /// let acceptor = Acceptor::builder()
    ///     .certificate(Certificate::self_signed(["localhost"])?)
    ///     .resolve_async(|hello: Hello| async move {
    ///         match look_up(hello.server_name.as_deref().unwrap_or_default()).await {
    ///             Some(certificate) => Ok(Resolved::Certificate(certificate)),
    ///             None => Ok(Resolved::Default),
    ///         }
    ///     })
    ///     .build()?;
    /// # Ok::<(), netwright_tls::TlsError>(())
    /// ```
    pub fn resolve_async<F>(mut self, resolve: impl Fn(Hello) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Resolved, Fault>> + 'static,
    {
        self.asynchronous = Some(Arc::new(move |hello| Box::pin(resolve(hello))));
        self
    }

    /// Only clients with a certificate that these authorities vouch for.
    pub fn require_client_certificates(mut self, roots: Roots) -> Self {
        self.clients = Some((roots, true));
        self
    }

    /// Clients may have a certificate, and then it has to be one that these authorities vouch for.
    pub fn accept_client_certificates(mut self, roots: Roots) -> Self {
        self.clients = Some((roots, false));
        self
    }

    /// The protocols that we speak, the one that we like best first. A client that offers others only is refused; one
    /// that offers none is not.
    pub fn alpn<P: AsRef<[u8]>>(mut self, protocols: impl IntoIterator<Item = P>) -> Self {
        self.settings.alpn = protocols.into_iter().map(|protocol| protocol.as_ref().to_vec()).collect();
        self
    }

    /// Whether clients may resume sessions: by tickets that only we can read, with keys that change every six hours. Yes
    /// unless told otherwise.
    pub fn resumption(mut self, allowed: bool) -> Self {
        self.settings.resumption = allowed;
        self
    }

    /// Makes the acceptor.
    ///
    /// # Errors
    /// There is no certificate, or the settings do not fit together.
    pub fn build(self) -> Result<Acceptor, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&self.settings.versions)?;
        let builder = match self.clients {
            None => builder.with_no_client_auth(),
            Some((roots, required)) => {
                let verifier = WebPkiClientVerifier::builder_with_provider(roots.0, provider);
                let verifier = if required { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(
                    verifier.build().map_err(|error| TlsError::Settings(format!("client roots: {error}")))?,
                )
            }
        };
        let resolver = match self.resolver {
            Some(resolver) => resolver,
            None if self.names.default.is_some() => Arc::new(self.names),
            None if self.asynchronous.is_some() => Arc::new(self.names),
            None => {
                return Err(TlsError::Settings(
                    "an acceptor needs a certificate for clients that name no server".into(),
                ));
            }
        };
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols = self.settings.alpn;
        if let Some(log) = self.settings.key_log {
            config.key_log = log;
        }
        if self.settings.resumption {
            config.ticketer = rustls::crypto::ring::Ticketer::new()?;
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Acceptor(Arc::new(Shared {
            config: Arc::new(config),
            resolver: self.asynchronous,
            common: self.settings.common,
        })))
    }
}

impl fmt::Debug for AcceptorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcceptorBuilder").field("names", &self.names).finish_non_exhaustive()
    }
}

/// Certificates by the name that a client asks for.
#[derive(Debug, Default)]
struct Names {
    default: Option<Reloadable>,
    exact: HashMap<String, Reloadable>,
    /// By what follows the `*.`.
    wildcards: HashMap<String, Reloadable>,
}

impl Names {
    fn find(&self, name: &str) -> Option<&Reloadable> {
        self.exact.get(name).or_else(|| self.wildcards.get(name.split_once('.')?.1))
    }
}

impl ResolvesServerCert for Names {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().map(str::to_ascii_lowercase);
        let found = named.as_deref().and_then(|name| self.find(name));
        found.or(self.default.as_ref()).map(Reloadable::key)
    }
}

/// The same certificate for everybody.
#[derive(Debug)]
pub(crate) struct Always(pub(crate) Certificate);

impl ResolvesServerCert for Always {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.0.clone())
    }
}

//! The client's side: whom to trust, who we are, which protocols.

use crate::{
    Certificate, Roots, TlsError, provider,
    settings::{Common, Settings, shared_settings},
};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    sign::SingleCertAndKey,
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use std::{fmt, sync::Arc};

/// How a client does TLS: made once, used by [`Tls::client`](crate::Tls::client) for each connection. Cheap to clone; clones
/// share the sessions that can be resumed.
///
/// ```
/// use netwright_tls::{Certificate, Connector, Roots};
///
/// # let certificate = Certificate::self_signed(["localhost"])?;
/// let connector = Connector::builder().roots(Roots::of(&certificate)?).alpn(["http/1.1"]).build()?;
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Clone)]
pub struct Connector(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) common: Common,
}

impl Connector {
    /// Starts to say how.
    pub fn builder() -> ConnectorBuilder {
        ConnectorBuilder { roots: None, anybody: false, certificate: None, settings: Settings::default() }
    }

    /// Trusts whom this system trusts, with defaults for everything else.
    ///
    /// # Errors
    /// As for [`Roots::system`].
    pub fn system() -> Result<Self, TlsError> {
        Self::builder().roots(Roots::system()?).build()
    }

    /// With a configuration of rustls, whatever is in it.
    pub fn from_config(config: impl Into<Arc<ClientConfig>>) -> Self {
        Self(Arc::new(Shared { config: config.into(), common: Common::default() }))
    }

    /// The same, but for the protocols that are offered: these, instead of those that it has.
    ///
    /// ```
    /// use netwright_tls::{Certificate, Connector, Roots};
    ///
    /// # let certificate = Certificate::self_signed(["localhost"])?;
    /// let web = Connector::builder().roots(Roots::of(&certificate)?).alpn(["h2", "http/1.1"]).build()?;
    /// let proxy = web.offering(["http/1.1"]); // trusts the same
    /// assert_eq!(proxy.config().alpn_protocols, [b"http/1.1"]);
    /// # Ok::<(), netwright_tls::TlsError>(())
    /// ```
    #[must_use]
    pub fn offering<P: AsRef<[u8]>>(&self, protocols: impl IntoIterator<Item = P>) -> Self {
        let mut config = ClientConfig::clone(&self.0.config);
        config.alpn_protocols = protocols.into_iter().map(|protocol| protocol.as_ref().to_vec()).collect();
        Self(Arc::new(Shared { config: Arc::new(config), common: self.0.common.clone() }))
    }

    /// The configuration as rustls has it.
    pub fn config(&self) -> &Arc<ClientConfig> {
        &self.0.config
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("common", &self.0.common).finish_non_exhaustive()
    }
}

/// A [`Connector`] under construction.
///
/// ```
/// use netwright_tls::{Certificate, Connector, Roots};
///
/// let connector = Connector::builder()
///     .roots(Roots::of(&Certificate::self_signed(["localhost"])?)?)
///     .alpn(["http/1.1"])
///     .resumption(false)
///     .build()?;
/// # drop(connector);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[must_use = "a connector is made by `build`"]
pub struct ConnectorBuilder {
    roots: Option<Roots>,
    anybody: bool,
    certificate: Option<Certificate>,
    settings: Settings,
}

shared_settings!(ConnectorBuilder);

impl ConnectorBuilder {
    /// Whom to trust to vouch for servers.
    pub fn roots(mut self, roots: Roots) -> Self {
        self.roots = Some(roots);
        self
    }

    /// **Accepts every server, whoever it is.** Somebody in between can read and change everything. For development
    /// against self-signed certificates only; [`Roots::of`] trusts one of them without that danger.
    pub fn dangerously_accept_any_certificate(mut self) -> Self {
        self.anybody = true;
        self
    }

    /// Our own certificate, for servers that ask for one.
    pub fn certificate(mut self, certificate: Certificate) -> Self {
        self.certificate = Some(certificate);
        self
    }

    /// The protocols that we speak, the one that we like best first.
    pub fn alpn<P: AsRef<[u8]>>(mut self, protocols: impl IntoIterator<Item = P>) -> Self {
        self.settings.alpn = protocols.into_iter().map(|protocol| protocol.as_ref().to_vec()).collect();
        self
    }

    /// Whether to resume sessions with servers that we have talked to before: the last 256 names are remembered. Yes
    /// unless told otherwise.
    pub fn resumption(mut self, wanted: bool) -> Self {
        self.settings.resumption = wanted;
        self
    }

    /// Makes the connector.
    ///
    /// # Errors
    /// Nobody is trusted, or the settings do not fit together.
    pub fn build(self) -> Result<Connector, TlsError> {
        let provider = provider();
        let verifier: Arc<dyn ServerCertVerifier> = match (self.roots, self.anybody) {
            (_, true) => Arc::new(Anybody(provider.clone())),
            (Some(roots), false) => WebPkiServerVerifier::builder_with_provider(roots.0, provider.clone())
                .build()
                .map_err(|error| TlsError::Settings(format!("roots: {error}")))?,
            (None, false) => {
                return Err(TlsError::Settings("a connector needs roots: whom should it trust?".into()));
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.settings.versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match self.certificate {
            None => builder.with_no_client_auth(),
            Some(ours) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(ours.0))),
        };
        config.alpn_protocols = self.settings.alpn;
        if let Some(log) = self.settings.key_log {
            config.key_log = log;
        }
        if !self.settings.resumption {
            config.resumption = Resumption::disabled();
        }
        Ok(Connector(Arc::new(Shared { config: Arc::new(config), common: self.settings.common })))
    }
}

impl fmt::Debug for ConnectorBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectorBuilder").field("roots", &self.roots).finish_non_exhaustive()
    }
}

/// Accepts every certificate. That the server has its key is still checked: this is about who it is, not about whether
/// the handshake is one.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

//! Whose certificates are trusted.

use crate::{
    Certificate, TlsError,
    pem::{PemProblem, Source},
};
use rustls::RootCertStore;
use std::{
    env, fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Authorities, or single certificates, that are trusted to vouch for a peer. Cheap to clone.
///
/// ```
/// use netwright_tls::{Certificate, Connector, Roots};
///
/// let ours = Certificate::self_signed(["localhost"])?;
/// let connector = Connector::builder().roots(Roots::of(&ours)?).build()?; // trusts this one, and nobody else
/// # drop(connector);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Clone)]
pub struct Roots(pub(crate) Arc<RootCertStore>);

/// Where systems keep the authorities that they trust, all in one file: Debian, Fedora, SUSE, Alpine and the BSDs.
const BUNDLES: [&str; 6] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

impl Roots {
    /// What this system trusts: the file that the environment names in `SSL_CERT_FILE`, or the first of those where systems
    /// keep it. Authorities in forms that rustls does not take are left out, as everywhere.
    ///
    /// # Errors
    /// There is no such file, or nothing in it can be used.
    pub fn system() -> Result<Self, TlsError> {
        if let Some(file) = env::var_os("SSL_CERT_FILE") {
            return Self::bundle(&PathBuf::from(file));
        }
        match BUNDLES.iter().map(Path::new).find(|path| path.exists()) {
            Some(path) => Self::bundle(path),
            None => Err(TlsError::Settings(format!(
                "no authorities of this system: SSL_CERT_FILE is not set, and there is none of {}",
                BUNDLES.join(", ")
            ))),
        }
    }

    /// All certificates of a PEM file; each has to be one that can be used.
    ///
    /// # Errors
    /// The file cannot be read or used; the error names it and the line.
    pub fn from_pem_file(path: impl AsRef<Path>) -> Result<Self, TlsError> {
        Self::strict(&Source::file(path.as_ref())?)
    }

    /// All certificates of PEM text.
    ///
    /// # Errors
    /// As for [`from_pem_file`](Self::from_pem_file).
    pub fn from_pem(text: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        Self::strict(&Source::text(text.as_ref()))
    }

    /// Trusts this very certificate, if it is self-signed, or those that it signed.
    ///
    /// # Errors
    /// The certificate cannot be an authority.
    pub fn of(certificate: &Certificate) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        let last = certificate.chain().last().cloned();
        store.add(last.ok_or_else(|| TlsError::Settings("a certificate without a chain".into()))?)?;
        Ok(Self(Arc::new(store)))
    }

    /// What rustls has already.
    pub fn from_store(store: Arc<RootCertStore>) -> Self {
        Self(store)
    }

    /// How many authorities these are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nobody is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn strict(source: &Source<'_>) -> Result<Self, TlsError> {
        let mut store = RootCertStore::empty();
        for (line, der) in source.certificates()? {
            store.add(der).map_err(|error| source.error(line, PemProblem::Unusable(error)))?;
        }
        Ok(Self(Arc::new(store)))
    }

    fn bundle(path: &Path) -> Result<Self, TlsError> {
        let source = Source::file(path)?;
        let mut store = RootCertStore::empty();
        let (_, left_out) =
            store.add_parsable_certificates(source.certificates()?.into_iter().map(|(_, der)| der));
        if left_out > 0 {
            tracing::debug!(left_out, file = %path.display(), "authorities that cannot be used were left out");
        }
        if store.is_empty() {
            return Err(source.error(0, PemProblem::Missing("authority that can be used")).into());
        }
        Ok(Self(Arc::new(store)))
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Roots").field("authorities", &self.len()).finish()
    }
}

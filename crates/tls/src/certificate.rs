//! A certificate with its key: from files, made for development, exchanged while servers run.

use crate::{
    TlsError,
    pem::{PemProblem, Source},
    provider,
};
use netwright_core::{EventLoop, Scheduled};
use rustls::{crypto::CryptoProvider, sign::CertifiedKey};
use rustls_pki_types::CertificateDer;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

/// A chain of certificates and the private key of the first one. Cheap to clone.
///
/// ```
/// use netwright_tls::{Acceptor, Certificate};
///
/// let certificate = Certificate::self_signed(["localhost", "127.0.0.1"])?; // in production: from_pem_files
/// assert_eq!(certificate.chain().len(), 1);
/// let acceptor = Acceptor::new(&certificate)?;
/// # drop(acceptor);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Clone)]
pub struct Certificate(pub(crate) Arc<CertifiedKey>);

impl Certificate {
    /// From two PEM files: the chain, our own certificate first, and the key. Both may be the same file.
    ///
    /// # Errors
    /// A file cannot be read or used; the error names it and the line.
    pub fn from_pem_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        Self::from_sources(&Source::file(chain.as_ref())?, &Source::file(key.as_ref())?)
    }

    /// From PEM text in memory.
    ///
    /// # Errors
    /// As for [`from_pem_files`](Self::from_pem_files).
    pub fn from_pem(chain: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Self, TlsError> {
        Self::from_sources(&Source::text(chain.as_ref()), &Source::text(key.as_ref()))
    }

    /// One that rustls has already.
    pub fn from_certified_key(key: Arc<CertifiedKey>) -> Self {
        Self(key)
    }

    /// A certificate that nobody vouches for, for these names, with a new key: for development and tests.
    ///
    /// ```
    /// use netwright_tls::{Certificate, Roots};
    ///
    /// let certificate = Certificate::self_signed(["localhost"])?;
    /// let trusting = Roots::of(&certificate)?;
    /// # Ok::<(), netwright_tls::TlsError>(())
    /// ```
    ///
    /// # Errors
    /// A name is none, or the system has no random bytes.
    #[cfg(feature = "self-signed")]
    pub fn self_signed<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Self, TlsError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let made = rcgen::generate_simple_self_signed(names)
            .map_err(|error| TlsError::Settings(format!("no self-signed certificate: {error}")))?;
        let key = rustls_pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let chain = vec![made.cert.der().clone()];
        Ok(Self(Arc::new(CertifiedKey::from_der(chain, key.into(), &provider())?)))
    }

    /// The chain as it is sent, our own certificate first.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.0.cert
    }

    fn from_sources(chain: &Source<'_>, key: &Source<'_>) -> Result<Self, TlsError> {
        let certificates = chain.certificates()?;
        let line = certificates.first().map_or(0, |(line, _)| *line);
        let (key_line, key_der) = key.private_key()?;
        let provider: Arc<CryptoProvider> = provider();
        let signing = provider
            .key_provider
            .load_private_key(key_der)
            .map_err(|error| key.error(key_line, PemProblem::Unusable(error)))?;
        let certified = CertifiedKey::new(certificates.into_iter().map(|(_, der)| der).collect(), signing);
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
                Ok(Self(Arc::new(certified)))
            }
            Err(error) => Err(chain.error(line, PemProblem::Unusable(error)).into()),
        }
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").field("chain", &self.0.cert.len()).finish_non_exhaustive()
    }
}

/// A certificate that can be exchanged while servers use it: handshakes from then on get the new one, connections keep
/// what they have. Clones are the same certificate.
///
/// ```no_run
/// use netwright_tls::{Acceptor, Reloadable};
///
/// let certificate = Reloadable::from_pem_files("cert.pem", "key.pem")?;
/// let acceptor = Acceptor::builder().certificate(&certificate).build()?;
/// // when the files have changed, on a signal for example:
/// certificate.reload()?;
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Clone)]
pub struct Reloadable(Arc<Shared>);

struct Shared {
    current: RwLock<Arc<CertifiedKey>>,
    files: Option<(PathBuf, PathBuf)>,
    /// When the files were changed last, as of the last load.
    changed: Mutex<Option<Stamp>>,
}

type Stamp = [Option<(SystemTime, u64)>; 2];

impl Reloadable {
    /// From two PEM files, which [`reload`](Self::reload) reads again.
    ///
    /// # Errors
    /// As for [`Certificate::from_pem_files`].
    pub fn from_pem_files(chain: impl AsRef<Path>, key: impl AsRef<Path>) -> Result<Self, TlsError> {
        let (chain, key) = (chain.as_ref(), key.as_ref());
        let stamp = stamp(chain, key);
        let first = Certificate::from_pem_files(chain, key)?;
        Ok(Self::with(first, Some((chain.into(), key.into())), Some(stamp)))
    }

    /// With this certificate at first; [`replace`](Self::replace) exchanges it.
    pub fn new(first: Certificate) -> Self {
        Self::with(first, None, None)
    }

    fn with(first: Certificate, files: Option<(PathBuf, PathBuf)>, stamp: Option<Stamp>) -> Self {
        Self(Arc::new(Shared { current: RwLock::new(first.0), files, changed: Mutex::new(stamp) }))
    }

    /// The certificate that handshakes get now.
    pub fn current(&self) -> Certificate {
        Certificate(self.key())
    }

    /// Handshakes from now on get this one.
    pub fn replace(&self, certificate: Certificate) {
        *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = certificate.0;
    }

    /// Reads the files again. With files that cannot be used everything stays as it was.
    ///
    /// # Errors
    /// As for [`Certificate::from_pem_files`]; also if there are no files.
    pub fn reload(&self) -> Result<(), TlsError> {
        let Some((chain, key)) = &self.0.files else {
            return Err(TlsError::Settings("this certificate has no files to be reloaded from".into()));
        };
        let stamp = stamp(chain, key); // first: a change while they are read is one for the next time
        self.replace(Certificate::from_pem_files(chain, key)?);
        *self.0.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(stamp);
        Ok(())
    }

    /// Reads the files again if they have changed since the last time. Tells whether they had.
    ///
    /// # Errors
    /// As for [`reload`](Self::reload).
    pub fn reload_if_changed(&self) -> Result<bool, TlsError> {
        let Some((chain, key)) = &self.0.files else { return Ok(false) };
        let stamp = stamp(chain, key);
        if self.0.changed.lock().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(&stamp) {
            return Ok(false);
        }
        self.reload()?;
        Ok(true)
    }

    /// Looks on this loop whether the files have changed, every so often, and reloads them then. A pair that cannot be used,
    /// such as one that is half written, is reported as a warning, and looked at again. Ends with the loop, or when the
    /// handle is cancelled.
    ///
    /// # Errors
    /// The loop takes no tasks any more.
    pub fn watch(&self, on: &EventLoop, every: Duration) -> Result<Scheduled<()>, TlsError> {
        let certificate = self.clone();
        let look = move || match certificate.reload_if_changed() {
            Ok(true) => tracing::info!("the certificate was reloaded"),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "the certificate has changed, but cannot be used"),
        };
        on.schedule_with_fixed_delay(every, every, look).map_err(|refused| {
            TlsError::Settings(format!("no loop to watch a certificate on: {}", refused.why))
        })
    }

    pub(crate) fn key(&self) -> Arc<CertifiedKey> {
        self.0.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Reloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloadable").field("files", &self.0.files).finish_non_exhaustive()
    }
}

fn stamp(chain: &Path, key: &Path) -> Stamp {
    [chain, key].map(|path| {
        let known = std::fs::metadata(path).ok()?;
        Some((known.modified().ok()?, known.len()))
    })
}

/// A certificate as settings take it: one for ever, or one that is exchanged.
///
/// ```
/// use netwright_tls::{Certificate, CertificateSource, Reloadable};
///
/// let certificate = Certificate::self_signed(["localhost"])?;
/// let for_ever = CertificateSource::from(&certificate);
/// let exchanged = CertificateSource::from(Reloadable::new(certificate));
/// # drop((for_ever, exchanged));
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CertificateSource(pub(crate) Reloadable);

impl From<Certificate> for CertificateSource {
    fn from(certificate: Certificate) -> Self {
        Self(Reloadable::new(certificate))
    }
}

impl From<&Certificate> for CertificateSource {
    fn from(certificate: &Certificate) -> Self {
        Self(Reloadable::new(certificate.clone()))
    }
}

impl From<Reloadable> for CertificateSource {
    fn from(certificate: Reloadable) -> Self {
        Self(certificate)
    }
}

impl From<&Reloadable> for CertificateSource {
    fn from(certificate: &Reloadable) -> Self {
        Self(certificate.clone())
    }
}

//! What a peer may cost before it has shown who it is.

use std::time::Duration;

/// Limits of TLS, in one place. The defaults are safe on the open internet.
///
/// ```
/// use netwright_tls::{Acceptor, Certificate, TlsLimits};
/// use std::time::Duration;
///
/// let mut limits = TlsLimits::default();
/// limits.handshake_deadline = Duration::from_secs(3);
/// let acceptor = Acceptor::builder().certificate(&Certificate::self_signed(["localhost"])?).limits(limits).build()?;
/// # drop(acceptor);
/// # Ok::<(), netwright_tls::TlsError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TlsLimits {
    /// How long a handshake may take: 10 s.
    pub handshake_deadline: Duration,
    /// How long a record may take once a part of it has come, or a handshake message of several: a minute, and twice that where
    /// others came right before it. Nobody else can see such a part.
    pub record_deadline: Duration,
    /// How long a peer that has said that it sends no more (`close_notify`) may take for the answers that wait for it, where
    /// that ends the connection: a minute.
    pub answers_deadline: Duration,
    /// Bytes of a ClientHello, with the headers of its records: 16 KiB. Those of browsers have one or two; tickets with
    /// certificates in them may have some more.
    pub hello_max: usize,
    /// Bytes of any other handshake message, with the headers of its records: 128 KiB, for long chains of certificates.
    /// rustls takes messages of 64 KiB at most.
    pub handshake_max: usize,
}

impl Default for TlsLimits {
    fn default() -> Self {
        Self {
            handshake_deadline: Duration::from_secs(10),
            record_deadline: Duration::from_secs(60),
            answers_deadline: Duration::from_secs(60),
            hello_max: 16 * 1024,
            handshake_max: 128 * 1024,
        }
    }
}

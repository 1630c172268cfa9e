//! What both sides are told in the same words.

use crate::TlsLimits;
use netwright_core::Workers;
use rustls::{KeyLog, SupportedProtocolVersion};
use std::sync::Arc;

/// What a connection needs to know of it later.
#[derive(Debug, Clone, Default)]
pub(crate) struct Common {
    pub(crate) limits: TlsLimits,
    /// `None`: as the channel has it.
    pub(crate) half_closure: Option<bool>,
    pub(crate) workers: Option<Workers>,
}

/// What is the same in the builders of acceptors and connectors.
pub(crate) struct Settings {
    pub(crate) alpn: Vec<Vec<u8>>,
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) key_log: Option<Arc<dyn KeyLog>>,
    pub(crate) resumption: bool,
    pub(crate) common: Common,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            alpn: Vec::new(),
            versions: rustls::DEFAULT_VERSIONS.to_vec(),
            key_log: None,
            resumption: true,
            common: Common::default(),
        }
    }
}

/// The methods of a builder that has these settings: they stand where its users look for them.
macro_rules! shared_settings {
    ($builder:ident) => {
        impl $builder {
            /// The versions that we speak: both TLS 1.3 and 1.2 unless told otherwise.
            pub fn versions(mut self, versions: &[&'static rustls::SupportedProtocolVersion]) -> Self {
                self.settings.versions = versions.to_vec();
                self
            }

            /// Writes the secrets of all connections to the file that the environment names in `SSLKEYLOGFILE`, for Wireshark.
            /// **Whoever has the file can read everything**: for debugging only. Without that variable it does nothing.
            pub fn key_log_from_env(self) -> Self {
                self.key_log(std::sync::Arc::new(rustls::KeyLogFile::new()))
            }

            /// Hands the secrets of all connections to this: see [`key_log_from_env`](Self::key_log_from_env), and
            /// [`KeyLines`](crate::KeyLines) for a function.
            pub fn key_log(mut self, log: std::sync::Arc<dyn rustls::KeyLog>) -> Self {
                self.settings.key_log = Some(log);
                self
            }

            /// Limits other than the defaults.
            pub fn limits(mut self, limits: $crate::TlsLimits) -> Self {
                self.settings.common.limits = limits;
                self
            }

            /// How long a handshake may take: 10 s unless told otherwise.
            pub fn handshake_deadline(mut self, limit: std::time::Duration) -> Self {
                self.settings.common.limits.handshake_deadline = limit;
                self
            }

            /// Whether a connection lives on when its peer has said that it sends no more (`close_notify`). As the channel has
            /// it, unless it is said here. If not, it closes when the peer has taken the answers that wait for it.
            pub fn half_closure(mut self, allowed: bool) -> Self {
                self.settings.common.half_closure = Some(allowed);
                self
            }

            /// Runs handshakes on these workers: a signature, or the check of a chain of certificates, takes as long as
            /// some hundred small messages, and the other connections of the loop do not wait for it. Records are
            /// encrypted on the loop.
            pub fn handshakes_on(mut self, workers: &netwright_core::Workers) -> Self {
                self.settings.common.workers = Some(workers.clone());
                self
            }
        }
    };
}

pub(crate) use shared_settings;

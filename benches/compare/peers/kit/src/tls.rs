//! TLS as all servers in Rust do it here: rustls with ring, TLS 1.3, AES-128-GCM, a certificate of its own making.

use crate::end;
use rustls::{
    CipherSuite, ServerConfig,
    crypto::ring::default_provider,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    version::TLS13,
};

/// Settings for a server. One suite, so that nobody's default decides what is measured.
pub fn config() -> ServerConfig {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()])
        .unwrap_or_else(|error| end(format!("no certificate: {error}")));
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certified.signing_key.serialize_der()));
    let mut provider = default_provider();
    provider.cipher_suites.retain(|suite| suite.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    ServerConfig::builder_with_provider(provider.into())
        .with_protocol_versions(&[&TLS13])
        .and_then(|config| {
            config.with_no_client_auth().with_single_cert(vec![certified.cert.der().clone()], key)
        })
        .unwrap_or_else(|error| end(format!("no TLS: {error}")))
}

//! A client of TLS 1.3 with the right keys that puts into its records what does not belong there.

use crate::support::*;
use bytes::Bytes;
use netwright_tls::{
    Connector, Tls,
    rustls::{
        CipherSuiteCommon, ClientConfig, ConnectionTrafficSecrets, ContentType, Error, RootCertStore,
        SupportedCipherSuite, Tls13CipherSuite,
        crypto::{
            CryptoProvider,
            cipher::{
                AeadKey, Iv, MessageDecrypter, MessageEncrypter, OutboundChunks, OutboundOpaqueMessage,
                OutboundPlainMessage, Tls13AeadAlgorithm, UnsupportedOperationError,
            },
            ring,
        },
        version::TLS13,
    },
};
use std::{cell::RefCell, collections::VecDeque, sync::Arc};

thread_local! {
    static INSTEAD: RefCell<VecDeque<(u8, Vec<u8>)>> = const { RefCell::new(VecDeque::new()) };
}

/// The next records that are encrypted on this thread have these types and contents.
pub(crate) fn instead(records: &[(u8, &[u8])]) {
    INSTEAD.replace(records.iter().map(|(kind, content)| (*kind, content.to_vec())).collect());
}

/// A client that this server trusts as any other.
pub(crate) fn rogue() -> End {
    let SupportedCipherSuite::Tls13(honest) = ring::cipher_suite::TLS13_AES_128_GCM_SHA256 else {
        panic!("a suite of TLS 1.3")
    };
    let suite: &'static Tls13CipherSuite = Box::leak(Box::new(Tls13CipherSuite {
        common: CipherSuiteCommon { ..honest.common },
        hkdf_provider: honest.hkdf_provider,
        aead_alg: Box::leak(Box::new(Bent(honest.aead_alg))),
        quic: None,
    }));
    let provider = CryptoProvider {
        cipher_suites: vec![SupportedCipherSuite::Tls13(suite)],
        ..ring::default_provider()
    };
    let mut roots = RootCertStore::empty();
    roots.add(certificate().chain()[0].clone()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    End::new(Tls::client(&Connector::from_config(config), "localhost").unwrap())
}

/// Sends something in whose place `instead` puts what it was told, if that is not longer.
pub(crate) fn send_something(client: &mut End) {
    client.send(Bytes::from(vec![0; 1000]));
}

struct Bent(&'static dyn Tls13AeadAlgorithm);

impl Tls13AeadAlgorithm for Bent {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(BentEncrypter(self.0.encrypter(key, iv)))
    }
    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        self.0.decrypter(key, iv)
    }
    fn key_len(&self) -> usize {
        self.0.key_len()
    }
    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.0.extract_keys(key, iv)
    }
}

struct BentEncrypter(Box<dyn MessageEncrypter>);

impl MessageEncrypter for BentEncrypter {
    fn encrypt(&mut self, msg: OutboundPlainMessage<'_>, seq: u64) -> Result<OutboundOpaqueMessage, Error> {
        match INSTEAD.with_borrow_mut(VecDeque::pop_front) {
            None => self.0.encrypt(msg, seq),
            Some((kind, content)) => {
                let (typ, payload) = (ContentType::from(kind), OutboundChunks::Single(&content));
                self.0.encrypt(OutboundPlainMessage { typ, payload, ..msg }, seq)
            }
        }
    }
    fn encrypted_payload_len(&self, payload_len: usize) -> usize {
        self.0.encrypted_payload_len(payload_len)
    }
}

//! Which certificate a client gets, by the name that it asks for.

use crate::support::*;
use netwright_core::Fault;
use netwright_tls::{Acceptor, Certificate, Connector, Hello, Resolved, Tls, TlsError, TlsLimits, rustls};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

fn anybody() -> Connector {
    Connector::builder().dangerously_accept_any_certificate().build().unwrap()
}

fn certificate_for(acceptor: &Acceptor, name: &str, size: usize) -> Vec<u8> {
    let mut client: End = End::new(Tls::client(&anybody(), name).unwrap());
    let mut server: End = End::new(Tls::server(acceptor));
    pump_in(&mut client, &mut server, size);
    client.agreed().peer_certificates[0].to_vec()
}

fn named(name: &str) -> (Certificate, Vec<u8>) {
    let certificate = Certificate::self_signed([name]).unwrap();
    let der = certificate.chain()[0].to_vec();
    (certificate, der)
}

#[test]
fn names_find_their_certificates_and_unknown_ones_the_default() {
    let (default, default_der) = named("default");
    let (exact, exact_der) = named("www.example.org");
    let (wildcard, wildcard_der) = named("*.example.org");
    let acceptor = Acceptor::builder()
        .certificate(default)
        .certificate_for("WWW.example.org", exact)
        .certificate_for("*.example.org", wildcard)
        .build()
        .unwrap();
    for (name, expected) in [
        ("www.example.org", &exact_der),
        ("Www.Example.Org", &exact_der),
        ("api.example.org", &wildcard_der),
        ("a.b.example.org", &default_der),
        ("example.org", &default_der),
        ("elsewhere.net", &default_der),
        ("127.0.0.1", &default_der), // an address is no name: nothing is asked for
    ] {
        assert!(certificate_for(&acceptor, name, usize::MAX) == *expected, "{name}");
    }
}

#[test]
fn a_client_hello_in_any_pieces_finds_its_certificate() {
    let (default, _) = named("default");
    let (exact, exact_der) = named("www.example.org");
    let acceptor =
        Acceptor::builder().certificate(default).certificate_for("www.example.org", exact).build().unwrap();
    for size in [1, 2, 5, 6, 50, 51, 52, 53] {
        assert_eq!(certificate_for(&acceptor, "www.example.org", size), exact_der);
    }
    // Also if the message itself is cut into records.
    let mut client: End = End::new(Tls::client(&anybody(), "www.example.org").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor));
    let hello = client.channel.outbound_bytes();
    for part in hello[5..].chunks(40) {
        server.channel.write_inbound([&[22, 3, 1, 0, part.len() as u8], part].concat());
    }
    pump(&mut client, &mut server);
    assert_eq!(client.agreed().peer_certificates[0].to_vec(), exact_der);
    assert_eq!(server.agreed().server_name.as_deref(), Some("www.example.org"));
}

#[test]
fn a_client_hello_without_end_is_refused_at_the_limit() {
    let mut limits = TlsLimits::default();
    limits.hello_max = 2_000;
    let acceptor = Acceptor::builder().certificate(certificate()).limits(limits).build().unwrap();
    let mut server: End = End::new(Tls::server(&acceptor));
    // It claims 60,000 bytes, and goes on and on.
    server.channel.write_inbound([22, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60]);
    let mut sent = 9;
    while server.channel.is_open() {
        server.channel.write_inbound([0; 100]);
        sent += 100;
        assert!(sent < 3_000);
    }
    assert!(sent > 2_000);
    let TlsError::HandshakeTooLong { limit: "hello_max", max: 2_000, got } = server.failure() else {
        panic!("{}", server.failure())
    };
    assert_eq!(got, sent);
    assert_eq!(server.channel.outbound_bytes(), [21, 3, 3, 0, 2, 2, 50]);

    let mut server: End = End::new(Tls::server(&acceptor));
    server.channel.write_inbound([&[22, 3, 1, 0x40, 0, 1, 0, 0xea, 0x60][..], &[0; 65_000]].concat());
    assert!(matches!(server.failure(), TlsError::HandshakeTooLong { .. }));
}

#[test]
fn a_future_may_choose_the_certificate_while_nothing_more_is_read() {
    let (chosen, chosen_der) = named("chosen");
    let seen: Arc<Mutex<Vec<Hello>>> = Arc::default();
    let acceptor = Acceptor::builder()
        .certificate(certificate())
        .alpn(["echo"])
        .resolve_async({
            let seen = seen.clone();
            move |hello: Hello| {
                let chosen = chosen.clone();
                seen.lock().unwrap().push(hello.clone());
                async move {
                    netwright_core::time::sleep(Duration::from_secs(3)).await;
                    match hello.server_name.as_deref() {
                        Some("chosen") => Ok(Resolved::Certificate(chosen)),
                        Some("refused") => Err(Fault::new("who is that?")),
                        _ => Ok(Resolved::Default),
                    }
                }
            }
        })
        .build()
        .unwrap();
    for (name, expected) in [("chosen", chosen_der), ("other", certificate().chain()[0].to_vec())] {
        let mut client: End = End::new(Tls::client(&anybody(), name).unwrap());
        let mut server: End = End::new(Tls::server(&acceptor));
        pump_in(&mut client, &mut server, 7);
        assert!(!client.handshake.is_done() && server.channel.is_open());
        assert!(!server.channel.wants_read(), "nothing is read while the future runs");
        server.channel.advance(Duration::from_secs(3));
        assert!(server.channel.wants_read());
        pump(&mut client, &mut server);
        assert!(client.agreed().peer_certificates[0].as_ref() == expected, "{name}");
        client.send("hello");
        pump(&mut client, &mut server);
        assert_eq!(server.received(), b"hello");
    }
    assert_eq!(seen.lock().unwrap()[0].server_name.as_deref(), Some("chosen"));
    assert!(!seen.lock().unwrap()[0].cipher_suites.is_empty());

    let mut client: End = End::new(Tls::client(&anybody(), "refused").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor));
    pump(&mut client, &mut server);
    server.channel.advance(Duration::from_secs(3));
    pump(&mut client, &mut server);
    assert_eq!(server.failure().to_string(), "no certificate for this client: who is that?");
    let expected = rustls::Error::AlertReceived(rustls::AlertDescription::UnrecognisedName);
    assert!(matches!(client.failure(), TlsError::Protocol(error) if error == expected));
}

#[test]
fn a_future_that_never_answers_meets_the_deadline() {
    let asked = Arc::new(AtomicUsize::new(0));
    let acceptor = Acceptor::builder()
        .resolve_async({
            let asked = asked.clone();
            move |_| {
                asked.fetch_add(1, Ordering::Relaxed);
                std::future::pending()
            }
        })
        .build()
        .unwrap();
    let mut client: End = End::new(Tls::client(&anybody(), "localhost").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor));
    pump(&mut client, &mut server);
    server.channel.advance(Duration::from_secs(10));
    assert!(matches!(server.failure(), TlsError::HandshakeTimedOut { .. }));
    assert!(!server.channel.is_open());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_resolver_of_rustls_is_asked_too() {
    #[derive(Debug)]
    struct Mine(Arc<rustls::sign::CertifiedKey>);
    impl rustls::server::ResolvesServerCert for Mine {
        fn resolve(&self, hello: rustls::server::ClientHello<'_>) -> Option<Arc<rustls::sign::CertifiedKey>> {
            (hello.server_name() == Some("mine")).then(|| self.0.clone())
        }
    }
    let made = rcgen::generate_simple_self_signed(["mine".to_owned()]).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let key = rustls::crypto::ring::sign::any_supported_type(&key).unwrap();
    let mine = rustls::sign::CertifiedKey::new(vec![made.cert.der().clone()], key);
    let acceptor = Acceptor::builder().resolver(Arc::new(Mine(Arc::new(mine)))).build().unwrap();
    assert_eq!(certificate_for(&acceptor, "mine", usize::MAX), made.cert.der().to_vec());

    let mut client: End = End::new(Tls::client(&anybody(), "other").unwrap());
    let mut server: End = End::new(Tls::server(&acceptor));
    pump(&mut client, &mut server);
    assert!(matches!(server.failure(), TlsError::Protocol(_)), "it has none for other names");
    assert!(!client.channel.is_open());
}

#[test]
fn an_acceptor_without_a_certificate_is_a_mistake_that_shows_at_once() {
    let error = Acceptor::builder().build().unwrap_err().to_string();
    assert_eq!(error, "an acceptor needs a certificate for clients that name no server");
    let error = Connector::builder().build().unwrap_err().to_string();
    assert_eq!(error, "a connector needs roots: whom should it trust?");
}

//! Sessions that are taken up again, and clients with certificates.

use crate::support::*;
use netwright_tls::{Acceptor, Certificate, Connector, Roots, TlsError, rustls};

#[test]
fn a_second_connection_resumes_the_session_of_the_first() {
    for version in VERSIONS {
        let (acceptor, connector) = of_version(version);
        for (attempt, expected) in [(1, false), (2, true), (3, true)] {
            let (mut client, mut server) = pair_of(&acceptor, &connector);
            pump(&mut client, &mut server);
            client.send("hello");
            server.send("hello"); // tickets come before it
            pump(&mut client, &mut server);
            assert_eq!((client.agreed().resumed, server.agreed().resumed), (expected, expected), "{attempt}");
            assert_eq!(server.received(), b"hello");
            assert_eq!(client.agreed().peer_certificates, certificate().chain(), "also when resumed");
        }
    }
}

#[test]
fn nothing_is_resumed_where_one_side_does_not_want_to() {
    for version in VERSIONS {
        let (_, connector) = of_version(version);
        let acceptor = Acceptor::builder()
            .certificate(certificate())
            .versions(version)
            .resumption(false)
            .build()
            .unwrap();
        for _ in 0..2 {
            let (mut client, mut server) = pair_of(&acceptor, &connector);
            pump(&mut client, &mut server);
            assert!(!client.agreed().resumed);
        }
        let (acceptor, _) = of_version(version);
        let connector = Connector::builder()
            .roots(Roots::of(certificate()).unwrap())
            .versions(version)
            .resumption(false)
            .build()
            .unwrap();
        for _ in 0..2 {
            let (mut client, mut server) = pair_of(&acceptor, &connector);
            pump(&mut client, &mut server);
            assert!(!client.agreed().resumed);
        }
    }
}

#[test]
fn clients_show_certificates_where_they_are_asked_to() {
    let ours = Certificate::self_signed(["client"]).unwrap();
    let known = Roots::of(&ours).unwrap();
    let stranger = Certificate::self_signed(["stranger"]).unwrap();
    for version in VERSIONS {
        let acceptor = |required: bool| {
            let builder = Acceptor::builder().certificate(certificate()).versions(version);
            let builder = match required {
                true => builder.require_client_certificates(known.clone()),
                false => builder.accept_client_certificates(known.clone()),
            };
            builder.build().unwrap()
        };
        let connector = |certificate: Option<&Certificate>| {
            let builder = Connector::builder()
                .roots(Roots::of(crate::support::certificate()).unwrap())
                .versions(version);
            match certificate {
                Some(certificate) => builder.certificate(certificate.clone()).build().unwrap(),
                None => builder.build().unwrap(),
            }
        };
        for (required, shown, accepted) in [
            (true, Some(&ours), true),
            (true, None, false),
            (true, Some(&stranger), false),
            (false, Some(&ours), true),
            (false, None, true),
            (false, Some(&stranger), false),
        ] {
            let (mut client, mut server) = pair_of(&acceptor(required), &connector(shown));
            pump(&mut client, &mut server);
            if accepted {
                let expected = shown.map_or(&[][..], Certificate::chain);
                assert_eq!(server.agreed().peer_certificates, expected);
            } else {
                assert!(matches!(server.failure(), TlsError::Protocol(_)), "{required} {shown:?}");
                assert!(!client.channel.is_open(), "the client hears of it");
                assert!(client.log.has("received fatal alert"), "{:?}", client.log.lines());
            }
        }
    }
}

#[test]
fn secrets_are_logged_only_where_that_is_asked_for() {
    #[derive(Debug, Default)]
    struct Labels(std::sync::Mutex<Vec<String>>);
    impl rustls::KeyLog for Labels {
        fn log(&self, label: &str, _: &[u8], _: &[u8]) {
            self.0.lock().unwrap().push(label.into());
        }
    }
    let labels = std::sync::Arc::new(Labels::default());
    let acceptor = Acceptor::builder().certificate(certificate()).key_log(labels.clone()).build().unwrap();
    let (mut client, mut server) = pair_of(&acceptor, &connector());
    pump(&mut client, &mut server);
    assert!(labels.0.lock().unwrap().iter().any(|label| label == "CLIENT_TRAFFIC_SECRET_0"));
    assert!(Acceptor::builder().certificate(certificate()).key_log_from_env().build().is_ok());
}

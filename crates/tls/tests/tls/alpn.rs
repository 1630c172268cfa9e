//! What is spoken inside, and who takes over.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{CloseCause, EmbeddedChannel, pipeline};
use netwright_tls::{Acceptor, Alpn, Connector, Roots, Tls, TlsError, rustls};

fn speaking(protocols: &[&str]) -> Connector {
    Connector::builder().roots(Roots::of(certificate()).unwrap()).alpn(protocols).build().unwrap()
}

fn listening(protocols: &[&str]) -> Acceptor {
    Acceptor::builder().certificate(certificate()).alpn(protocols).build().unwrap()
}

fn serve(acceptor: &Acceptor, otherwise: bool) -> EmbeddedChannel<(), Bytes> {
    EmbeddedChannel::with_joint(pipeline().add(Tls::<Bytes>::server(acceptor)).joint(|switch| {
        let mut alpn = Alpn::new(switch)
            .protocol("shout", |handshake| {
                assert_eq!(handshake.alpn.as_deref(), Some(&b"shout"[..]));
                pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.to_ascii_uppercase().into()))
            })
            .protocol("echo", |_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
        if otherwise {
            alpn = alpn.otherwise(|_| pipeline().handle(|cx, _| cx.write_and_flush(Bytes::from("what?"))));
        }
        pipeline().app(alpn)
    }))
}

fn talk(client: &mut End, server: &mut EmbeddedChannel<(), Bytes>) -> Vec<u8> {
    client.send("hello");
    loop {
        let (there, back) = (client.channel.outbound_bytes(), server.outbound_bytes());
        if there.is_empty() && back.is_empty() {
            return client.received();
        }
        server.write_inbound(there);
        client.channel.write_inbound(back);
    }
}

#[test]
fn the_protocol_that_was_agreed_on_takes_over() {
    for (offered, expected) in [
        (&["shout"][..], "HELLO"),
        (&["other", "echo"], "hello"),
        (&["echo", "shout"], "HELLO"),
        (&[], "what?"),
    ] {
        let mut client: End = End::new(Tls::client(&speaking(offered), "localhost").unwrap());
        let mut server = serve(&listening(&["shout", "echo"]), true);
        assert_eq!(talk(&mut client, &mut server), expected.as_bytes(), "{offered:?}");
    }
}

#[test]
fn without_a_protocol_in_common_the_handshake_fails() {
    let mut client: End = End::new(Tls::client(&speaking(&["other"]), "localhost").unwrap());
    let mut server = serve(&listening(&["shout", "echo"]), true);
    talk(&mut client, &mut server);
    let expected = rustls::Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol);
    assert!(matches!(client.failure(), TlsError::Protocol(error) if error == expected));
    assert!(!server.is_open());
}

#[test]
fn a_protocol_that_nobody_handles_closes_the_connection_with_its_name() {
    let mut client: End = End::new(Tls::client(&speaking(&["new"]), "localhost").unwrap());
    let mut server = serve(&listening(&["new"]), false);
    talk(&mut client, &mut server);
    let Some(CloseCause::Fault(fault)) = server.channel().close_cause() else { panic!("still open") };
    assert_eq!(fault.to_string(), "nobody handles the application protocol \"new\"");
    let mut client: End = End::new(Tls::client(&speaking(&[]), "localhost").unwrap());
    let mut server = serve(&listening(&["new"]), false);
    talk(&mut client, &mut server);
    assert!(!server.is_open());
}

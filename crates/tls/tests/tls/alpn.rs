//! What is spoken inside, and who takes over.

use crate::support::*;
use bytes::Bytes;
use netwright_core::{CloseCause, EmbeddedChannel, Outgoing, pipeline};
use netwright_tls::{Acceptor, Alpn, Connector, Roots, Tls, TlsError, rustls};

fn speaking(protocols: &[&str]) -> Connector {
    Connector::builder().roots(Roots::of(certificate()).unwrap()).alpn(protocols).build().unwrap()
}

fn listening(protocols: &[&str]) -> Acceptor {
    Acceptor::builder().certificate(certificate()).alpn(protocols).build().unwrap()
}

fn serve(acceptor: &Acceptor, otherwise: bool) -> EmbeddedChannel<(), Outgoing> {
    EmbeddedChannel::with_joint(pipeline().add(Tls::server(acceptor)).joint(|switch| {
        let mut alpn = Alpn::new(switch)
            .protocol("shout", |handshake| {
                assert_eq!(handshake.alpn.as_deref(), Some(&b"shout"[..]));
                pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.to_ascii_uppercase()))
            })
            .protocol("echo", |_| pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())));
        if otherwise {
            alpn = alpn.otherwise(|_| pipeline().handle(|cx, _| cx.write_and_flush(Bytes::from("what?"))));
        }
        pipeline().app(alpn)
    }))
}

fn talk(client: &mut End, server: &mut EmbeddedChannel<(), Outgoing>) -> Vec<u8> {
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

#[test]
fn pipelines_that_write_different_messages_take_over_sealed() {
    use bytes::BytesMut;
    use netwright_core::{Context, Handler, WritePromise};
    /// Numbers out, bytes in.
    struct Numbers;
    impl Handler for Numbers {
        type Read = BytesMut;
        type ReadOut = BytesMut;
        type Write = u64;
        type WriteOut = Outgoing;
        fn read(&mut self, cx: &mut Context<'_, Self>, bytes: BytesMut) {
            cx.fire_read(bytes);
        }
        fn write(&mut self, cx: &mut Context<'_, Self>, number: u64, done: WritePromise) {
            cx.write_with(number.to_string(), done);
        }
    }
    for (protocol, expected) in [("count", "5"), ("echo", "hello")] {
        let acceptor = listening(&["count", "echo"]);
        let mut client: End = End::new(Tls::client(&speaking(&[protocol]), "localhost").unwrap());
        let mut server: EmbeddedChannel<(), _> =
            EmbeddedChannel::with_joint(pipeline().add(Tls::server(&acceptor)).joint(|switch| {
                let alpn = Alpn::new(switch)
                    .protocol("count", |_| {
                        let count = pipeline()
                            .add(Numbers)
                            .handle(|cx, bytes| cx.write_and_flush(bytes.len() as u64));
                        count.sealed()
                    })
                    .protocol("echo", |_| {
                        pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze())).sealed()
                    });
                pipeline().app(alpn).sealed()
            }));
        client.send("hello");
        loop {
            let (there, back) = (client.channel.outbound_bytes(), server.outbound_bytes());
            if there.is_empty() && back.is_empty() {
                break;
            }
            server.write_inbound(there);
            client.channel.write_inbound(back);
        }
        assert_eq!(client.received(), expected.as_bytes());
    }
}

#[test]
fn tls_and_clear_text_share_a_port() {
    use netwright_core::detect::{Detect, tls};
    let either = || {
        let acceptor = acceptor();
        EmbeddedChannel::<(), _>::with_joint(pipeline().joint(move |switch| {
            let echo = || pipeline().handle(|cx, bytes| cx.write_and_flush(bytes.freeze()));
            pipeline().last(
                Detect::new(switch)
                    .rule(tls, move || {
                        let secret = pipeline().add(Tls::server(&acceptor));
                        secret.handle(|cx, bytes| cx.write_and_flush(bytes.to_ascii_uppercase())).sealed()
                    })
                    .otherwise(move || echo().sealed()),
            )
        }))
    };
    let mut plain = either();
    plain.write_inbound(b"hello");
    assert_eq!(plain.outbound_bytes(), b"hello");
    for size in [1, 1000] {
        let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap());
        let mut server = either();
        client.send("hello");
        loop {
            let (there, back) = (client.channel.outbound_bytes(), server.outbound_bytes());
            if there.is_empty() && back.is_empty() {
                break;
            }
            for piece in there.chunks(size) {
                server.write_inbound(piece);
            }
            client.channel.write_inbound(back);
        }
        assert_eq!(client.received(), b"HELLO");
    }
}

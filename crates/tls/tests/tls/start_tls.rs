//! Connections that begin in clear.

use crate::support::*;
use bytes::{Bytes, BytesMut};
use netwright_core::{AppContext, Application, EmbeddedChannel, Outgoing, Switch, pipeline};
use netwright_tls::{Acceptor, Connector, Tls};

type Rest = Switch<Outgoing>;

/// A server that answers in clear until it is asked for TLS.
struct Server(Rest, Acceptor);

impl Application for Server {
    type Read = BytesMut;
    type Write = Outgoing;
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if bytes != "STARTTLS\r\n" {
            return cx.write_and_flush(Bytes::from("250 hello\r\n"));
        }
        struct Echo;
        impl Application for Echo {
            type Read = BytesMut;
            type Write = Outgoing;
            fn active(&mut self, cx: &mut AppContext<'_, Self>) {
                cx.write_and_flush(Bytes::from("220 go ahead\r\n")); // the first message: in clear
            }
            fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
                cx.write_and_flush(bytes.freeze());
            }
        }
        self.0.to(pipeline().add(Tls::server(&self.1).start_tls()).app(Echo));
    }
}

/// A client that asks for TLS, and goes on in it when the server agrees.
struct Client(Rest, Connector);

impl Application for Client {
    type Read = BytesMut;
    type Write = Outgoing;
    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.write_and_flush(Bytes::from("EHLO\r\n"));
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        if bytes.starts_with(b"250") {
            return cx.write_and_flush(Bytes::from("STARTTLS\r\n"));
        }
        assert_eq!(bytes, "220 go ahead\r\n");
        struct Ask;
        impl Application for Ask {
            type Read = BytesMut;
            type Write = Outgoing;
            fn active(&mut self, cx: &mut AppContext<'_, Self>) {
                cx.write_and_flush(Bytes::from("in secret"));
            }
            fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
                assert_eq!(bytes, "in secret");
                cx.close();
            }
        }
        self.0.to(pipeline().add(Tls::client(&self.1, "localhost").unwrap()).app(Ask));
    }
}

#[test]
fn the_first_answer_goes_out_in_clear_and_everything_after_it_in_tls() {
    let mut server: EmbeddedChannel<(), _> =
        EmbeddedChannel::with_joint(pipeline().joint(|switch| pipeline().app(Server(switch, acceptor()))));
    let mut client: EmbeddedChannel<(), _> =
        EmbeddedChannel::with_joint(pipeline().joint(|switch| pipeline().app(Client(switch, connector()))));
    let mut wire = Vec::new();
    while client.is_open() {
        let there = client.outbound_bytes();
        let back = server.outbound_bytes();
        assert!(!(there.is_empty() && back.is_empty()), "stuck");
        wire.extend_from_slice(&there);
        wire.extend_from_slice(&back);
        if !there.is_empty() {
            server.write_inbound(there);
        }
        if !back.is_empty() {
            client.write_inbound(back);
        }
    }
    server.write_inbound(client.outbound_bytes());
    assert!(!server.is_open(), "the close_notify arrived");
    assert!(wire.starts_with(b"EHLO\r\n250 hello\r\nSTARTTLS\r\n220 go ahead\r\n\x16\x03"));
    assert!(!wire.windows(9).any(|bytes| bytes == b"in secret"));
}

#[test]
fn a_client_may_send_a_first_message_in_clear_and_shake_hands_behind_it() {
    let mut client: End = End::new(Tls::client(&connector(), "localhost").unwrap().start_tls());
    assert!(client.channel.outbound_bytes().is_empty(), "no ClientHello before the message in clear");
    client.send("PREAMBLE");
    let sent = client.channel.outbound_bytes();
    assert_eq!(&sent[..8], b"PREAMBLE");
    let mut server: End = End::new(Tls::server(&acceptor()));
    server.channel.write_inbound(&sent[8..]);
    pump(&mut client, &mut server);
    client.send("secret");
    pump(&mut client, &mut server);
    assert_eq!(server.received(), b"secret");
}

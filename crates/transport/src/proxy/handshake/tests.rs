use super::*;
use crate::proxy::{NoTls, Proxy, dialogue::tests::dialogue};
use netwright_core::EmbeddedChannel;
use std::{cell::RefCell, rc::Rc, sync::Arc};

type Channel = EmbeddedChannel<Infallible, Outgoing>;
type Outcome = Rc<RefCell<Option<Result<(), ConnectError>>>>;

const LIMIT: Duration = Duration::from_secs(10);
const SECOND: Duration = Duration::from_secs(1);

/// Through these proxies to an echo.
fn echo_behind<S>(hops: &[(Proxy, &str)], secures: Option<Secures<S>>) -> (Channel, Outcome)
where
    S: Handler<Read = BytesMut, ReadOut = BytesMut, Write = Outgoing, WriteOut = Outgoing>,
{
    let outcome = Outcome::default();
    let told = outcome.clone();
    let told: Told = Box::new(move |result| assert!(told.replace(Some(result)).is_none(), "told twice"));
    let echo = || pipeline().handle(|cx, bytes: BytesMut| cx.write_and_flush(bytes.freeze()));
    let stages = through(Box::new(dialogue(hops)), LIMIT, told, secures, echo);
    (EmbeddedChannel::with_joint(stages), outcome)
}

/// Through one proxy of HTTP.
fn echo() -> (Channel, Outcome) {
    let (mut channel, outcome) = echo_behind(&[(Proxy::http("a:1"), "b:2")], None::<Secures<NoTls>>);
    assert_eq!(channel.outbound_bytes(), b"CONNECT b:2 HTTP/1.1\r\nHost: b:2\r\n\r\n");
    (channel, outcome)
}

fn why(outcome: &Outcome) -> ProxyWhy {
    match outcome.take() {
        Some(Err(ConnectError::Proxy(error))) => error.why,
        other => panic!("{other:?}"),
    }
}

const AGREED: &[u8] = b"HTTP/1.1 200 ok\r\n\r\n";

#[test]
fn drops_of_an_answer_do_not_move_the_deadline() {
    let (mut channel, outcome) = echo();
    for byte in "HTTP/1.1 ".bytes() {
        channel.write_inbound(&[byte][..]).advance(SECOND);
    }
    assert!(channel.is_open() && outcome.borrow().is_none());
    channel.advance(SECOND);
    assert!(!channel.is_open());
    assert!(matches!(why(&outcome), ProxyWhy::TimedOut(LIMIT)));
}

#[test]
fn behind_the_answer_there_is_no_deadline_any_more_and_no_byte_is_lost() {
    for cut in 1..AGREED.len() + 5 {
        let (mut channel, outcome) = echo();
        let all = [AGREED, b"hello"].concat();
        channel.write_inbound(&all[..cut]).write_inbound(&all[cut..]);
        assert!(matches!(outcome.take(), Some(Ok(()))), "{cut}");
        channel.advance(LIMIT * 10);
        assert_eq!(channel.outbound_bytes(), b"hello", "{cut}");
        assert!(channel.is_open());
    }
}

#[test]
fn an_end_of_input_or_of_the_channel_is_told_once_wherever_it_comes() {
    for cut in 0..AGREED.len() {
        let (mut channel, outcome) = echo();
        channel.write_inbound(&AGREED[..cut]).end_input();
        assert!(matches!(why(&outcome), ProxyWhy::Ended(CloseCause::PeerClosed)), "{cut}");
        assert!(!channel.is_open());
        let (channel, outcome) = echo();
        drop(channel);
        assert!(outcome.take().is_none_or(|result| result.is_err()), "{cut}");
    }
}

#[test]
fn what_comes_behind_a_refusal_changes_nothing() {
    let (mut channel, outcome) = echo();
    channel.write_inbound("HTTP/1.1 403 no\r\n\r\nHTTP/1.1 200 ok\r\n\r\n");
    assert!(matches!(why(&outcome), ProxyWhy::Status(403)));
    channel.write_inbound(AGREED);
    assert!(outcome.take().is_none() && !channel.is_open());
}

/// Stands for TLS: says a byte first, waits for one, and changes all that follow by the key, which is the first letter of the proxy's name.
struct Scrambled {
    key: u8,
    agreed: bool,
    held: Vec<(Outgoing, WritePromise)>,
}

impl Scrambled {
    fn changed(&self, bytes: &[u8]) -> Vec<u8> {
        bytes.iter().map(|byte| byte ^ self.key).collect()
    }
}

impl Handler for Scrambled {
    type Read = BytesMut;
    type ReadOut = BytesMut;
    type Write = Outgoing;
    type WriteOut = Outgoing;

    fn active(&mut self, cx: &mut Context<'_, Self>) {
        cx.write_and_flush(vec![self.key]);
        cx.fire_active();
    }

    fn read(&mut self, cx: &mut Context<'_, Self>, mut bytes: BytesMut) {
        if !self.agreed {
            if bytes.split_to(1)[0] != self.key {
                return cx.fire_error(std::fmt::Error);
            }
            self.agreed = true;
            for (message, done) in std::mem::take(&mut self.held) {
                self.write(cx, message, done);
            }
            cx.flush();
        }
        if !bytes.is_empty() {
            cx.fire_read(self.changed(&bytes)[..].into());
        }
    }

    fn write(&mut self, cx: &mut Context<'_, Self>, message: Outgoing, done: WritePromise) {
        match message.as_bytes() {
            Some(bytes) if self.agreed => cx.write_with(self.changed(bytes), done),
            _ => self.held.push((message, done)),
        }
    }
}

fn scrambled(name: &str) -> Result<Scrambled, Fault> {
    Ok(Scrambled { key: name.as_bytes()[0], agreed: false, held: Vec::new() })
}

/// Through two proxies, both in what stands for TLS.
fn secret_echo() -> (Channel, Outcome) {
    let hops = [(Proxy::https("a:1"), "b:2"), (Proxy::https("b:2"), "c:3")];
    echo_behind(&hops, Some(Arc::new(scrambled) as Secures<_>))
}

fn by(keys: &[u8], bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|byte| keys.iter().fold(*byte, |byte, key| byte ^ key)).collect()
}

/// What comes from the wire, and what is answered to it.
fn secret_words() -> [(Vec<u8>, Vec<u8>); 4] {
    let ask = |host| format!("CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes();
    [
        (b"a".to_vec(), by(b"a", &ask("b:2"))),
        (by(b"a", AGREED), by(b"a", b"b")),
        (by(b"a", b"b"), by(b"ab", &ask("c:3"))),
        (by(b"ab", &[AGREED, b"hello"].concat()), by(b"ab", b"hello")),
    ]
}

#[test]
fn each_proxy_in_tls_is_spoken_to_through_the_tls_of_those_before_it_and_so_is_the_target() {
    for byte_by_byte in [false, true] {
        let (mut channel, outcome) = secret_echo();
        assert_eq!(channel.outbound_bytes(), b"a", "not a word before the handshake");
        for (incoming, answer) in secret_words() {
            match byte_by_byte {
                true => incoming.iter().for_each(|byte| _ = channel.write_inbound(&[*byte][..])),
                false => _ = channel.write_inbound(&incoming[..]),
            }
            assert_eq!(channel.outbound_bytes(), answer);
        }
        assert!(matches!(outcome.take(), Some(Ok(()))));
        channel.write_outbound("from outside");
        assert_eq!(channel.outbound_bytes(), by(b"ab", b"from outside"));
        channel.advance(LIMIT * 10);
        assert!(channel.is_open());
    }
}

#[test]
fn all_proxies_in_tls_have_one_deadline_together() {
    let (mut channel, outcome) = secret_echo();
    channel.advance(SECOND * 4).write_inbound("a").advance(SECOND * 4);
    channel.write_inbound(by(b"a", AGREED)).write_inbound(by(b"a", b"b")).advance(SECOND);
    assert!(channel.is_open() && outcome.borrow().is_none());
    channel.advance(SECOND);
    assert!(!channel.is_open());
    match outcome.take() {
        Some(Err(ConnectError::Proxy(error))) => {
            assert!(matches!((error.hop, &error.why), (2, ProxyWhy::TimedOut(LIMIT))), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_end_at_any_byte_in_tls_is_told_once() {
    let all: Vec<u8> = secret_words().into_iter().flat_map(|(incoming, _)| incoming).collect();
    for cut in 0..all.len() - "hello".len() {
        let (mut channel, outcome) = secret_echo();
        for byte in &all[..cut] {
            channel.write_inbound(&[*byte][..]);
        }
        assert!(outcome.borrow().is_none(), "{cut}");
        channel.end_input();
        assert!(matches!(why(&outcome), ProxyWhy::Ended(CloseCause::PeerClosed)), "{cut}");
        assert!(!channel.is_open());
    }
}

#[test]
fn what_is_wrong_before_hands_are_shaken_is_an_error_of_tls_and_later_of_the_connection() {
    let (mut channel, outcome) = secret_echo();
    channel.write_inbound("x");
    assert!(matches!(why(&outcome), ProxyWhy::Tls(_)));
    assert!(!channel.is_open());
    let (mut channel, outcome) = secret_echo();
    channel.write_inbound("a").write_inbound(by(b"a", b"HTTP/1.1 403 no\r\n\r\n"));
    assert!(matches!(why(&outcome), ProxyWhy::Status(403)));
}

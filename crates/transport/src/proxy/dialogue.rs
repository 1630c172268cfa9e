//! What is said on a connection through a chain of proxies: with the first, through it with the second, and so on.

use super::{
    ProxyError, ProxyWhy,
    connect::Connect,
    proxy::{Protocol, Proxy},
    socks4::Socks4,
    socks5::Socks5,
    target::Target,
};
use bytes::BytesMut;

/// One proxy, and whom it is asked for.
pub(super) struct Asked {
    pub(super) proxy: Proxy,
    pub(super) target: Target,
}

/// What a proxy has said.
#[derive(Debug)]
pub(super) enum Heard {
    /// Not all of it is there.
    More,
    /// It waits for this.
    Send(Vec<u8>),
    /// It lets us through; what is left of the input comes from behind it.
    Agreed,
}

/// What is to be done now.
#[derive(Debug)]
pub(crate) enum Step {
    /// Wait for more bytes.
    Wait,
    /// Send this.
    Send(Vec<u8>),
    /// The next proxy is spoken to in TLS, which comes first; then [`begin`](Dialogue::begin).
    Secure,
    /// The last proxy has agreed; this came behind its answer.
    Done(BytesMut),
}

/// The words with one proxy.
enum Words {
    Connect(Connect),
    Socks4(Socks4),
    Socks5(Socks5),
}

impl Words {
    /// What to say first.
    fn begin(Asked { proxy, target }: &Asked) -> (Self, Vec<u8>) {
        match proxy.protocol {
            Protocol::Http => (Self::Connect(Connect::new(proxy)), Connect::request(proxy, target)),
            Protocol::Socks4 => (Self::Socks4(Socks4::new(proxy)), Socks4::request(proxy, target)),
            Protocol::Socks5 => (Self::Socks5(Socks5::new(proxy, target)), Socks5::methods(proxy)),
        }
    }

    fn hear(&mut self, input: &mut BytesMut) -> Result<Heard, ProxyWhy> {
        match self {
            Self::Connect(words) => words.hear(input),
            Self::Socks4(words) => words.hear(input),
            Self::Socks5(words) => words.hear(input),
        }
    }
}

/// The words with all proxies of a chain, one after the other. Not one byte more is kept than one answer has, and what came with its end.
pub(crate) struct Dialogue {
    asked: Vec<Asked>,
    /// Whose turn it is.
    hop: usize,
    words: Words,
    first: Vec<u8>,
    input: BytesMut,
}

impl Dialogue {
    /// With these, of which there is at least one.
    pub(super) fn new(asked: Vec<Asked>) -> Self {
        let (words, first) = Words::begin(&asked[0]);
        Self { asked, hop: 0, words, first, input: BytesMut::new() }
    }

    /// The proxy whose turn it is.
    pub(super) fn proxy(&self) -> &Proxy {
        &self.asked[self.hop].proxy
    }

    /// What to say first to the proxy whose turn it is: as soon as there is a connection, and TLS if it is spoken to in that.
    pub(super) fn begin(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.first)
    }

    /// Bytes have come.
    pub(crate) fn hear(&mut self, bytes: BytesMut) -> Result<Step, ProxyError> {
        if self.input.is_empty() {
            self.input = bytes;
        } else {
            self.input.extend_from_slice(&bytes);
        }
        let heard = match self.words.hear(&mut self.input) {
            Ok(heard) => heard,
            Err(why) => return Err(self.error(why)),
        };
        match heard {
            Heard::More => Ok(Step::Wait),
            Heard::Agreed if self.hop + 1 == self.asked.len() => {
                Ok(Step::Done(std::mem::take(&mut self.input)))
            }
            // It was asked for nothing yet, so there is nothing that could be an answer.
            Heard::Send(_) | Heard::Agreed if !self.input.is_empty() => {
                Err(self.error(ProxyWhy::Malformed("there is more of it than was asked for")))
            }
            Heard::Send(bytes) => Ok(Step::Send(bytes)),
            Heard::Agreed => {
                self.hop += 1;
                (self.words, self.first) = Words::begin(&self.asked[self.hop]);
                if self.proxy().tls_name().is_some() {
                    return Ok(Step::Secure);
                }
                Ok(Step::Send(self.begin()))
            }
        }
    }

    /// An error of the proxy whose turn it is.
    pub(crate) fn error(&self, why: ProxyWhy) -> ProxyError {
        let Asked { proxy, target } = &self.asked[self.hop];
        ProxyError::new(self.hop + 1, proxy, target, why)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    type Machine<'a> = &'a mut dyn FnMut(&mut BytesMut) -> Result<Heard, ProxyWhy>;

    /// What a machine says to bytes that come at once, and what it leaves of them.
    pub(in crate::proxy) fn hear(machine: Machine<'_>, bytes: &[u8]) -> (Result<Heard, ProxyWhy>, BytesMut) {
        let mut input = BytesMut::from(bytes);
        (machine(&mut input), input)
    }

    /// An answer that agrees is understood whole, byte by byte, in any two pieces, and with what follows glued to it; cut short it is waited for.
    pub(in crate::proxy) fn every_cut<M>(answer: &[u8], machine: impl Fn() -> M)
    where
        M: FnMut(&mut BytesMut) -> Result<Heard, ProxyWhy>,
    {
        let all = [answer, b"\x05HTTP behind\r\n\r\n"].concat();
        for cut in 0..=all.len() {
            let (mut machine, mut input) = (machine(), BytesMut::from(&all[..cut]));
            let mut heard = machine(&mut input).unwrap();
            assert_eq!(matches!(heard, Heard::Agreed), cut >= answer.len(), "{cut}: {heard:?}");
            input.extend_from_slice(&all[cut..]);
            if cut < answer.len() {
                heard = machine(&mut input).unwrap();
            }
            assert!(matches!(heard, Heard::Agreed), "{cut}: {heard:?}");
            assert_eq!(input, all[answer.len()..], "{cut}");
        }
        let (mut machine, mut input) = (machine(), BytesMut::new());
        for (index, byte) in answer.iter().enumerate() {
            input.extend_from_slice(&[*byte]);
            let heard = machine(&mut input).unwrap();
            assert_eq!(matches!(heard, Heard::Agreed), index + 1 == answer.len(), "{index}: {heard:?}");
        }
        assert!(input.is_empty());
    }

    pub(in crate::proxy) fn dialogue(hops: &[(Proxy, &str)]) -> Dialogue {
        let asked = |(proxy, target): &(Proxy, &str)| Asked {
            proxy: proxy.clone(),
            target: Target::parse(target).unwrap(),
        };
        Dialogue::new(hops.iter().map(asked).collect())
    }

    fn sent(step: Result<Step, ProxyError>) -> Vec<u8> {
        match step {
            Ok(Step::Send(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_proxy_of_a_chain_is_asked_when_the_one_before_it_has_agreed() {
        let chain = [
            (Proxy::http("a:1"), "b:2"),
            (Proxy::socks5("b:2"), "c:3"),
            (Proxy::socks4a("c:3"), "10.0.0.1:80"),
        ];
        let mut dialogue = dialogue(&chain);
        assert!(dialogue.begin().starts_with(b"CONNECT b:2 "));
        assert!(matches!(dialogue.hear("HTTP/1.1 200".into()), Ok(Step::Wait)));
        assert_eq!(sent(dialogue.hear(" ok\r\n\r\n".into())), [5, 1, 0]);
        assert_eq!(sent(dialogue.hear(BytesMut::from(&[5, 0][..]))), b"\x05\x01\0\x03\x01c\0\x03");
        let last = sent(dialogue.hear(BytesMut::from(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..])));
        assert_eq!(last, [4, 1, 0, 80, 10, 0, 0, 1, 0]);
        match dialogue.hear(BytesMut::from(&b"\0\x5a\0\0\0\0\0\0hello"[..])) {
            Ok(Step::Done(rest)) => assert_eq!(rest, "hello"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_proxy_in_tls_is_said_nothing_before_there_is_tls_and_nothing_may_have_come() {
        let chain = [(Proxy::http("a:1"), "b:2"), (Proxy::https("b:2"), "c:3")];
        let mut two = dialogue(&chain);
        assert!(matches!(two.hear("HTTP/1.1 200 ok\r\n\r\n".into()), Ok(Step::Secure)));
        assert_eq!(two.proxy().tls_name(), Some("b"));
        assert!(two.begin().starts_with(b"CONNECT c:3 "));
        assert!(matches!(two.hear("HTTP/1.1 200 ok\r\n\r\n".into()), Ok(Step::Done(_))));
        let mut early = dialogue(&chain);
        let error = early.hear("HTTP/1.1 200 ok\r\n\r\n\u{16}".into()).unwrap_err();
        assert!(matches!((error.hop, &error.why), (1, ProxyWhy::Malformed(_))), "{error}");
    }

    #[test]
    fn bytes_that_nobody_asked_for_are_refused_between_two_hops_and_kept_behind_the_last() {
        let mut two = dialogue(&[(Proxy::http("a:1"), "b:2"), (Proxy::socks5("b:2"), "c:3")]);
        let error = two.hear("HTTP/1.1 200 ok\r\n\r\n\u{5}".into()).unwrap_err();
        assert!(matches!((error.hop, &error.why), (1, ProxyWhy::Malformed(_))), "{error}");
        let mut early = dialogue(&[(Proxy::socks5("b:2"), "c:3")]);
        let error = early.hear(BytesMut::from(&[5, 0, 5][..])).unwrap_err();
        assert!(matches!(error.why, ProxyWhy::Malformed(_)), "{error}");
    }

    #[test]
    fn an_error_names_the_hop_the_proxy_and_its_target_and_no_secret() {
        let secret = Proxy::socks5("b:2").credentials("ada", "hunter2");
        let mut dialogue = dialogue(&[(Proxy::http("a:1"), "b:2"), (secret, "c:3")]);
        sent(dialogue.hear("HTTP/1.1 200 ok\r\n\r\n".into()));
        let error = dialogue.hear(BytesMut::from(&[5, 255][..])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "no connection to c:3 through the proxy socks5h://b:2 (hop 2): it did not accept the credentials"
        );
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

//! SOCKS 5 (RFC 1928) with user name and password (RFC 1929), as a state machine.
//!
//! ```text
//!   methods ─▶ none needed ────────────────────▶ request ─▶ answer: agreed, or a code
//!      │  └──▶ user and password ─▶ accepted ──────┘
//!      └ none of ours: unauthorized
//! ```

use super::{
    ProxyWhy,
    dialogue::Heard,
    proxy::Proxy,
    target::{Host, Target},
};
use bytes::{Buf, BytesMut};
use std::net::IpAddr;

pub(super) struct Socks5 {
    state: State,
    proxy: Proxy,
    target: Target,
}

#[derive(Clone, Copy)]
enum State {
    Methods,
    Password,
    Request,
}

const VERSION: u8 = 5;
/// The version of the words about a password.
const PASSWORD_VERSION: u8 = 1;
const NO_CREDENTIALS: u8 = 0;
const PASSWORD: u8 = 2;
const NO_METHOD: u8 = 255;

const V4: u8 = 1;
const NAME: u8 = 3;
const V6: u8 = 4;

impl Socks5 {
    pub(super) fn new(proxy: &Proxy, target: &Target) -> Self {
        Self { state: State::Methods, proxy: proxy.clone(), target: target.clone() }
    }

    pub(super) fn methods(proxy: &Proxy) -> Vec<u8> {
        match proxy.credentials {
            None => vec![VERSION, 1, NO_CREDENTIALS],
            Some(_) => vec![VERSION, 2, NO_CREDENTIALS, PASSWORD],
        }
    }

    pub(super) fn hear(&mut self, input: &mut BytesMut) -> Result<Heard, ProxyWhy> {
        let version = if let State::Password = self.state { PASSWORD_VERSION } else { VERSION };
        if input.first().is_some_and(|first| *first != version) {
            return Err(ProxyWhy::Malformed("it does not begin with the version of SOCKS 5"));
        }
        let Some(said) = input.get(1).copied() else { return Ok(Heard::More) };
        let given = self.proxy.credentials.is_some();
        match self.state {
            State::Methods => {
                let next = match said {
                    NO_CREDENTIALS => self.request(),
                    PASSWORD if given => self.password(),
                    NO_METHOD => return Err(ProxyWhy::Unauthorized { given }),
                    _ => return Err(ProxyWhy::Malformed("it chose a method that was not offered")),
                };
                input.advance(2);
                Ok(Heard::Send(next))
            }
            State::Password if said != 0 => Err(ProxyWhy::Unauthorized { given }),
            State::Password => {
                input.advance(2);
                Ok(Heard::Send(self.request()))
            }
            State::Request if said != 0 => Err(ProxyWhy::Socks { code: said }),
            State::Request => {
                // The address from which the proxy connects, which is of no use here.
                let len = match (input.get(3), input.get(4)) {
                    (None, _) | (Some(&NAME), None) => return Ok(Heard::More),
                    (Some(&V4), _) => 4 + 4 + 2,
                    (Some(&V6), _) => 4 + 16 + 2,
                    (Some(&NAME), Some(len)) => 4 + 1 + usize::from(*len) + 2,
                    _ => return Err(ProxyWhy::Malformed("SOCKS 5 has no such kind of address")),
                };
                if input.len() < len {
                    return Ok(Heard::More);
                }
                input.advance(len);
                Ok(Heard::Agreed)
            }
        }
    }

    fn password(&mut self) -> Vec<u8> {
        self.state = State::Password;
        let mut words = vec![PASSWORD_VERSION];
        if let Some(credentials) = &self.proxy.credentials {
            for word in [&credentials.user, &credentials.password] {
                words.push(word.len() as u8); // at most 255: `Proxy::check`
                words.extend(word.as_bytes());
            }
        }
        words
    }

    fn request(&mut self) -> Vec<u8> {
        self.state = State::Request;
        let mut request = vec![VERSION, 1, 0];
        match &self.target.host {
            Host::Ip(IpAddr::V4(ip)) => {
                request.push(V4);
                request.extend(ip.octets());
            }
            Host::Ip(IpAddr::V6(ip)) => {
                request.push(V6);
                request.extend(ip.octets());
            }
            Host::Name(name) => {
                request.push(NAME);
                request.push(name.len() as u8); // at most 255: `Target::parse`
                request.extend(name.as_bytes());
            }
        }
        request.extend(self.target.port.to_be_bytes());
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::{
        NAME_MAX,
        dialogue::tests::{every_cut, hear},
    };

    fn proxy() -> Proxy {
        Proxy::socks5("p:1").credentials("ada", "secret")
    }

    fn machine(target: &str) -> impl FnMut(&mut BytesMut) -> Result<Heard, ProxyWhy> + use<> {
        let mut socks = Socks5::new(&proxy(), &Target::parse(target).unwrap());
        move |input| socks.hear(input)
    }

    /// One that has been told that it needs no credentials.
    fn asked() -> impl FnMut(&mut BytesMut) -> Result<Heard, ProxyWhy> {
        let mut machine = machine("a:1");
        assert!(matches!(hear(&mut machine, &[5, 0]).0, Ok(Heard::Send(_))));
        machine
    }

    fn sent(heard: Result<Heard, ProxyWhy>) -> Vec<u8> {
        match heard {
            Ok(Heard::Send(bytes)) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn credentials_are_offered_if_there_are_some_and_sent_if_they_are_asked_for() {
        assert_eq!(Socks5::methods(&Proxy::socks5("p:1")), [5, 1, 0]);
        assert_eq!(Socks5::methods(&proxy()), [5, 2, 0, 2]);
        let mut machine = machine("a.example:258");
        assert_eq!(sent(hear(&mut machine, &[5, 2]).0), b"\x01\x03ada\x06secret");
        assert_eq!(sent(hear(&mut machine, &[1, 0]).0), b"\x05\x01\0\x03\x09a.example\x01\x02");
        assert!(matches!(hear(&mut machine, &[5, 0, 0, 1, 1, 2, 3, 4, 5, 6]).0, Ok(Heard::Agreed)));
    }

    #[test]
    fn addresses_are_asked_for_as_addresses() {
        let ask = |target: &str| sent(hear(&mut machine(target), &[5, 0]).0);
        assert_eq!(ask("10.1.2.3:80"), [5, 1, 0, 1, 10, 1, 2, 3, 0, 80]);
        assert_eq!(ask("[::1]:80"), [&[5, 1, 0, 4][..], &[0; 15], &[1, 0, 80]].concat());
        let longest = ask(&format!("{}:1", "x".repeat(NAME_MAX)));
        assert_eq!((longest[4], longest.len()), (255, 5 + 255 + 2));
    }

    #[test]
    fn what_lies_behind_the_answer_is_left_wherever_the_answer_is_cut() {
        every_cut(&[5, 0, 0, 1, 1, 2, 3, 4, 5, 6], asked);
        every_cut(&[&[5, 0, 0, 4][..], &[7; 18]].concat(), asked);
        every_cut(&[5, 0, 0, 3, 0, 0, 0], asked);
        every_cut(&[&[5, 0, 0, 3, 255][..], &[5; 257]].concat(), asked);
    }

    #[test]
    fn refusals_are_told_by_their_code() {
        let why = |machine: &mut dyn FnMut(&mut BytesMut) -> Result<Heard, ProxyWhy>, answer: &[u8]| {
            let mut input = BytesMut::from(answer);
            format!("{:?}", machine(&mut input).unwrap_err())
        };
        assert_eq!(why(&mut machine("a:1"), &[5, 255]), "Unauthorized { given: true }");
        assert_eq!(why(&mut asked(), &[5, 5]), "Socks { code: 5 }");
        let mut machine = machine("a:1");
        sent(hear(&mut machine, &[5, 2]).0);
        assert_eq!(why(&mut machine, &[1, 1]), "Unauthorized { given: true }");
    }

    #[test]
    fn garbage_is_refused_with_the_first_byte_that_is_wrong() {
        for garbage in [&b"H"[..], &[4], &[0, 90], &[5, 1], &[5, 3]] {
            assert!(
                matches!(hear(&mut machine("a:1"), garbage).0, Err(ProxyWhy::Malformed(_))),
                "{garbage:?}"
            );
        }
        for garbage in [&[4][..], &[1, 0], &[5, 0, 0, 0], &[5, 0, 0, 2], &[5, 0, 0, 255, 1]] {
            assert!(matches!(hear(&mut asked(), garbage).0, Err(ProxyWhy::Malformed(_))), "{garbage:?}");
        }
        let mut open = Socks5::new(&Proxy::socks5("p:1"), &Target::parse("a:1").unwrap());
        let chosen = open.hear(&mut BytesMut::from(&[5, 2][..]));
        assert!(matches!(chosen, Err(ProxyWhy::Malformed(_))), "a password was not offered: {chosen:?}");
    }
}

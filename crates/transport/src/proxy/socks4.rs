//! SOCKS 4 and 4a, as a state machine: one request, one answer of eight bytes.

use super::{
    ProxyWhy,
    dialogue::Heard,
    proxy::Proxy,
    target::{Host, Target},
};
use bytes::{Buf, BytesMut};
use std::net::IpAddr;

pub(super) struct Socks4 {
    given: bool,
}

/// Its answer: a zero, a code, and six bytes that mean nothing here.
const ANSWER_LEN: usize = 8;
const GRANTED: u8 = 90;

impl Socks4 {
    pub(super) fn new(proxy: &Proxy) -> Self {
        Self { given: proxy.credentials.is_some() }
    }

    /// Of a target with an IPv4 address or a name.
    pub(super) fn request(proxy: &Proxy, target: &Target) -> Vec<u8> {
        let mut request = vec![4, 1];
        request.extend(target.port.to_be_bytes());
        let (ip, name) = match &target.host {
            Host::Ip(IpAddr::V4(ip)) => (ip.octets(), None),
            // An address that none has, and the name behind the user: that is 4a. There is no IPv6 here, it was refused before.
            host => (
                [0, 0, 0, 1],
                Some(match host {
                    Host::Name(name) => name.clone(),
                    Host::Ip(ip) => ip.to_string(),
                }),
            ),
        };
        request.extend(ip);
        if let Some(credentials) = &proxy.credentials {
            request.extend(credentials.user.as_bytes());
        }
        request.push(0);
        if let Some(name) = name {
            request.extend(name.as_bytes());
            request.push(0);
        }
        request
    }

    pub(super) fn hear(&mut self, input: &mut BytesMut) -> Result<Heard, ProxyWhy> {
        match **input {
            [version, ..] if version != 0 => {
                return Err(ProxyWhy::Malformed("an answer of SOCKS 4 begins with 0"));
            }
            [_, GRANTED, ..] | [_] | [] => {}
            [_, 92 | 93, ..] => return Err(ProxyWhy::Unauthorized { given: self.given }),
            [_, code @ 91, ..] => return Err(ProxyWhy::Socks { code }),
            _ => return Err(ProxyWhy::Malformed("SOCKS 4 has no such code")),
        }
        if input.len() < ANSWER_LEN {
            return Ok(Heard::More);
        }
        input.advance(ANSWER_LEN);
        Ok(Heard::Agreed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::dialogue::tests::{every_cut, hear};

    fn machine() -> impl FnMut(&mut BytesMut) -> Result<Heard, ProxyWhy> {
        let mut socks = Socks4::new(&Proxy::socks4("p:1"));
        move |input| socks.hear(input)
    }

    #[test]
    fn an_address_is_asked_for_by_version_4_and_a_name_by_4a() {
        let proxy = Proxy::socks4a("p:1").credentials("ada", "");
        let request = Socks4::request(&proxy, &Target::parse("10.1.2.3:258").unwrap());
        assert_eq!(request, b"\x04\x01\x01\x02\x0a\x01\x02\x03ada\0");
        let request = Socks4::request(&Proxy::socks4a("p:1"), &Target::parse("a.example:80").unwrap());
        assert_eq!(request, b"\x04\x01\0\x50\0\0\0\x01\0a.example\0");
    }

    #[test]
    fn what_lies_behind_the_answer_is_left_wherever_the_answer_is_cut() {
        every_cut(&[0, 90, 0, 0, 0, 0, 0, 0], machine);
        every_cut(&[0, 90, 255, 255, 1, 2, 3, 4], machine);
    }

    #[test]
    fn refusals_are_told_by_their_code_and_what_is_none_is_garbage() {
        let why = |answer: &[u8]| format!("{:?}", hear(&mut machine(), answer).0.unwrap_err());
        assert_eq!(why(&[0, 91]), "Socks { code: 91 }");
        assert_eq!(why(&[0, 93, 0, 0]), "Unauthorized { given: false }");
        for garbage in [&b"H"[..], &[4, 90], &[5, 0], &[0, 0], &[0, 255]] {
            assert!(why(garbage).starts_with("Malformed"), "{garbage:?}");
        }
    }
}

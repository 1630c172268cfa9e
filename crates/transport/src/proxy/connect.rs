//! HTTP `CONNECT` (RFC 9110, section 9.3.6), as a state machine.
//!
//! ```text
//!   CONNECT host:port ─▶ status line ─ 2xx ─▶ fields … empty line ─▶ agreed
//!                            │  └ 1xx ─▶ fields … empty line ─▶ status line
//!                            └ anything else: refused, whatever follows
//! ```
//! Always true: lines are taken out of the input one by one, so a byte is looked at once; all of them together are at most
//! [`ANSWER_MAX`] bytes. A reply that agrees has no body, whatever its fields say.

use super::{
    ANSWER_MAX, ProxyWhy,
    dialogue::Heard,
    proxy::{Credentials, Proxy},
    target::Target,
};
use bytes::{Buf, BytesMut};

pub(super) struct Connect {
    given: bool,
    /// What was taken out of the input.
    taken: usize,
    /// So much of the input has no end of a line.
    looked_at: usize,
    status: Option<u16>,
}

impl Connect {
    pub(super) fn new(proxy: &Proxy) -> Self {
        Self { given: proxy.credentials.is_some(), taken: 0, looked_at: 0, status: None }
    }

    pub(super) fn request(proxy: &Proxy, target: &Target) -> Vec<u8> {
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n");
        if let Some(credentials) = &proxy.credentials {
            request.push_str(&format!("Proxy-Authorization: {}\r\n", basic(credentials)));
        }
        request.push_str("\r\n");
        request.into_bytes()
    }

    pub(super) fn hear(&mut self, input: &mut BytesMut) -> Result<Heard, ProxyWhy> {
        loop {
            if self.status.is_none() {
                check_beginning(input)?;
            }
            let end = input[self.looked_at..].iter().position(|byte| *byte == b'\n');
            let end = end.map(|end| self.looked_at + end);
            if self.taken + end.map_or(input.len(), |end| end + 1) > ANSWER_MAX {
                return Err(ProxyWhy::TooLong);
            }
            let Some(end) = end else {
                self.looked_at = input.len();
                return Ok(Heard::More);
            };
            self.looked_at = 0;
            self.taken += end + 1;
            let answer = self.line(&input[..end]);
            input.advance(end + 1);
            if let Some(heard) = answer? {
                return Ok(heard);
            }
        }
    }

    /// A line without its line feed.
    fn line(&mut self, line: &[u8]) -> Result<Option<Heard>, ProxyWhy> {
        let Some((b'\r', line)) = line.split_last() else {
            return Err(ProxyWhy::Malformed("a line ends in a line feed alone"));
        };
        if line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
            return Err(ProxyWhy::Malformed("a line has a control byte"));
        }
        match self.status {
            None => self.status = Some(self.status_line(line)?),
            Some(status) if line.is_empty() => match status {
                200..300 => return Ok(Some(Heard::Agreed)),
                _ => self.status = None, // an interim reply: another one follows
            },
            Some(_) => check_field(line)?,
        }
        Ok(None)
    }

    fn status_line(&self, line: &[u8]) -> Result<u16, ProxyWhy> {
        let malformed = ProxyWhy::Malformed("it does not begin with a status line of HTTP");
        // `HTTP/1.x ` was checked before.
        let Some((digits, reason)) =
            line.get(BEGINNING.len() + 2..).and_then(|rest| rest.split_at_checked(3))
        else {
            return Err(malformed);
        };
        let status =
            std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let status = status.and_then(|digits| digits.parse().ok());
        match status {
            Some(_) if !reason.is_empty() && reason[0] != b' ' => Err(malformed),
            // Nothing else was offered, so there is nothing to change to.
            Some(101) => Err(ProxyWhy::Status(101)),
            Some(status @ 100..300) => Ok(status),
            Some(407) => Err(ProxyWhy::Unauthorized { given: self.given }),
            Some(status @ 300..600) => Err(ProxyWhy::Status(status)),
            _ => Err(malformed),
        }
    }
}

const BEGINNING: &[u8] = b"HTTP/1.";

/// What is no reply is refused by its first byte, and not when there is a whole line of it.
fn check_beginning(input: &[u8]) -> Result<(), ProxyWhy> {
    let shared = BEGINNING.len().min(input.len());
    let digit = input.get(BEGINNING.len()).is_none_or(u8::is_ascii_digit);
    let blank = input.get(BEGINNING.len() + 1).is_none_or(|byte| *byte == b' ');
    if input[..shared] != BEGINNING[..shared] || !digit || !blank {
        return Err(ProxyWhy::Malformed("it does not begin with a status line of HTTP"));
    }
    Ok(())
}

fn check_field(line: &[u8]) -> Result<(), ProxyWhy> {
    let name = line.iter().position(|byte| *byte == b':').map(|colon| &line[..colon]);
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    match name {
        Some(name) if !name.is_empty() && name.iter().all(token) => Ok(()),
        _ => Err(ProxyWhy::Malformed("a line of its head is no field")),
    }
}

/// The value of `Proxy-Authorization` (RFC 7617).
pub(super) fn basic(Credentials { user, password }: &Credentials) -> String {
    format!("Basic {}", base64(format!("{user}:{password}").as_bytes()))
}

/// RFC 4648, section 4. A few lines, so that no client of sockets depends on a crate for them.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let value = bits >> (18 - 6 * digit) & 63;
            text.push(if digit <= group.len() { DIGITS[value as usize] as char } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::dialogue::tests::{every_cut, hear};

    fn machine() -> impl FnMut(&mut BytesMut) -> Result<Heard, ProxyWhy> {
        let mut connect = Connect::new(&Proxy::http("p:1"));
        move |input| connect.hear(input)
    }

    #[test]
    fn digits_are_those_of_the_rfc() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
            ("\u{ff}\u{fe}?>", "w7/Dvj8+"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn the_request_names_the_target_twice_and_carries_credentials() {
        let proxy = Proxy::http("p:1").credentials("Aladdin", "open sesame");
        let request = Connect::request(&proxy, &Target::parse("[::1]:443").unwrap());
        assert_eq!(
            String::from_utf8(request).unwrap(),
            "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
        );
    }

    #[test]
    fn what_lies_behind_the_answer_is_left_wherever_the_answer_is_cut() {
        for head in [
            "HTTP/1.1 200 Connection established\r\n\r\n",
            "HTTP/1.0 200\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 100 Continue\r\nA: b\r\n\r\nHTTP/1.1 299 \r\nVia: x\t\r\n\r\n",
        ] {
            every_cut(head.as_bytes(), machine);
        }
    }

    #[test]
    fn an_answer_that_does_not_agree_says_which_status_it_has() {
        for (head, expected) in [
            ("HTTP/1.1 403 Filtered\r\n", "Status(403)"),
            ("HTTP/1.1 407 \r\n", "Unauthorized { given: false }"),
            ("HTTP/1.1 101 Switching\r\n", "Status(101)"),
            ("HTTP/1.1 301 Moved\r\n", "Status(301)"),
            ("HTTP/1.1 599 x\r\n", "Status(599)"),
        ] {
            let (result, _) = hear(&mut machine(), head.as_bytes());
            assert_eq!(format!("{:?}", result.unwrap_err()), expected, "{head:?}");
        }
    }

    #[test]
    fn garbage_is_refused_with_the_first_byte_that_is_wrong() {
        for garbage in [
            "\u{5}",
            "G",
            "HTTP/2",
            "HTTP/1.x",
            "HTTP/1.1\t",
            "HTTP/1.1 20\r\n",
            "HTTP/1.1 2000\r\n",
            "HTTP/1.1 +20 \r\n",
            "HTTP/1.1 099 x\r\n",
            "HTTP/1.1 600 x\r\n",
            "HTTP/1.1 200 ok\n",
            "HTTP/1.1 200 o\rk\r\n",
            "HTTP/1.1 200 ok\r\n folded\r\n",
            "HTTP/1.1 200 ok\r\nno colon\r\n",
            "HTTP/1.1 200 ok\r\nname : x\r\n",
            "HTTP/1.1 200 ok\r\n: x\r\n",
            "HTTP/1.1 200 ok\r\na: \0\r\n",
            "HTTP/1.1 200 ok\r\n\n",
            "\r\n",
        ] {
            let (result, _) = hear(&mut machine(), garbage.as_bytes());
            assert!(matches!(result, Err(ProxyWhy::Malformed(_))), "{garbage:?}: {result:?}");
        }
    }

    #[test]
    fn an_answer_may_have_8192_bytes_and_not_one_more_however_it_is_made_long() {
        let head = |fill: usize| {
            let (begin, end) = ("HTTP/1.1 200 ok\r\nx: ", "\r\n\r\n");
            format!("{begin}{}{end}", "y".repeat(fill - begin.len() - end.len()))
        };
        assert!(matches!(hear(&mut machine(), head(ANSWER_MAX).as_bytes()).0, Ok(Heard::Agreed)));
        assert!(matches!(hear(&mut machine(), head(ANSWER_MAX + 1).as_bytes()).0, Err(ProxyWhy::TooLong)));
        let endless_line = format!("HTTP/1.1 200 {}", "x".repeat(ANSWER_MAX));
        assert!(matches!(hear(&mut machine(), endless_line.as_bytes()).0, Err(ProxyWhy::TooLong)));
        let endless_interim = "HTTP/1.1 102 x\r\n\r\n".repeat(ANSWER_MAX);
        assert!(matches!(hear(&mut machine(), endless_interim.as_bytes()).0, Err(ProxyWhy::TooLong)));
    }
}

//! What is offered, what is accepted, and whether a reply keeps to the offer.
//!
//! ```text
//!   client: offer ──── Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits ───▶ server: accept
//!   client: check ◀─── Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover ─── its reply
//! ```

use super::{Agreed, Deflate, WINDOW_BITS_MAX, WINDOW_BITS_MIN};
use http::HeaderValue;
use std::{error::Error, fmt, fmt::Write};

const NAME: &str = "permessage-deflate";
/// Offers and parameters in one header that are looked at.
const ITEMS_MAX: usize = 64;

/// A server agreed to something that was not offered, or that makes no sense.
///
/// ```
/// use netwright_websocket::deflate;
///
/// let error = deflate::check(None, ["permessage-bzip2"]).unwrap_err();
/// assert_eq!(error.reply, "permessage-bzip2");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadExtension {
    /// What the server said.
    pub reply: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl BadExtension {
    /// A header that is not text.
    pub(crate) fn unreadable(value: &HeaderValue) -> Self {
        Self { reply: String::from_utf8_lossy(value.as_bytes()).into_owned(), why: "it is not text" }
    }
}

impl fmt::Display for BadExtension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server agreed to the extension {:?}: {}", self.reply, self.why)
    }
}

impl Error for BadExtension {}

/// One extension in a header: its parameters, or why it cannot be used.
struct Parameters {
    agreed: Agreed,
    server_bits: bool,
    /// Given at all, and with a number.
    client_bits: Option<Option<u8>>,
}

impl Parameters {
    fn parse(extension: &str) -> Option<Result<Self, &'static str>> {
        let mut parts = extension.split(';').map(str::trim);
        if !parts.next()?.eq_ignore_ascii_case(NAME) {
            return None;
        }
        let mut found = Self { agreed: Agreed::default(), server_bits: false, client_bits: None };
        for part in parts {
            if let Err(why) = found.parameter(part) {
                return Some(Err(why));
            }
        }
        Some(Ok(found))
    }

    fn parameter(&mut self, part: &str) -> Result<(), &'static str> {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim())),
            None => (part, None),
        };
        let twice = match name {
            "server_no_context_takeover" if value.is_none() => {
                std::mem::replace(&mut self.agreed.server_no_context_takeover, true)
            }
            "client_no_context_takeover" if value.is_none() => {
                std::mem::replace(&mut self.agreed.client_no_context_takeover, true)
            }
            "server_max_window_bits" => {
                self.agreed.server_max_window_bits = bits(value.ok_or("a window without its bits")?)?;
                std::mem::replace(&mut self.server_bits, true)
            }
            "client_max_window_bits" => {
                let value = value.map(bits).transpose()?;
                self.agreed.client_max_window_bits = value.unwrap_or(WINDOW_BITS_MAX);
                self.client_bits.replace(value).is_some()
            }
            _ => return Err("an unknown parameter"),
        };
        if twice { Err("a parameter twice") } else { Ok(()) }
    }
}

/// A number from 8 to 15, without leading zeros, maybe quoted.
fn bits(value: &str) -> Result<u8, &'static str> {
    let value = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let plain = value.bytes().all(|byte| byte.is_ascii_digit()) && !value.starts_with('0');
    value
        .parse()
        .ok()
        .filter(|bits| plain && (WINDOW_BITS_MIN..=WINDOW_BITS_MAX).contains(bits))
        .ok_or("a window of other than 8 to 15 bits")
}

fn write(agreed: &Agreed, with_client_bits: bool) -> String {
    let mut text = NAME.to_owned();
    if agreed.server_no_context_takeover {
        text.push_str("; server_no_context_takeover");
    }
    if agreed.client_no_context_takeover {
        text.push_str("; client_no_context_takeover");
    }
    if agreed.server_max_window_bits < WINDOW_BITS_MAX {
        let _ = write!(text, "; server_max_window_bits={}", agreed.server_max_window_bits);
    }
    if with_client_bits && agreed.client_max_window_bits < WINDOW_BITS_MAX {
        let _ = write!(text, "; client_max_window_bits={}", agreed.client_max_window_bits);
    }
    text
}

/// What a client offers: the value of `Sec-WebSocket-Extensions`.
///
/// ```
/// use netwright_websocket::{Deflate, deflate};
///
/// assert!(deflate::offer(&Deflate::default()).starts_with("permessage-deflate"));
/// ```
pub fn offer(deflate: &Deflate) -> String {
    let mut text = write(&wanted(deflate), true);
    if deflate.window_bits == WINDOW_BITS_MAX {
        text.push_str("; client_max_window_bits"); // the server may ask for a smaller one
    }
    text
}

fn wanted(deflate: &Deflate) -> Agreed {
    Agreed {
        server_no_context_takeover: !deflate.server_takeover,
        client_no_context_takeover: !deflate.client_takeover,
        server_max_window_bits: deflate.window_bits,
        client_max_window_bits: deflate.window_bits,
    }
}

/// What a server answers to offers, the values of all `Sec-WebSocket-Extensions` headers: the first one that it can accept, and
/// the value of the header of its reply. Offers that make no sense are declined by leaving them out.
///
/// ```
/// use netwright_websocket::{Deflate, deflate};
///
/// let (agreed, reply) = deflate::accept(&Deflate::default(), ["permessage-deflate; client_max_window_bits"]).unwrap();
/// assert!(agreed.server_no_context_takeover);
/// assert_eq!(reply, "permessage-deflate; server_no_context_takeover; client_no_context_takeover");
/// assert!(deflate::accept(&Deflate::default(), ["permessage-bzip2"]).is_none());
/// ```
pub fn accept<'a>(deflate: &Deflate, offers: impl IntoIterator<Item = &'a str>) -> Option<(Agreed, String)> {
    let offers = offers.into_iter().flat_map(|header| header.split(',')).take(ITEMS_MAX);
    let offered = offers.filter_map(Parameters::parse).find_map(Result::ok)?;
    let (ours, theirs) = (wanted(deflate), offered.agreed);
    let agreed = Agreed {
        server_no_context_takeover: ours.server_no_context_takeover || theirs.server_no_context_takeover,
        client_no_context_takeover: ours.client_no_context_takeover || theirs.client_no_context_takeover,
        server_max_window_bits: ours.server_max_window_bits.min(theirs.server_max_window_bits),
        // Only a client that says that it can is told to use a smaller window.
        client_max_window_bits: match offered.client_bits {
            Some(_) => ours.client_max_window_bits.min(theirs.client_max_window_bits),
            None => WINDOW_BITS_MAX,
        },
    };
    Some((agreed, write(&agreed, offered.client_bits.is_some())))
}

/// What a server's reply, the values of all its `Sec-WebSocket-Extensions` headers, means to a client that offered this.
///
/// # Errors
/// The server agreed to something that was not offered, or that makes no sense.
///
/// ```
/// use netwright_websocket::{Deflate, deflate};
///
/// let ours = Deflate::default();
/// assert!(deflate::check(Some(&ours), ["permessage-deflate; server_no_context_takeover; client_no_context_takeover"]).is_ok());
/// assert!(deflate::check(None, ["permessage-deflate"]).is_err()); // nobody offered it
/// assert_eq!(deflate::check(Some(&ours), []), Ok(None)); // the server does without
/// ```
pub fn check<'a>(
    deflate: Option<&Deflate>,
    reply: impl IntoIterator<Item = &'a str>,
) -> Result<Option<Agreed>, BadExtension> {
    let mut found = None;
    let extensions = reply.into_iter().flat_map(|header| header.split(',')).map(str::trim);
    for extension in extensions.filter(|extension| !extension.is_empty()).take(ITEMS_MAX) {
        let bad = |why| BadExtension { reply: extension.to_owned(), why };
        let deflate = deflate.ok_or(bad("none was offered"))?;
        let parsed = Parameters::parse(extension).ok_or(bad("this one was not offered"))?.map_err(bad)?;
        if parsed.client_bits == Some(None) {
            return Err(bad("a window without its bits"));
        }
        let ours = wanted(deflate);
        if ours.server_no_context_takeover && !parsed.agreed.server_no_context_takeover {
            return Err(bad("the server was asked to carry no context over"));
        }
        if parsed.agreed.server_max_window_bits > ours.server_max_window_bits {
            return Err(bad("the server was asked for a smaller window"));
        }
        let agreed = Agreed {
            // What a client said of itself holds without an answer.
            client_no_context_takeover: ours.client_no_context_takeover
                || parsed.agreed.client_no_context_takeover,
            client_max_window_bits: ours.client_max_window_bits.min(parsed.agreed.client_max_window_bits),
            ..parsed.agreed
        };
        if found.replace(agreed).is_some() {
            return Err(bad("it was agreed to already"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(deflate: &Deflate, offers: &str) -> Option<String> {
        accept(deflate, [offers]).map(|(_, reply)| reply)
    }

    #[test]
    fn a_server_takes_the_first_offer_that_makes_sense() {
        let all = Deflate::default().takeover(true);
        assert_eq!(accepted(&all, "permessage-deflate").unwrap(), "permessage-deflate");
        for nonsense in [
            "permessage-deflate; server_max_window_bits=7",
            "permessage-deflate; server_max_window_bits=16",
            "permessage-deflate; server_max_window_bits=010",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; client_max_window_bits=abc",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; server_no_context_takeover; server_no_context_takeover",
            "permessage-deflate; surprise",
            "x-webkit-deflate-frame",
            "",
        ] {
            assert_eq!(accepted(&all, nonsense), None, "{nonsense}");
            let second = format!("{nonsense}, PerMessage-Deflate ;server_max_window_bits=\"10\"");
            assert_eq!(accepted(&all, &second).unwrap(), "permessage-deflate; server_max_window_bits=10");
        }
    }

    #[test]
    fn only_a_client_that_can_is_told_to_use_a_smaller_window() {
        let small = Deflate::default().takeover(true).window_bits(10);
        assert_eq!(
            accepted(&small, "permessage-deflate").unwrap(),
            "permessage-deflate; server_max_window_bits=10"
        );
        assert_eq!(
            accepted(&small, "permessage-deflate; client_max_window_bits").unwrap(),
            "permessage-deflate; server_max_window_bits=10; client_max_window_bits=10"
        );
        let (agreed, _) = accept(&small, ["permessage-deflate; client_max_window_bits=9"]).unwrap();
        assert_eq!((agreed.client_max_window_bits, agreed.server_max_window_bits), (9, 10));
    }

    #[test]
    fn what_a_server_accepts_a_client_finds_in_order() {
        for deflate in
            [Deflate::default(), Deflate::default().takeover(true), Deflate::default().window_bits(9)]
        {
            let (agreed, reply) = accept(&deflate, [&*offer(&deflate)]).unwrap();
            assert_eq!(check(Some(&deflate), [&*reply]), Ok(Some(agreed)));
        }
    }

    #[test]
    fn a_client_refuses_what_it_did_not_offer() {
        let deflate = Deflate::default();
        for reply in [
            "permessage-deflate",
            "permessage-bzip2",
            "permessage-deflate; server_no_context_takeover; client_max_window_bits",
            "permessage-deflate; server_no_context_takeover, permessage-deflate; server_no_context_takeover",
        ] {
            assert!(check(Some(&deflate), [reply]).is_err(), "{reply}");
        }
        assert!(check(None, ["permessage-deflate"]).is_err());
        assert_eq!(check(Some(&deflate), []), Ok(None));
        let narrow = Deflate::default().takeover(true).window_bits(10);
        assert!(check(Some(&narrow), ["permessage-deflate; server_max_window_bits=11"]).is_err());
    }
}

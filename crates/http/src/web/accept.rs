//! What a client would rather have: `Accept` and `Accept-Encoding`, by weights (RFC 9110, 12.4 and 12.5).

use crate::grammar::{elements, is_token, trim};
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// A weight in thousandths.
type Weight = u16;

/// A content coding, or none.
///
/// ```
/// use netwright_http::web::Coding;
///
/// assert_eq!(Coding::ALL.map(Coding::name), ["br", "zstd", "gzip"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Coding {
    /// Brotli (RFC 7932): the smallest for text, at some cost. Browsers take it only over TLS.
    Brotli,
    /// Zstandard (RFC 8878): as small as gzip at its best, and several times as fast.
    Zstd,
    /// What everybody understands.
    Gzip,
    /// As it is.
    Identity,
}

impl Coding {
    /// All that compress, those first that one would rather have of what was compressed beforehand.
    pub const ALL: [Self; 3] = [Self::Brotli, Self::Zstd, Self::Gzip];

    /// Its name in `Content-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
            Self::Identity => "identity",
        }
    }

    /// Its name as a header's value.
    pub fn to_header(self) -> HeaderValue {
        HeaderValue::from_static(self.name())
    }

    /// The coding of this name, whatever the case. `x-gzip` is `gzip`.
    pub fn from_name(name: &str) -> Option<Self> {
        let known = [Self::Brotli, Self::Zstd, Self::Gzip, Self::Identity];
        known
            .into_iter()
            .find(|coding| coding.name().eq_ignore_ascii_case(name))
            .or_else(|| name.eq_ignore_ascii_case("x-gzip").then_some(Self::Gzip))
    }

    /// The coding that the client would rather have, of those offered; among equals the one that was offered first. `None` if
    /// it accepts none of them, and nothing uncoded either.
    ///
    /// ```
    /// use http::HeaderMap;
    /// use netwright_http::web::Coding;
    ///
    /// let mut headers = HeaderMap::new();
    /// assert_eq!(Coding::choose(&headers, &Coding::ALL), Some(Coding::Identity));
    /// headers.insert("accept-encoding", "gzip, br;q=0.5, *;q=0".parse().unwrap());
    /// assert_eq!(Coding::choose(&headers, &Coding::ALL), Some(Coding::Gzip));
    /// assert_eq!(Coding::choose(&headers, &[Coding::Zstd]), None);
    /// ```
    pub fn choose(headers: &HeaderMap, offered: &[Self]) -> Option<Self> {
        // In the order of `index`, and the weight of all others.
        let (mut weights, mut others, mut asked) = ([None::<Weight>; 4], None, false);
        for (name, weight) in weighted(headers, header::ACCEPT_ENCODING) {
            asked = true;
            let Ok(name) = std::str::from_utf8(name) else { continue };
            let place = match Self::from_name(name) {
                Some(coding) => &mut weights[coding.index()],
                None if name == "*" => &mut others,
                None => continue,
            };
            *place = Some(place.unwrap_or(0).max(weight));
        }
        if !asked {
            // No header says that anything will do; an empty one, that nothing but the plain thing will. Plain it is.
            return Some(Self::Identity);
        }
        let weight = |coding: Self| weights[coding.index()].or(others).unwrap_or(0);
        let mut best = None;
        for &coding in offered.iter().filter(|coding| **coding != Self::Identity) {
            let weight = weight(coding);
            if weight > best.map_or(0, |(_, best)| best) {
                best = Some((coding, weight));
            }
        }
        // Uncoded is always acceptable, unless it is said not to be; whoever says how much, means it.
        match (best, weights[Self::Identity.index()], others) {
            (Some((_, weight)), Some(identity), _) if identity > weight => Some(Self::Identity),
            (Some((coding, _)), ..) => Some(coding),
            (None, Some(0), _) | (None, None, Some(0)) => None,
            (None, ..) => Some(Self::Identity),
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// The place of the type that the client would rather have, of those offered (`type/subtype`); among equals the one that was
/// offered first. `None` if it accepts none of them: 406, or the first one all the same.
///
/// ```
/// use http::HeaderMap;
/// use netwright_http::web::choose_type;
///
/// let mut headers = HeaderMap::new();
/// headers.insert("accept", "text/*;q=0.5, application/json, */*;q=0.1".parse().unwrap());
/// assert_eq!(choose_type(&headers, &["text/html", "application/json"]), Some(1));
/// assert_eq!(choose_type(&headers, &["image/png", "text/plain"]), Some(1));
/// ```
pub fn choose_type(headers: &HeaderMap, offered: &[&str]) -> Option<usize> {
    if !headers.contains_key(header::ACCEPT) {
        return (!offered.is_empty()).then_some(0);
    }
    let mut best: Option<(usize, Weight)> = None;
    for (place, offer) in offered.iter().enumerate() {
        let Some((main, _)) = offer.split_once('/') else { continue };
        // The range that says most about this type decides.
        let mut closest: Option<(u8, Weight)> = None;
        for (range, weight) in weighted(headers, header::ACCEPT) {
            let closeness = match range {
                b"*/*" => 1,
                _ if range.eq_ignore_ascii_case(offer.as_bytes()) => 3,
                _ => match range.strip_suffix(b"/*") {
                    Some(range) if range.eq_ignore_ascii_case(main.as_bytes()) => 2,
                    _ => continue,
                },
            };
            if closest.is_none_or(|known| (closeness, weight) > known) {
                closest = Some((closeness, weight));
            }
        }
        let weight = closest.map_or(0, |(_, weight)| weight);
        if weight > best.map_or(0, |(_, best)| best) {
            best = Some((place, weight));
        }
    }
    best.map(|(place, _)| place)
}

/// The elements of a list with their weights. What is not well-formed is left out.
fn weighted(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (&[u8], Weight)> {
    headers.get_all(name).into_iter().flat_map(|value| elements(value.as_bytes())).filter_map(|element| {
        let mut parts = element.split(|&byte| byte == b';').map(trim);
        let name = parts.next()?;
        let well_formed = name.split(|&byte| byte == b'/').all(is_token);
        let weight = parts.find_map(|part| match part {
            [b'q' | b'Q', b'=', weight @ ..] => Some(parse_weight(weight)),
            _ => None,
        });
        if well_formed { Some((name, weight.unwrap_or(Some(1000))?)) } else { None }
    })
}

/// `0`, `1`, or either with up to three digits behind a point.
fn parse_weight(text: &[u8]) -> Option<Weight> {
    let (whole, digits) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', digits @ ..] if digits.len() <= 3 => (whole, digits),
        _ => return None,
    };
    let mut weight: Weight = match whole {
        b'0' => 0,
        b'1' => 1000,
        _ => return None,
    };
    let mut unit = 100;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        weight += unit * Weight::from(digit - b'0');
        unit /= 10;
    }
    (weight <= 1000).then_some(weight)
}

/// Adds a name to `Vary`, unless it is there.
pub(crate) fn add_vary(headers: &mut HeaderMap, name: &'static str) {
    let there = headers.get_all(header::VARY).iter().any(|value| {
        elements(value.as_bytes()).any(|known| known == b"*" || known.eq_ignore_ascii_case(name.as_bytes()))
    });
    if !there {
        headers.append(header::VARY, HeaderValue::from_static(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn codings_are_chosen_by_weight_then_by_offer() {
        use Coding::{Brotli, Gzip, Identity, Zstd};
        for (value, chosen) in [
            ("gzip, deflate, br, zstd", Some(Brotli)),
            ("gzip;q=0.9, br;q=0.8", Some(Gzip)),
            ("gzip;q=0.001", Some(Gzip)),
            ("X-GZip", Some(Gzip)),
            ("*", Some(Brotli)),
            ("*;q=0.1, zstd;q=0.2", Some(Zstd)),
            ("br;q=0, *", Some(Zstd)),
            ("identity", Some(Identity)),
            ("identity;q=1, gzip;q=0.5", Some(Identity)),
            ("identity;q=0.5, gzip;q=0.5", Some(Gzip)),
            ("deflate, compress", Some(Identity)),
            ("gzip;q=0", Some(Identity)),
            ("", Some(Identity)),
            ("identity;q=0", None),
            ("*;q=0", None),
            ("*;q=0, identity;q=0.1", Some(Identity)),
            ("identity;q=0, gzip;q=0.1", Some(Gzip)),
            // What is not well-formed is not there.
            ("gzip;q=2, br;q=0.1234, zstd;q=a, identity", Some(Identity)),
            ("gz ip, br;q=", Some(Identity)),
            ("gzip ; q=0.5 , br ;Q=0.4", Some(Gzip)),
        ] {
            assert_eq!(Coding::choose(&headers("accept-encoding", value), &Coding::ALL), chosen, "{value:?}");
        }
    }

    #[test]
    fn types_are_chosen_by_the_closest_range() {
        let offered = ["text/html", "application/json", "image/png"];
        for (value, chosen) in [
            ("*/*", Some(0)),
            ("application/json", Some(1)),
            ("text/*;q=0.3, text/html;q=0, */*;q=0.1", Some(1)),
            ("image/*, */*;q=0.9", Some(2)),
            ("text/html;level=1;q=0.2, IMAGE/PNG;q=0.3", Some(2)),
            ("video/mp4", None),
            ("*/*;q=0", None),
            ("nonsense", None),
        ] {
            assert_eq!(choose_type(&headers("accept", value), &offered), chosen, "{value:?}");
        }
        assert_eq!(choose_type(&HeaderMap::new(), &offered), Some(0));
        assert_eq!(choose_type(&HeaderMap::new(), &[]), None);
    }
}

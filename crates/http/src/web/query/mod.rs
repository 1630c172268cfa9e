//! Names and values as queries and urlencoded forms have them: `a=1&b=two+words&c=%C3%A9`.
//!
//! ```text
//!   uri?a=1&b=2 ──▶ Query, borrowed where nothing is encoded
//!   a body, piece by piece ──▶ [ Urlencoded ] ──▶ (name, value), one at a time; holds at most one unfinished field
//! ```
//! Always true: as many fields as the limit says, none longer than the limit says, and all of them UTF-8.

use super::percent::{PercentError, form_decode};
use bytes::{Buf, BytesMut};
use std::{borrow::Cow, error::Error, fmt, str::FromStr};

/// What a form or a query may bring.
///
/// | limit | default | what it bounds |
/// | --- | --- | --- |
/// | `fields` | 128 | fields of a query or a form, parts of a multipart body |
/// | `head_bytes` | 1 KiB | what is kept of a name or of a part's headers before it is understood |
/// | `field_bytes` | 1 MiB | a field's value; it is usually kept in memory |
/// | `total_bytes` | 1 GiB | the whole body, files included |
///
/// ```
/// use netwright_http::web::{FormLimits, Query};
///
/// let limits = FormLimits { fields: 2, ..FormLimits::default() };
/// assert!(Query::with_limits(b"a=1&b=2", &limits).is_ok());
/// assert!(Query::with_limits(b"a=1&b=2&c=3", &limits).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormLimits {
    /// Fields, or parts.
    pub fields: usize,
    /// Bytes of a name, or of a part's headers, as they came.
    pub head_bytes: usize,
    /// Bytes of a field's value, as they came. Files are not fields.
    pub field_bytes: usize,
    /// Bytes of the whole.
    pub total_bytes: u64,
}

impl Default for FormLimits {
    fn default() -> Self {
        Self { fields: 128, head_bytes: 1024, field_bytes: 1 << 20, total_bytes: 1 << 30 }
    }
}

/// The fields of a query, or of a urlencoded form that is in memory.
///
/// ```
/// use netwright_http::web::Query;
///
/// let query = Query::parse("q=caf%C3%A9+noir&page=2&tag=a&tag=b&flag").unwrap();
/// assert_eq!(query.get("q"), Some("café noir"));
/// assert_eq!(query.value::<u32>("page"), Ok(Some(2)));
/// assert_eq!(query.all("tag").collect::<Vec<_>>(), ["a", "b"]);
/// assert_eq!(query.get("flag"), Some(""));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query<'a> {
    fields: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Query<'a> {
    /// Reads a query, without its question mark, with the default limits.
    pub fn parse(query: &'a str) -> Result<Self, FormError> {
        Self::with_limits(query.as_bytes(), &FormLimits::default())
    }

    /// The query of a request's target; no fields if it has none.
    pub fn of(uri: &'a http::Uri) -> Result<Self, FormError> {
        uri.query().map_or(Ok(Self::default()), Self::parse)
    }

    /// Reads a query or a whole form with limits of one's own.
    pub fn with_limits(text: &'a [u8], limits: &FormLimits) -> Result<Self, FormError> {
        if text.len() as u64 > limits.total_bytes {
            return Err(FormError::TooLong {
                what: "the form",
                limit: limits.total_bytes,
                got: text.len() as u64,
            });
        }
        let mut fields = Vec::new();
        for field in text.split(|&byte| byte == b'&').filter(|field| !field.is_empty()) {
            if fields.len() == limits.fields {
                return Err(FormError::TooManyFields { limit: limits.fields });
            }
            fields.push(split(field, limits)?);
        }
        Ok(Self { fields })
    }

    /// The first value of this name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// All values of this name, in their order.
    pub fn all<'q>(&'q self, name: &'q str) -> impl Iterator<Item = &'q str> {
        self.iter().filter(move |(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The first value of this name, read as what is wanted; `None` if there is none.
    pub fn value<V: FromStr>(&self, name: &'static str) -> Result<Option<V>, FormError>
    where
        V::Err: fmt::Display,
    {
        let Some(text) = self.get(name) else { return Ok(None) };
        text.parse().map(Some).map_err(|error: V::Err| FormError::Value {
            name,
            value: text.chars().take(64).collect(),
            what: error.to_string(),
        })
    }

    /// All fields in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (&**name, &**value))
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}

/// One field, decoded.
fn split<'a>(field: &'a [u8], limits: &FormLimits) -> Result<(Cow<'a, str>, Cow<'a, str>), FormError> {
    let at = memchr::memchr(b'=', field);
    let (name, value) = (&field[..at.unwrap_or(field.len())], at.map_or(&[][..], |at| &field[at + 1..]));
    check("a field's name", name.len(), limits.head_bytes)?;
    check("a field's value", value.len(), limits.field_bytes)?;
    let encoding = |part: &[u8]| {
        let name = String::from_utf8_lossy(&part[..part.len().min(64)]).into_owned();
        move |error| FormError::Encoding { name, error }
    };
    Ok((form_decode(name).map_err(encoding(name))?, form_decode(value).map_err(encoding(name))?))
}

fn check(what: &'static str, got: usize, limit: usize) -> Result<(), FormError> {
    if got > limit {
        return Err(FormError::TooLong { what, limit: limit as u64, got: got as u64 });
    }
    Ok(())
}

/// Reads a urlencoded body field by field, however it is cut.
///
/// A body is no connection: its end is told by [`finish`](Self::finish), and only then is the last field known to be whole.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_http::web::Urlencoded;
///
/// let mut form = Urlencoded::default();
/// let mut body = BytesMut::from("name=Ada&born=18");
/// assert_eq!(form.next(&mut body).unwrap(), Some(("name".into(), "Ada".into())));
/// assert_eq!(form.next(&mut body).unwrap(), None);
/// body.extend_from_slice(b"15");
/// assert_eq!(form.finish(&mut body).unwrap(), Some(("born".into(), "1815".into())));
/// ```
#[derive(Debug, Default)]
pub struct Urlencoded {
    limits: FormLimits,
    fields: usize,
    taken: u64,
    /// So many bytes at the front are known to have no end of a field.
    searched: usize,
    /// Where the first `=` of the unfinished field is, once it was found.
    equals: Option<usize>,
}

impl Urlencoded {
    /// Reads with limits of one's own.
    pub fn with_limits(limits: FormLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The next field that has an end. Its bytes are taken off the front; the rest has to stay.
    pub fn next(&mut self, bytes: &mut BytesMut) -> Result<Option<(String, String)>, FormError> {
        loop {
            let new = &bytes[self.searched.min(bytes.len())..];
            let end = memchr::memchr(b'&', new).map(|at| self.searched + at);
            let seen = end.unwrap_or(bytes.len());
            if self.equals.is_none() {
                let within = &bytes[self.searched.min(seen)..seen];
                self.equals = memchr::memchr(b'=', within).map(|at| self.searched + at);
            }
            let name_len = self.equals.unwrap_or(seen);
            check("a field's name", name_len, self.limits.head_bytes)?;
            check("a field's value", seen.saturating_sub(name_len + 1), self.limits.field_bytes)?;
            let total = self.taken + seen as u64;
            if total > self.limits.total_bytes {
                return Err(FormError::TooLong {
                    what: "the form",
                    limit: self.limits.total_bytes,
                    got: total,
                });
            }
            let Some(end) = end else {
                self.searched = seen;
                return Ok(None);
            };
            let field = self.field(&bytes[..end])?;
            bytes.advance(end + 1);
            self.taken += end as u64 + 1;
            (self.searched, self.equals) = (0, None);
            if field.is_some() {
                return Ok(field);
            }
        }
    }

    /// The body is over: the last field, if there is one.
    pub fn finish(&mut self, bytes: &mut BytesMut) -> Result<Option<(String, String)>, FormError> {
        if let Some(field) = self.next(bytes)? {
            return Ok(Some(field));
        }
        (self.searched, self.equals) = (0, None);
        let rest = bytes.split();
        self.field(&rest)
    }

    fn field(&mut self, field: &[u8]) -> Result<Option<(String, String)>, FormError> {
        if field.is_empty() {
            return Ok(None);
        }
        if self.fields == self.limits.fields {
            return Err(FormError::TooManyFields { limit: self.limits.fields });
        }
        self.fields += 1;
        let (name, value) = split(field, &self.limits)?;
        Ok(Some((name.into_owned(), value.into_owned())))
    }
}

/// Why a form or a query cannot be used.
///
/// ```
/// use netwright_http::web::Query;
///
/// let error = Query::parse("name=%zz").unwrap_err();
/// println!("{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormError {
    /// There are more fields than [`FormLimits::fields`].
    TooManyFields {
        /// The limit.
        limit: usize,
    },
    /// Something is longer than it may be.
    TooLong {
        /// What.
        what: &'static str,
        /// How many bytes it may have.
        limit: u64,
        /// How many it has, at least.
        got: u64,
    },
    /// A name or a value is not encoded as it should be.
    Encoding {
        /// The field's name as it came, or its first bytes.
        name: String,
        /// What is wrong.
        error: PercentError,
    },
    /// A value does not read as what is wanted.
    Value {
        /// The field's name.
        name: &'static str,
        /// The first characters of its value.
        value: String,
        /// What is wrong with it.
        what: String,
    },
}

impl FormError {
    /// What to answer: 413 for what is too large, 400 for the rest.
    pub fn status(&self) -> http::StatusCode {
        match self {
            Self::TooManyFields { .. } | Self::TooLong { .. } => http::StatusCode::PAYLOAD_TOO_LARGE,
            Self::Encoding { .. } | Self::Value { .. } => http::StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyFields { limit } => write!(f, "a form has more than {limit} fields"),
            Self::TooLong { what, limit, got } => {
                write!(f, "{what} has {got} bytes or more, the limit is {limit}")
            }
            Self::Encoding { name, error } => write!(f, "field {name:?}: {error}"),
            Self::Value { name, value, what } => write!(f, "field {name:?} is {value:?}: {what}"),
        }
    }
}

impl Error for FormError {}

#[cfg(test)]
mod tests {
    use super::*;
    use netwright_codec::{DecodeError, Decoder, decode};
    use netwright_testkit::verify_decoder;

    #[test]
    fn fields_are_split_at_the_first_equals_sign_and_decoded() {
        let query = Query::parse("&a=b=c&&d&=e&%26=%3D+%2B&").unwrap();
        let fields: Vec<_> = query.iter().collect();
        assert_eq!(fields, [("a", "b=c"), ("d", ""), ("", "e"), ("&", "= +")]);
        assert_eq!(Query::of(&"/path".parse().unwrap()).unwrap().len(), 0);
    }

    #[test]
    fn limits_and_bad_encoding_are_named() {
        let many = "a&".repeat(129);
        assert_eq!(Query::parse(&many), Err(FormError::TooManyFields { limit: 128 }));
        assert!(Query::parse(&"a&".repeat(128)).is_ok());
        let error = Query::parse(&"n".repeat(1025)).unwrap_err();
        assert_eq!(error.to_string(), "a field's name has 1025 bytes or more, the limit is 1024");
        assert_eq!(error.status(), 413);
        let error = Query::parse("a=%zz").unwrap_err();
        assert_eq!(error.to_string(), "field \"a\": the % at byte 0 is not followed by two hex digits");
        assert_eq!(Query::parse("n=x").unwrap().value::<u8>("n").unwrap_err().status(), 400);
    }

    /// Fields that end, for the verifier.
    struct Ended(Urlencoded);

    impl Decoder for Ended {
        type Item = (String, String);

        fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Self::Item>, DecodeError> {
            self.0.next(bytes).map_err(DecodeError::fatal)
        }
    }

    #[test]
    fn a_form_reads_the_same_however_it_is_cut() {
        let field = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        let limits = FormLimits { fields: 100, head_bytes: 8, field_bytes: 12, total_bytes: 4096 };
        verify_decoder!(decode(Ended(Urlencoded::with_limits(limits)));
            b"a=1&" => [field("a", "1")],
            b"&&b=%41+&" => [field("b", "A ")],
            b"c&=&" => [field("c", ""), field("", "")],
            b"x==%3d&" => [field("x", "==")],
        );
        verify_decoder!(decode(Ended(Urlencoded::with_limits(limits))); b"ok=1&123456789=1&" => [field("ok", "1"), Err("name has 9 bytes or more, the limit is 8")]);
    }

    #[test]
    fn a_long_field_is_refused_before_it_is_kept_and_searched_once() {
        let mut form = Urlencoded::default();
        let mut body = BytesMut::from("a=");
        for _ in 0..1024 {
            body.extend_from_slice(&[b'x'; 1024]);
            assert_eq!(form.next(&mut body), Ok(None));
            assert_eq!(form.searched, body.len());
        }
        body.extend_from_slice(b"x");
        assert!(matches!(
            form.next(&mut body),
            Err(FormError::TooLong { what: "a field's value", limit: 1048576, got: 1048577 })
        ));
        let mut names = Urlencoded::default();
        assert!(names.next(&mut BytesMut::from(&[b'n'; 1025][..])).is_err());
        let limits = FormLimits { total_bytes: 6, ..FormLimits::default() };
        let mut body = BytesMut::from("a=1&b=2&");
        let mut form = Urlencoded::with_limits(limits);
        assert!(form.next(&mut body).unwrap().is_some());
        assert!(matches!(
            form.next(&mut body),
            Err(FormError::TooLong { what: "the form", limit: 6, got: 7 })
        ));
    }
}

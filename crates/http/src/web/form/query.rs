//! All fields at once: of a target, or of a form that is in memory.

use super::{FormError, FormLimits, split};
use std::{borrow::Cow, fmt, str::FromStr};

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

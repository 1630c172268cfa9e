//! Names and values as queries and urlencoded forms have them: `a=1&b=two+words&c=%C3%A9`.
//!
//! ```text
//!   uri?a=1&b=2 ──▶ Query, borrowed where nothing is encoded
//!   a body, piece by piece ──▶ [ Urlencoded ] ──▶ (name, value), one at a time; holds at most one unfinished field
//! ```
//! Always true: as many fields as the limit says, none longer than the limit says, and all of them UTF-8.

mod query;
#[cfg(test)]
mod tests;
mod urlencoded;

pub use query::Query;
pub use urlencoded::Urlencoded;

use super::percent::{PercentError, form_decode};
use std::{borrow::Cow, error::Error, fmt};

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

//! What a pattern has named in a path.

use crate::web::percent::{PercentError, percent_decode};
use std::{borrow::Cow, error::Error, fmt, str::FromStr};

/// The named parts of a path.
///
/// ```
/// use netwright_http::web::Router;
///
/// let router = Router::new().get("/orders/{id}/{name}", ())?;
/// let found = router.find(&http::Method::GET, "/orders/7/caf%C3%A9").unwrap();
/// assert_eq!(found.params.parse::<u32>("id"), Ok(7));
/// assert_eq!(found.params.text("name").unwrap(), "café");
/// assert_eq!(found.params.raw("name"), Some("caf%C3%A9"));
/// # Ok::<(), netwright_http::web::RouteError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Params<'r, 'p> {
    pub(super) inner: matchit::Params<'r, 'p>,
}

impl<'p> Params<'_, 'p> {
    /// A parameter as it came, percent-encoded.
    pub fn raw(&self, name: &str) -> Option<&'p str> {
        self.inner.get(name)
    }

    /// A parameter, decoded.
    pub fn text(&self, name: &'static str) -> Result<Cow<'p, str>, ParamError> {
        let raw = self.raw(name).ok_or(ParamError::Missing { name })?;
        percent_decode(raw.as_bytes()).map_err(|error| ParamError::Encoding { name, error })
    }

    /// A parameter, decoded and read as what is wanted.
    pub fn parse<V: FromStr>(&self, name: &'static str) -> Result<V, ParamError>
    where
        V::Err: fmt::Display,
    {
        let text = self.text(name)?;
        text.parse().map_err(|error: V::Err| ParamError::Value {
            name,
            value: text.chars().take(VALUE_SHOWN).collect(),
            what: error.to_string(),
        })
    }

    /// All of them as they came, in the order of the path.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'p str)> {
        self.inner.iter()
    }
}

/// How many characters of a peer's value an error repeats.
const VALUE_SHOWN: usize = 64;

/// Why a parameter has no value of the wanted kind.
///
/// ```
/// use netwright_http::web::{ParamError, Router};
///
/// let router = Router::new().get("/orders/{id}", ())?;
/// let found = router.find(&http::Method::GET, "/orders/seven").unwrap();
/// let error = found.params.parse::<u32>("id").unwrap_err();
/// assert!(matches!(error, ParamError::Value { name: "id", .. }), "{error}");
/// # Ok::<(), netwright_http::web::RouteError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParamError {
    /// The route names no such parameter. The route has to be changed, not the request.
    Missing {
        /// What was asked for.
        name: &'static str,
    },
    /// It is not encoded as it should be.
    Encoding {
        /// Which.
        name: &'static str,
        /// What is wrong.
        error: PercentError,
    },
    /// It does not read as what is wanted.
    Value {
        /// Which.
        name: &'static str,
        /// Its first characters.
        value: String,
        /// What is wrong with it.
        what: String,
    },
}

impl fmt::Display for ParamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name } => write!(f, "the route has no parameter {name:?}"),
            Self::Encoding { name, error } => write!(f, "parameter {name:?}: {error}"),
            Self::Value { name, value, what } => write!(f, "parameter {name:?} is {value:?}: {what}"),
        }
    }
}

impl Error for ParamError {}

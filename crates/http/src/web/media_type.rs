//! Content types: `type/subtype; name=value; name="quoted value"`.

use crate::grammar::{is_token, is_token_byte};
use http::{HeaderMap, header};
use std::{borrow::Cow, error::Error, fmt};

/// Parameters that one value may have. No known type has more than a few.
const PARAMETERS_MAX: usize = 16;

/// The value of a `Content-Type` header, taken apart and known to be well-formed.
///
/// ```
/// use netwright_http::web::MediaType;
///
/// let html = MediaType::parse(r#"Text/HTML; charset="utf-8""#).unwrap();
/// assert!(html.is("text/html"));
/// assert_eq!(html.parameter("Charset").as_deref(), Some("utf-8"));
/// assert!(MediaType::parse("text").is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaType<'a> {
    essence: &'a str,
    parameters: &'a str,
}

impl<'a> MediaType<'a> {
    /// Takes a value apart.
    pub fn parse(value: &'a str) -> Result<Self, MediaTypeError> {
        let (essence, parameters) = value.split_at(value.find(';').unwrap_or(value.len()));
        let essence = essence.trim_matches([' ', '\t']);
        let well_formed = essence
            .split_once('/')
            .is_some_and(|(main, sub)| is_token(main.as_bytes()) && is_token(sub.as_bytes()));
        if !well_formed {
            return Err(MediaTypeError::new(value, "it is not of the form type/subtype"));
        }
        let mut count = 0;
        for parameter in Parameters::new(parameters) {
            parameter.map_err(|what| MediaTypeError::new(value, what))?;
            count += 1;
            if count > PARAMETERS_MAX {
                return Err(MediaTypeError::new(value, "it has more than 16 parameters"));
            }
        }
        Ok(Self { essence, parameters })
    }

    /// What the headers say; `None` if they say nothing.
    ///
    /// # Errors
    /// There are several, or one that is no text, or not well-formed.
    pub fn of(headers: &'a HeaderMap) -> Result<Option<Self>, MediaTypeError> {
        let mut values = headers.get_all(header::CONTENT_TYPE).iter();
        let Some(value) = values.next() else { return Ok(None) };
        let text = value.to_str().map_err(|_| MediaTypeError::new("", "it has bytes that are not ASCII"))?;
        if values.next().is_some() {
            return Err(MediaTypeError::new(text, "there is more than one"));
        }
        Self::parse(text).map(Some)
    }

    /// Type and subtype, as they were written.
    pub fn essence(&self) -> &'a str {
        self.essence
    }

    /// Whether this is type and subtype, whatever the case.
    pub fn is(&self, essence: &str) -> bool {
        self.essence.eq_ignore_ascii_case(essence)
    }

    /// A parameter's value without its quotes; the first one of this name.
    pub fn parameter(&self, name: &str) -> Option<Cow<'a, str>> {
        Parameters::new(self.parameters)
            .map_while(Result::ok)
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Whether a body of this type usually gets smaller by compression: text, and what is written as text.
    pub fn is_compressible(&self) -> bool {
        let essence = self.essence.to_ascii_lowercase();
        essence.starts_with("text/")
            || essence.ends_with("+json")
            || essence.ends_with("+xml")
            || COMPRESSIBLE.contains(&essence.as_str())
    }
}

/// What is text, or as loose, without saying so.
const COMPRESSIBLE: &[&str] = &[
    "application/json",
    "application/javascript",
    "application/x-javascript",
    "application/xml",
    "application/x-ndjson",
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "image/bmp",
    "image/x-icon",
    "image/vnd.microsoft.icon",
];

/// `; name=value; name="value"`, strict. Shared with `Content-Disposition`.
pub(crate) struct Parameters<'a> {
    rest: &'a str,
    /// In quotes only `\"` and `\\` count as escapes, as browsers have it; a backslash before anything else is one.
    loose_escapes: bool,
}

impl<'a> Parameters<'a> {
    pub(crate) fn new(rest: &'a str) -> Self {
        Self { rest, loose_escapes: false }
    }

    pub(crate) fn of_form(rest: &'a str) -> Self {
        Self { rest, loose_escapes: true }
    }

    fn parse(&mut self) -> Result<Option<(&'a str, Cow<'a, str>)>, &'static str> {
        loop {
            let rest = self.rest.trim_start_matches([' ', '\t']);
            if rest.is_empty() {
                self.rest = rest;
                return Ok(None);
            }
            let Some(rest) = rest.strip_prefix(';') else {
                return Err("a parameter has something behind its value");
            };
            self.rest = rest.trim_start_matches([' ', '\t']);
            if !self.rest.is_empty() && !self.rest.starts_with(';') {
                break; // a semicolon without a parameter is allowed
            }
        }
        let name_len = self.rest.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(name_len);
        let Some(rest) = rest.strip_prefix('=') else {
            return Err("a parameter is not of the form name=value");
        };
        if name.is_empty() {
            return Err("a parameter has no name");
        }
        if let Some(quoted) = rest.strip_prefix('"') {
            let (value, rest) = unquote(quoted, self.loose_escapes)?;
            self.rest = rest;
            return Ok(Some((name, value)));
        }
        let value_len = rest.bytes().position(|byte| !is_token_byte(byte)).unwrap_or(rest.len());
        let (value, rest) = rest.split_at(value_len);
        if value.is_empty() {
            return Err("a parameter has no value");
        }
        self.rest = rest;
        Ok(Some((name, Cow::Borrowed(value))))
    }
}

impl<'a> Iterator for Parameters<'a> {
    type Item = Result<(&'a str, Cow<'a, str>), &'static str>;

    fn next(&mut self) -> Option<Self::Item> {
        let parsed = self.parse();
        if parsed.is_err() {
            self.rest = ""; // nothing sensible can follow
        }
        parsed.transpose()
    }
}

/// A quoted string behind its opening quote: what it says, and what follows it.
fn unquote(text: &str, loose: bool) -> Result<(Cow<'_, str>, &str), &'static str> {
    let mut owned: Option<String> = None;
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => {
                let value = owned.map_or(Cow::Borrowed(&text[..at]), Cow::Owned);
                return Ok((value, &text[at + 1..]));
            }
            '\\' if !loose || text[at + 1..].starts_with(['"', '\\']) => {
                let Some((_, escaped)) = characters.next() else { break };
                owned.get_or_insert_with(|| text[..at].to_owned()).push(escaped);
            }
            other if other.is_ascii_control() && other != '\t' => {
                return Err("a quoted value has a control character");
            }
            other => {
                if let Some(owned) = &mut owned {
                    owned.push(other);
                }
            }
        }
    }
    Err("a quoted value has no end")
}

/// Why a content type cannot be used.
///
/// ```
/// use netwright_http::web::MediaType;
///
/// let error = MediaType::parse("text").unwrap_err();
/// println!("{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaTypeError {
    /// Its first characters.
    pub value: String,
    /// What is wrong with it.
    pub what: &'static str,
}

impl MediaTypeError {
    fn new(value: &str, what: &'static str) -> Self {
        Self { value: value.chars().take(64).collect(), what }
    }
}

impl fmt::Display for MediaTypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "content type {:?}: {}", self.value, self.what)
    }
}

impl Error for MediaTypeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_formed_types_are_taken_apart() {
        let form =
            MediaType::parse(" multipart/form-data ; boundary=\"a \\\"b\\\" c\";;charset=utf-8;").unwrap();
        assert!(form.is("Multipart/Form-Data"));
        assert_eq!(form.parameter("BOUNDARY").unwrap(), "a \"b\" c");
        assert_eq!(form.parameter("charset").unwrap(), "utf-8");
        assert_eq!(form.parameter("other"), None);
    }

    #[test]
    fn everything_else_is_refused() {
        for value in [
            "",
            "text",
            "text/",
            "/plain",
            "te xt/plain",
            "text/plain; charset",
            "text/plain; =x",
            "text/plain; a=",
            "text/plain; a=\"b",
            "text/plain; a=\"b\" c",
            "text/plain; a=b c",
            "text/plain; a=\"\r\n\"",
            "text/plain, a/b",
            "text/plain; a=\"\\",
            "text/plàin",
        ] {
            assert!(MediaType::parse(value).is_err(), "{value:?}");
        }
        assert!(MediaType::parse(&format!("a/b{}", ";a=b".repeat(17))).is_err());
        let mut headers = HeaderMap::new();
        assert_eq!(MediaType::of(&headers), Ok(None));
        headers.append("content-type", "a/b".parse().unwrap());
        headers.append("content-type", "a/c".parse().unwrap());
        assert!(MediaType::of(&headers).is_err());
    }

    #[test]
    fn text_is_worth_compressing_and_pictures_are_not() {
        for (value, worth) in [
            ("text/html; a=b", true),
            ("application/vnd.api+json", true),
            ("image/svg+xml", true),
            ("image/png", false),
            ("application/octet-stream", false),
            ("video/mp4", false),
        ] {
            assert_eq!(MediaType::parse(value).unwrap().is_compressible(), worth, "{value}");
        }
    }
}

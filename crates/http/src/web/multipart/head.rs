//! The head of one part: who it is for, and what it says about its data.

use super::MultipartError;
use crate::{
    grammar::{is_token, trim},
    web::{media_type::Parameters, percent::percent_decode},
};
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Headers that one part may have. Browsers write two.
const HEADERS_MAX: usize = 16;

/// What a part says about itself.
///
/// ```
/// use netwright_http::web::Multipart;
///
/// let body = "--x\r\nContent-Disposition: form-data; name=\"photo\"; filename=\"../me.png\"\r\n\r\n…\r\n--x--";
/// let parts = Multipart::new("x")?.read_all(body.into())?;
/// let head = &parts[0].head;
/// assert_eq!((head.name(), head.file_name()), ("photo", Some("../me.png")));
/// assert_eq!(head.safe_file_name(), Some("me.png")); // no way leads out
/// # Ok::<(), netwright_http::web::MultipartError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartHead {
    name: String,
    file_name: Option<String>,
    headers: HeaderMap,
}

impl PartHead {
    /// The field's name, as the peer wrote it. Browsers write `%22` for a quote in it, which is not told from a real `%22`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file's name, as the peer wrote it: never a path to write to. Without one, the part is a plain field.
    pub fn file_name(&self) -> Option<&str> {
        self.file_name.as_deref()
    }

    /// The last component of the file's name, if it can be one on any system: no separators, no control characters, no
    /// dot at its beginning, no blank or dot at its end, at most 255 bytes.
    ///
    /// Two files may have the same name, and a file of that name may exist already.
    pub fn safe_file_name(&self) -> Option<&str> {
        let last = self.file_name.as_deref()?.rsplit(['/', '\\']).next()?;
        let forbidden = |character: char| character.is_control() || "<>:\"|?*".contains(character);
        let safe = !last.is_empty()
            && last.len() <= 255
            && !last.starts_with(['.', ' '])
            && !last.ends_with(['.', ' '])
            && !last.contains(forbidden);
        safe.then_some(last)
    }

    /// The type of its data; `None` if the part does not say. That it says so proves nothing.
    pub fn content_type(&self) -> Option<&str> {
        self.headers.get(header::CONTENT_TYPE)?.to_str().ok()
    }

    /// All its headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Reads the lines of a head, without the empty one at its end.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, MultipartError> {
        let mut headers = HeaderMap::with_capacity(2);
        let mut disposition = None;
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = memchr::memmem::find(rest, b"\r\n");
            let line = &rest[..end.unwrap_or(rest.len())];
            rest = end.map_or(&[][..], |end| &rest[end + 2..]);
            if headers.len() == HEADERS_MAX {
                return Err(error(format!("more than {HEADERS_MAX} headers")));
            }
            let (name, value) = split(line)?;
            if name == header::CONTENT_DISPOSITION {
                // Names are UTF-8 there, which a header's value cannot show as text.
                let text =
                    std::str::from_utf8(value).map_err(|_| error("Content-Disposition is not UTF-8"))?;
                if disposition.replace(text).is_some() {
                    return Err(error("Content-Disposition comes twice"));
                }
            }
            let value =
                HeaderValue::from_bytes(value).map_err(|_| error("a value has a control character"))?;
            headers.append(name, value);
        }
        let disposition = disposition.ok_or_else(|| error("there is no Content-Disposition"))?;
        let (name, file_name) = names(disposition)?;
        Ok(Self { name, file_name, headers })
    }
}

fn split(line: &[u8]) -> Result<(HeaderName, &[u8]), MultipartError> {
    let colon = memchr::memchr(b':', line).ok_or_else(|| error("a line has no colon"))?;
    let name = &line[..colon];
    if !is_token(name) {
        return Err(error("a header's name is no token"));
    }
    let name = HeaderName::from_bytes(name).map_err(|_| error("a header's name is no token"))?;
    Ok((name, trim(&line[colon + 1..])))
}

/// The names in `form-data; name="…"; filename="…"`.
fn names(disposition: &str) -> Result<(String, Option<String>), MultipartError> {
    let (kind, parameters) = disposition.split_at(disposition.find(';').unwrap_or(disposition.len()));
    if !kind.trim_matches([' ', '\t']).eq_ignore_ascii_case("form-data") {
        return Err(error("Content-Disposition is not form-data"));
    }
    let (mut name, mut file_name, mut extended) = (None, None, None);
    for parameter in Parameters::of_form(parameters) {
        let (key, value) = parameter.map_err(|what| error(format!("Content-Disposition: {what}")))?;
        let place = match key.to_ascii_lowercase().as_str() {
            "name" => &mut name,
            "filename" => &mut file_name,
            "filename*" => &mut extended,
            _ => continue,
        };
        if place.replace(value.into_owned()).is_some() {
            return Err(error(format!("Content-Disposition has {key} twice")));
        }
    }
    let name = name.ok_or_else(|| error("Content-Disposition has no name"))?;
    // RFC 7578 forbids `filename*`; clients that send it anyway send both, and then the plain one counts.
    let file_name = match (file_name, extended) {
        (None, Some(extended)) => Some(extended_value(&extended)?),
        (plain, _) => plain,
    };
    Ok((name, file_name))
}

/// `UTF-8''percent-encoded` (RFC 8187).
fn extended_value(value: &str) -> Result<String, MultipartError> {
    let mut parts = value.splitn(3, '\'');
    match (parts.next(), parts.next(), parts.next()) {
        (Some(charset), Some(_language), Some(text)) if charset.eq_ignore_ascii_case("utf-8") => {
            let text = percent_decode(text.as_bytes()).map_err(|what| error(format!("filename*: {what}")))?;
            Ok(text.into_owned())
        }
        _ => Err(error("filename* is not in UTF-8")),
    }
}

fn error(what: impl Into<String>) -> MultipartError {
    MultipartError::Head(what.into())
}

//! Where a message ends: what its headers say together, by RFC 9112 section 6, without its allowances.
//!
//! | headers | request | reply |
//! | --- | --- | --- |
//! | `Transfer-Encoding: chunked` | chunks | chunks |
//! | one `Content-Length` | so many bytes | so many bytes |
//! | neither | no body | until the end of the connection |
//! | both, two lengths, another coding, `chunked` not last or in HTTP/1.0 | refused | refused |

use crate::{
    authority::is_host_field,
    error::{Framing, Grammar, HttpError},
    grammar::{all_elements, number},
};
use http::{HeaderName, Version, header};

/// What was said in headers that the codec has to know, noted while they pass.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) length: Option<u64>,
    codings: bool,
    chunked: bool,
    unknown_coding: Option<String>,
    pub(crate) hosts: u8,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    connection_upgrade: bool,
    upgrade: bool,
    pub(crate) expects: bool,
    unknown_expectation: Option<String>,
}

/// How long a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    Known(u64),
    Chunked,
    Unknown,
}

impl Facts {
    /// Notes a header. Most concern nobody here: their length and first letter say so.
    #[inline]
    pub(crate) fn note(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), HttpError> {
        let text = name.as_str().as_bytes();
        match (text.len(), text[0]) {
            (4, b'h') if name == header::HOST => {
                self.hosts = self.hosts.saturating_add(1);
                if !is_host_field(value) {
                    return Err(Grammar::Host.into());
                }
                Ok(())
            }
            (14, b'c') | (17, b't') | (10, b'c') | (7, b'u') | (6, b'e') => self.note_rare(name, value),
            _ => Ok(()),
        }
    }

    fn note_rare(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), HttpError> {
        if name == header::CONTENT_LENGTH {
            let length = number(value).ok_or(Framing::BadLength)?;
            if self.length.replace(length).is_some() {
                return Err(Framing::TwoLengths.into());
            }
        } else if name == header::TRANSFER_ENCODING {
            self.codings = true;
            for coding in all_elements(value) {
                if self.chunked {
                    return Err(Framing::ChunkedNotLast.into());
                }
                if coding.eq_ignore_ascii_case(b"chunked") {
                    self.chunked = true;
                } else {
                    let text = || String::from_utf8_lossy(&coding[..coding.len().min(32)]).into_owned();
                    self.unknown_coding.get_or_insert_with(text);
                }
            }
        } else if name == header::CONNECTION {
            for option in all_elements(value) {
                self.close |= option.eq_ignore_ascii_case(b"close");
                self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                self.connection_upgrade |= option.eq_ignore_ascii_case(b"upgrade");
            }
        } else if name == header::UPGRADE {
            self.upgrade |= !value.is_empty();
        } else if name == header::EXPECT {
            if value.eq_ignore_ascii_case(b"100-continue") {
                self.expects = true;
            } else {
                let text = String::from_utf8_lossy(&value[..value.len().min(32)]).into_owned();
                self.unknown_expectation = Some(text);
            }
        }
        Ok(())
    }

    /// The length, if everything that was said about it fits together.
    #[inline]
    pub(crate) fn framing(&mut self, version: Version) -> Result<Length, HttpError> {
        if !self.codings {
            return Ok(self.length.map_or(Length::Unknown, Length::Known));
        }
        if version != Version::HTTP_11 {
            return Err(Framing::CodingBefore1_1.into());
        }
        if self.length.is_some() {
            return Err(Framing::LengthAndCoding.into());
        }
        match self.unknown_coding.take() {
            Some(coding) => Err(HttpError::Coding(coding)),
            None => Ok(Length::Chunked),
        }
    }

    pub(crate) fn wants_upgrade(&self) -> bool {
        self.upgrade && self.connection_upgrade
    }

    pub(crate) fn expectation(&mut self) -> Result<(), HttpError> {
        self.unknown_expectation.take().map_or(Ok(()), |what| Err(HttpError::Expectation(what)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(version: Version, fields: &[(HeaderName, &str)]) -> Result<Length, HttpError> {
        let mut facts = Facts::default();
        for (name, value) in fields {
            facts.note(name, value.as_bytes())?;
        }
        facts.framing(version)
    }

    #[test]
    fn lengths_and_codings_that_contradict_each_other_are_refused() {
        use header::{CONTENT_LENGTH as CL, TRANSFER_ENCODING as TE};
        let v11 = Version::HTTP_11;
        assert_eq!(framing(v11, &[(CL, "5")]), Ok(Length::Known(5)));
        assert_eq!(framing(v11, &[(CL, "005")]), Ok(Length::Known(5)));
        assert_eq!(framing(v11, &[]), Ok(Length::Unknown));
        assert_eq!(framing(v11, &[(TE, "Chunked")]), Ok(Length::Chunked));
        for bad in ["", "-1", "+5", "5 5", "5,5", "0x5", "5.", "18446744073709551616", "٥", "5;a"] {
            assert_eq!(framing(v11, &[(CL, bad)]), Err(Framing::BadLength.into()), "{bad:?}");
        }
        assert_eq!(framing(v11, &[(CL, "5"), (CL, "6")]), Err(Framing::TwoLengths.into()));
        assert_eq!(framing(v11, &[(CL, "5"), (CL, "5")]), Err(Framing::TwoLengths.into()));
        assert_eq!(framing(v11, &[(CL, "5"), (TE, "chunked")]), Err(Framing::LengthAndCoding.into()));
        assert_eq!(framing(v11, &[(TE, "chunked"), (CL, "5")]), Err(Framing::LengthAndCoding.into()));
        assert_eq!(framing(v11, &[(TE, "chunked, gzip")]), Err(Framing::ChunkedNotLast.into()));
        assert_eq!(framing(v11, &[(TE, "chunked, chunked")]), Err(Framing::ChunkedNotLast.into()));
        assert_eq!(framing(v11, &[(TE, "chunked"), (TE, "chunked")]), Err(Framing::ChunkedNotLast.into()));
        assert_eq!(framing(v11, &[(TE, "chunked,")]), Err(Framing::ChunkedNotLast.into()));
        assert_eq!(framing(v11, &[(TE, "gzip, chunked")]), Err(HttpError::Coding("gzip".into())));
        assert_eq!(framing(v11, &[(TE, "identity")]), Err(HttpError::Coding("identity".into())));
        assert_eq!(framing(v11, &[(TE, "xchunked")]), Err(HttpError::Coding("xchunked".into())));
        assert_eq!(framing(v11, &[(TE, "chunked;q=1")]), Err(HttpError::Coding("chunked;q=1".into())));
        assert_eq!(framing(v11, &[(TE, "")]), Err(HttpError::Coding(String::new())));
        assert_eq!(framing(Version::HTTP_10, &[(TE, "chunked")]), Err(Framing::CodingBefore1_1.into()));
    }
}

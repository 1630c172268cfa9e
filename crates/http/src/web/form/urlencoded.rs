//! A form field by field, as its body comes.

use super::{FormError, FormLimits, check, split};
use bytes::{Buf, BytesMut};

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
    pub(super) searched: usize,
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

//! `multipart/form-data` (RFC 7578): fields and files, read as they come.
//!
//! ```text
//!   --boundary CRLF                 ── Start
//!   Content-Disposition: … CRLF CRLF── Head     at most `head_bytes` are kept here      ──▶ Event::Part(head)
//!   data … data                     ── Data     at most a delimiter's length is kept    ──▶ Event::Data(piece), …
//!   CRLF --boundary CRLF            ── Next                                             ──▶ Event::End
//!   …
//!   CRLF --boundary-- [CRLF]        ── Done     nothing may follow
//! ```
//! Always true:
//! 1. Each `Part` is followed by any number of `Data`, none of them empty, and one `End`.
//! 2. How the body is cut does not show, except in where `Data` is cut.
//! 3. Bytes that were looked at and are no delimiter are given out at once: nothing is searched twice, but for what may be
//!    the beginning of a delimiter, and a head below its limit.
//! 4. No preamble, no epilogue, no blanks behind a boundary: browsers write none, and what one parser skips another reads.
//!
//! Not here: where data goes. A file's name is the peer's choice; see [`PartHead::safe_file_name`].

mod error;
mod head;
mod reader;
#[cfg(test)]
mod tests;

pub use error::MultipartError;
pub use head::PartHead;
pub use reader::{FormBodyError, MultipartReader};

use super::{FormLimits, MediaType};
use bytes::{Buf, Bytes, BytesMut};
use memchr::memmem::Finder;

/// What RFC 2046 allows.
const BOUNDARY_BYTES_MAX: usize = 70;

/// What a multipart body is made of.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_http::web::{Multipart, MultipartEvent};
///
/// let mut form = Multipart::new("x")?;
/// let mut body = BytesMut::from("--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--");
/// while let Some(event) = form.next(&mut body)? {
///     match event {
///         MultipartEvent::Part(head) => assert_eq!(head.name(), "a"),
///         MultipartEvent::Data(data) => assert_eq!(data, "1"),
///         MultipartEvent::End => {}
///     }
/// }
/// # Ok::<(), netwright_http::web::MultipartError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultipartEvent {
    /// A part begins.
    Part(Box<PartHead>),
    /// A piece of its data.
    Data(Bytes),
    /// The part is over.
    End,
}

/// Reads a multipart body, however it is cut.
///
/// ```
/// use bytes::BytesMut;
/// use netwright_http::web::{Multipart, MultipartEvent};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut form = Multipart::of("multipart/form-data; boundary=xyz")?;
/// let mut body = BytesMut::from(
///     "--xyz\r\nContent-Disposition: form-data; name=\"greeting\"\r\n\r\nhello\r\n--xyz--\r\n",
/// );
/// let Some(MultipartEvent::Part(head)) = form.next(&mut body)? else { panic!("a part begins") };
/// assert_eq!((head.name(), head.file_name()), ("greeting", None));
/// assert_eq!(form.next(&mut body)?, Some(MultipartEvent::Data("hello".into())));
/// assert_eq!(form.next(&mut body)?, Some(MultipartEvent::End));
/// assert_eq!(form.next(&mut body)?, None);
/// form.finish(&body)?; // the body is over, and so is the form
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Multipart {
    /// CRLF, two hyphens and the boundary.
    delimiter: Finder<'static>,
    limits: FormLimits,
    at: At,
    parts: usize,
    total: u64,
    /// Bytes of the present part so far, and whether it is a file.
    part_bytes: u64,
    is_file: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first delimiter, which has no line before it.
    Start,
    /// Behind a delimiter: another part, or the end.
    Next,
    Head,
    /// The first bytes of a part's data.
    FirstData,
    Data,
    /// Behind the last delimiter.
    Done,
    Failed,
}

impl Multipart {
    /// For a body of this content type, with the default limits.
    pub fn of(content_type: &str) -> Result<Self, MultipartError> {
        let media =
            MediaType::parse(content_type).map_err(|error| MultipartError::Type(error.to_string()))?;
        if !media.is("multipart/form-data") {
            return Err(MultipartError::Type(format!("{:?} is not multipart/form-data", media.essence())));
        }
        match media.parameter("boundary") {
            Some(boundary) => Self::new(&boundary),
            None => Err(MultipartError::Type("there is no boundary".to_owned())),
        }
    }

    /// For a body with this boundary.
    pub fn new(boundary: &str) -> Result<Self, MultipartError> {
        let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
        if boundary.is_empty() || boundary.len() > BOUNDARY_BYTES_MAX {
            let what =
                format!("a boundary has {} bytes, 1 to {BOUNDARY_BYTES_MAX} are allowed", boundary.len());
            return Err(MultipartError::Type(what));
        }
        if !boundary.bytes().all(legal) || boundary.ends_with(' ') {
            return Err(MultipartError::Type("a boundary has characters that are not allowed".to_owned()));
        }
        let delimiter = Finder::new(&format!("\r\n--{boundary}")).into_owned();
        let limits = FormLimits::default();
        Ok(Self { delimiter, limits, at: At::Start, parts: 0, total: 0, part_bytes: 0, is_file: false })
    }

    /// Sets what is put up with.
    pub fn limits(mut self, limits: FormLimits) -> Self {
        self.limits = limits;
        self
    }

    /// The next event. Takes its bytes off the front; the rest has to stay. `None` asks for more.
    pub fn next(&mut self, bytes: &mut BytesMut) -> Result<Option<MultipartEvent>, MultipartError> {
        let event = self.step(bytes);
        if event.is_err() {
            self.at = At::Failed;
        }
        event
    }

    /// Whether the last delimiter has come.
    pub fn is_done(&self) -> bool {
        self.at == At::Done
    }

    /// The body is over, and this is what is left of it: an error if the form is not over too.
    pub fn finish(&self, rest: &[u8]) -> Result<(), MultipartError> {
        match self.at {
            At::Done if rest.is_empty() || rest == b"\r\n" => Ok(()),
            At::Failed => Err(MultipartError::AfterError),
            At::Done => Err(MultipartError::Grammar("something follows the last delimiter")),
            _ => Err(MultipartError::Truncated { parts: self.parts, bytes: self.total }),
        }
    }

    fn step(&mut self, bytes: &mut BytesMut) -> Result<Option<MultipartEvent>, MultipartError> {
        loop {
            match self.at {
                At::Start => {
                    // The first delimiter has no line before it, or an empty one.
                    let delimiter = self.delimiter.needle();
                    let wanted = if bytes.first() == Some(&b'\r') { delimiter } else { &delimiter[2..] };
                    if !begins(bytes, wanted, "the body does not begin with its boundary")? {
                        return Ok(None);
                    }
                    self.take(bytes, wanted.len())?;
                    self.at = At::Next;
                }
                At::Next => {
                    let [first, second, ..] = **bytes else { return Ok(None) };
                    match [first, second] {
                        [b'\r', b'\n'] => {
                            if self.parts == self.limits.fields {
                                return Err(MultipartError::TooManyParts { limit: self.limits.fields });
                            }
                            self.at = At::Head;
                        }
                        [b'-', b'-'] => self.at = At::Done,
                        _ => return Err(MultipartError::Grammar("something follows a boundary on its line")),
                    }
                    self.take(bytes, 2)?;
                }
                At::Head => return self.head(bytes),
                At::FirstData => {
                    let dashed = &self.delimiter.needle()[2..];
                    if bytes.len() < dashed.len() && dashed.starts_with(bytes) {
                        return Ok(None);
                    }
                    if bytes.starts_with(dashed) {
                        return Err(MultipartError::Grammar(
                            "a part has no empty line between its head and its data",
                        ));
                    }
                    self.at = At::Data;
                }
                At::Data => return self.data(bytes),
                At::Done => {
                    if !bytes.is_empty() && !b"\r\n".starts_with(bytes) {
                        return Err(MultipartError::Grammar("something follows the last delimiter"));
                    }
                    return Ok(None);
                }
                At::Failed => return Err(MultipartError::AfterError),
            }
        }
    }

    fn head(&mut self, bytes: &mut BytesMut) -> Result<Option<MultipartEvent>, MultipartError> {
        let limit = self.limits.head_bytes;
        let window = &bytes[..bytes.len().min(limit.saturating_add(4))];
        let Some(len) = memchr::memmem::find(window, b"\r\n\r\n") else {
            // An end that begins within the limit may still be cut.
            let got = window.len() - held_back(window, b"\r\n\r\n");
            return if got > limit {
                Err(too_long("a part's head", limit as u64, limit as u64 + 1))
            } else {
                Ok(None)
            };
        };
        if len > limit {
            return Err(too_long("a part's head", limit as u64, limit as u64 + 1));
        }
        let head = PartHead::parse(&bytes[..len])?;
        self.take(bytes, len + 4)?;
        self.parts += 1;
        (self.part_bytes, self.is_file) = (0, head.file_name().is_some());
        self.at = At::FirstData;
        Ok(Some(MultipartEvent::Part(Box::new(head))))
    }

    fn data(&mut self, bytes: &mut BytesMut) -> Result<Option<MultipartEvent>, MultipartError> {
        let delimiter = self.delimiter.needle();
        let len = match self.delimiter.find(bytes) {
            Some(0) => {
                let len = delimiter.len();
                self.take(bytes, len)?;
                self.at = At::Next;
                return Ok(Some(MultipartEvent::End));
            }
            Some(at) => at,
            None => bytes.len() - held_back(bytes, delimiter),
        };
        if len == 0 {
            return Ok(None);
        }
        // What fits comes out before the error does, so that it does not show how the body was cut.
        let field_max = if self.is_file { u64::MAX } else { self.limits.field_bytes as u64 };
        let field_left = field_max - self.part_bytes;
        let total_left = self.limits.total_bytes.saturating_sub(self.total);
        if field_left == 0 {
            return Err(too_long("a field", field_max, field_max + 1));
        }
        let fits = usize::try_from(field_left.min(total_left)).unwrap_or(usize::MAX);
        let len = len.min(fits.max(1)); // with no room in the whole, one byte more says so
        self.count(len)?;
        self.part_bytes += len as u64;
        Ok(Some(MultipartEvent::Data(bytes.split_to(len).freeze())))
    }

    fn take(&mut self, bytes: &mut BytesMut, len: usize) -> Result<(), MultipartError> {
        self.count(len)?;
        bytes.advance(len);
        Ok(())
    }

    fn count(&mut self, len: usize) -> Result<(), MultipartError> {
        self.total += len as u64;
        let limit = self.limits.total_bytes;
        if self.total > limit { Err(too_long("the form", limit, self.total)) } else { Ok(()) }
    }
}

/// How many bytes at the end may be the beginning of a delimiter.
fn held_back(bytes: &[u8], delimiter: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(delimiter.len() - 1)..];
    memchr::memchr_iter(b'\r', tail)
        .map(|at| &tail[at..])
        .find(|end| delimiter.starts_with(end))
        .map_or(0, <[u8]>::len)
}

/// Whether the bytes begin with what is wanted; false if they are too few to tell.
fn begins(bytes: &[u8], wanted: &[u8], error: &'static str) -> Result<bool, MultipartError> {
    let len = bytes.len().min(wanted.len());
    if bytes[..len] != wanted[..len] {
        return Err(MultipartError::Grammar(error));
    }
    Ok(len == wanted.len())
}

fn too_long(what: &'static str, limit: u64, got: u64) -> MultipartError {
    MultipartError::TooLong { what, limit, got }
}

/// A part of a form that is in memory.
///
/// ```
/// use netwright_http::web::{FormPart, Multipart};
///
/// let body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--";
/// let parts: Vec<FormPart> = Multipart::new("x")?.read_all(body.into())?;
/// assert_eq!((parts[0].head.name(), &*parts[0].data), ("a", &b"1"[..]));
/// # Ok::<(), netwright_http::web::MultipartError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    /// What the part says about itself.
    pub head: PartHead,
    /// Its data: a piece of the body, not a copy.
    pub data: Bytes,
}

impl Multipart {
    /// Reads a body that is in memory as a whole.
    ///
    /// ```
    /// use netwright_http::web::Multipart;
    ///
    /// let body = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x--";
    /// let parts = Multipart::new("x").unwrap().read_all(body.into()).unwrap();
    /// assert_eq!((parts[0].head.name(), &*parts[0].data), ("a", &b"1"[..]));
    /// ```
    pub fn read_all(mut self, body: Bytes) -> Result<Vec<FormPart>, MultipartError> {
        let mut body = body.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
        let mut parts: Vec<FormPart> = Vec::new();
        while let Some(event) = self.next(&mut body)? {
            match (event, parts.last_mut()) {
                (MultipartEvent::Part(head), _) => parts.push(FormPart { head: *head, data: Bytes::new() }),
                // The whole is at hand, so data comes in one piece.
                (MultipartEvent::Data(data), Some(part)) => part.data = data,
                (MultipartEvent::Data(_), None) | (MultipartEvent::End, _) => {}
            }
        }
        self.finish(&body)?;
        Ok(parts)
    }
}

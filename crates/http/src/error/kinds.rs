//! What exactly: of grammar, lengths, limits, ends and uses.

use std::fmt;

/// A limit by name.
///
/// ```
/// use netwright_http::{HttpError, error::Limit};
///
/// let error = HttpError::TooMuch { limit: Limit::Body, max: 1024, got: 4096 };
/// assert!(error.to_string().contains("1024") && error.to_string().contains("4096"), "{error}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// [`HttpLimits::head`](crate::HttpLimits::head)
    Head,
    /// [`HttpLimits::headers`](crate::HttpLimits::headers)
    Headers,
    /// [`HttpLimits::target`](crate::HttpLimits::target)
    Target,
    /// [`HttpLimits::body`](crate::HttpLimits::body)
    Body,
    /// [`HttpLimits::chunk_line`](crate::HttpLimits::chunk_line)
    ChunkLine,
    /// [`HttpLimits::trailers`](crate::HttpLimits::trailers)
    Trailers,
    /// Answers before the answer.
    Interim,
    /// [`HttpLimits::linger`](crate::HttpLimits::linger): bytes behind the end of HTTP that nobody has taken over.
    Unclaimed,
}

/// What is wrong with the bytes.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpServer, Received, respond};
///
/// // Lines that end in a line feed alone are refused (`Grammar::LineEnd`).
/// let hello = |_: &Received| http::Response::new("hello");
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(hello)));
/// channel.write_inbound("GET / HTTP/1.1\nHost: example\n\n");
/// assert!(channel.outbound_bytes().starts_with(b"HTTP/1.1 400 "));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grammar {
    /// A line that ends in LF without CR, or a CR that ends no line.
    LineEnd,
    /// A byte that has no place in a head.
    ControlByte(u8),
    /// The first line is not three words with one space between any two.
    FirstLine,
    /// The method is not a token.
    Method,
    /// The target has a form that its method does not allow, or a byte that no target has.
    Target,
    /// A header's name is not a token, or has a space before or behind it.
    HeaderName,
    /// A header's value has a byte that no value has.
    HeaderValue,
    /// A header line without a colon.
    NoColon,
    /// A header line that goes on in the next one.
    Folded,
    /// HTTP/1.1 without `Host`.
    NoHost,
    /// More than one `Host`.
    TwoHosts,
    /// A `Host` that is no host.
    Host,
    /// The size of a chunk is not a hexadecimal number.
    ChunkSize,
    /// A chunk extension that is none.
    ChunkExtension,
    /// No line end behind a chunk's data.
    ChunkEnd,
    /// A trailer that may only stand in a head.
    Trailer,
    /// The status is not a number of three digits.
    Status,
    /// An upgrade that nobody asked for.
    Unasked,
    /// HTTP/2: a field that says what is at the top of a head (`:path` …) is missing.
    PseudoMissing,
    /// HTTP/2: the same for one that is there twice.
    PseudoTwice,
    /// HTTP/2: the same for one behind other fields.
    PseudoLate,
    /// HTTP/2: the same for one that has no place in such a head.
    PseudoUnexpected,
    /// HTTP/2: a field about the connection, which HTTP/2 says otherwise.
    ConnectionField,
    /// HTTP/2: a scheme other than `http` and `https`.
    Scheme,
    /// HTTP/2: `Host` names another one than `:authority`.
    HostsDiffer,
    /// HTTP/2: what an extended `CONNECT` asks for is not a token.
    Protocol,
}

/// What is wrong with the lengths of a message.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_http::{HttpServer, Received, respond};
///
/// // Where this request ends is up to whom one asks (`Framing::LengthAndCoding`).
/// let hello = |_: &Received| http::Response::new("hello");
/// let mut channel = EmbeddedChannel::new(pipeline().add(HttpServer::new()).app(respond(hello)));
/// channel.write_inbound("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n");
/// assert!(channel.outbound_bytes().starts_with(b"HTTP/1.1 400 "));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// A `Content-Length` that is not a number, or one that nobody can hold.
    BadLength,
    /// More than one `Content-Length`.
    TwoLengths,
    /// Both `Content-Length` and `Transfer-Encoding`.
    LengthAndCoding,
    /// `chunked` that is not the last coding, or is there twice.
    ChunkedNotLast,
    /// `Transfer-Encoding` in HTTP/1.0, which has none.
    CodingBefore1_1,
    /// A body where none can be: with `CONNECT`.
    Body,
}

/// Where a message was when its connection ended.
///
/// ```
/// use netwright_http::{HttpError, error::Within};
///
/// let error = HttpError::Premature { within: Within::Body };
/// println!("{error}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Within {
    /// In a head.
    Head,
    /// In a body.
    Body,
    /// Before the reply to a request had begun.
    Waiting,
}

/// How the stages behind the codec used it wrongly.
///
/// ```
/// use netwright_http::{HttpError, error::Misuse};
///
/// let error = HttpError::Misuse(Misuse::BodyTooLong { announced: 5, written: 7 });
/// println!("{error}");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// A reply without a request.
    NoRequest,
    /// A head while the message before it is not over.
    HeadWithinBody,
    /// A piece of a body without a head.
    BodyWithoutHead,
    /// More bytes than `Content-Length` announced.
    BodyTooLong {
        /// The length that was announced.
        announced: u64,
        /// At least so many were written.
        written: u64,
    },
    /// Fewer bytes than `Content-Length` announced.
    BodyTooShort {
        /// The length that was announced.
        announced: u64,
        /// So many were written.
        written: u64,
    },
    /// A body with a status that has none.
    NoBodyAllowed(u16),
    /// A status that cannot be an answer before the answer, or cannot be a reply.
    Status(u16),
    /// `Content-Length` is not one number, or stands beside `Transfer-Encoding`, or that is not `chunked`.
    Length,
    /// A trailer that may only stand in a head.
    Trailer,
    /// `Upgrade` or a reply to `CONNECT` that its request does not allow.
    Upgrade,
    /// A message after the connection was to be closed.
    AfterClose,
    /// A request without a host, or with a target that its method does not allow.
    Target,
    /// What is only read, or only written, went the other way.
    Direction,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "bytes of a head",
            Self::Headers => "header lines",
            Self::Target => "bytes of a request target",
            Self::Body => "bytes of a body",
            Self::ChunkLine => "bytes of chunk extensions",
            Self::Trailers => "bytes of trailers",
            Self::Interim => "answers before the answer",
            Self::Unclaimed => "bytes behind the end of HTTP",
        })
    }
}

impl fmt::Display for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LineEnd => "a line does not end in CR LF",
            Self::ControlByte(byte) => return write!(f, "byte {byte:#04x} in a head"),
            Self::FirstLine => "the first line is not three words with one space between any two",
            Self::Method => "the method is not a token",
            Self::Target => "the target is none, or of a form that its method does not allow",
            Self::HeaderName => "a header's name is not a token",
            Self::HeaderValue => "a header's value has a byte that no value has",
            Self::NoColon => "a header line without a colon",
            Self::Folded => "a header line that begins with a space",
            Self::NoHost => "no Host",
            Self::TwoHosts => "more than one Host",
            Self::Host => "Host is not a host and port",
            Self::ChunkSize => "the size of a chunk is not a hexadecimal number",
            Self::ChunkExtension => "a chunk extension that is none",
            Self::ChunkEnd => "no CR LF behind a chunk",
            Self::Trailer => "a trailer that may only stand in a head",
            Self::Status => "the status is not a number of three digits",
            Self::Unasked => "an answer that nobody asked for",
            Self::PseudoMissing => "a field that every such head begins with is missing",
            Self::PseudoTwice => "a field that a head begins with is there twice",
            Self::PseudoLate => "a field that heads begin with is behind others",
            Self::PseudoUnexpected => "a field that such a head cannot begin with",
            Self::ConnectionField => "a field about the connection, which HTTP/2 says otherwise",
            Self::Scheme => "the scheme is neither http nor https",
            Self::HostsDiffer => "Host and :authority differ",
            Self::Protocol => "the protocol that CONNECT asks for is not a token",
        })
    }
}

impl fmt::Display for Framing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadLength => "Content-Length is not a number, or too large for one",
            Self::TwoLengths => "more than one Content-Length",
            Self::LengthAndCoding => "both Content-Length and Transfer-Encoding",
            Self::ChunkedNotLast => "chunked is not the last transfer coding, or is there twice",
            Self::CodingBefore1_1 => "Transfer-Encoding in HTTP/1.0",
            Self::Body => "a body where none can be",
        })
    }
}

impl fmt::Display for Within {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Head => "within a head",
            Self::Body => "within a body",
            Self::Waiting => "before the reply",
        })
    }
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRequest => f.write_str("a reply was written, but no request waits for one"),
            Self::HeadWithinBody => f.write_str("a head was written while the message before it is not over"),
            Self::BodyWithoutHead => f.write_str("a piece of a body was written without a head"),
            Self::BodyTooLong { announced, written } => {
                write!(f, "{announced} bytes of body were announced, {written} or more were written")
            }
            Self::BodyTooShort { announced, written } => {
                write!(f, "{announced} bytes of body were announced, {written} were written")
            }
            Self::NoBodyAllowed(status) => write!(f, "a reply with status {status} has no body"),
            Self::Status(status) => write!(f, "status {status} cannot be used here"),
            Self::Length => f.write_str("Content-Length or Transfer-Encoding of what was written is none"),
            Self::Trailer => f.write_str("a trailer was written that may only stand in a head"),
            Self::Upgrade => f.write_str("an upgrade was written that the request did not ask for"),
            Self::AfterClose => f.write_str("a message was written after the last one of its connection"),
            Self::Target => f.write_str(
                "a request was written without a host, or with a target that its method does not allow",
            ),
            Self::Direction => f.write_str("this kind of part cannot be written here"),
        }
    }
}

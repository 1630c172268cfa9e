//! The chunked coding, read (RFC 9112, section 7.1).
//!
//! ```text
//!   Size ─▶ Data ─▶ DataEnd ─▶ Size … ─▶ Size (0) ─▶ Trailers ─▶ Over
//!   1a;ext\r\n  <26 bytes>  \r\n         0\r\n        Name: value\r\n \r\n
//! ```
//! Always true:
//! 1. A size is hexadecimal digits, at once followed by CR LF or `;`. Nothing else passes, and no size overflows.
//! 2. What is held is at most one size line or the trailers, each within its limit; data passes as it comes.

use super::{
    body::Piece,
    extension::are_extensions,
    fields::{self, HeadScan, too_much},
    framing::Facts,
};
use crate::{
    error::{Grammar, HttpError, Limit},
    limits::HttpLimits,
};
use bytes::{Buf, BytesMut};
use http::{HeaderMap, HeaderName, header};

/// Extensions may be so many bytes more than the data: they are read and thrown away, which is work without a use.
const EXTENSIONS_MORE: u64 = 16 * 1024;

#[derive(Debug)]
pub(crate) struct Chunked {
    state: State,
    scan: HeadScan,
    /// Bytes of data so far, the chunk that was announced last included.
    data: u64,
    /// Bytes of extensions so far.
    extensions: u64,
}

#[derive(Debug)]
enum State {
    Size,
    Data(u64),
    DataEnd,
    Trailers,
}

impl Chunked {
    pub(crate) fn new() -> Self {
        Self { state: State::Size, scan: HeadScan::default(), data: 0, extensions: 0 }
    }

    /// The next piece of the body; `None` if more bytes are needed.
    pub(crate) fn next(
        &mut self,
        input: &mut BytesMut,
        limits: &HttpLimits,
    ) -> Result<Option<Piece>, HttpError> {
        loop {
            match self.state {
                State::Size => {
                    let Some(size) = self.size(input, limits)? else { return Ok(None) };
                    self.state = if size == 0 { State::Trailers } else { State::Data(size) };
                }
                State::Data(_) if input.is_empty() => return Ok(None),
                State::Data(size) => {
                    let take = usize::try_from(size).unwrap_or(usize::MAX).min(input.len());
                    let left = size - take as u64;
                    self.state = if left == 0 { State::DataEnd } else { State::Data(left) };
                    return Ok(Some(Piece::Data(input.split_to(take).freeze())));
                }
                State::DataEnd => match input.first_chunk() {
                    Some(b"\r\n") => {
                        input.advance(2);
                        self.state = State::Size;
                    }
                    Some(_) => return Err(Grammar::ChunkEnd.into()),
                    None if input.first().is_some_and(|&byte| byte != b'\r') => {
                        return Err(Grammar::ChunkEnd.into());
                    }
                    None => return Ok(None),
                },
                State::Trailers => return self.trailers(input, limits),
            }
        }
    }

    fn size(&mut self, input: &mut BytesMut, limits: &HttpLimits) -> Result<Option<u64>, HttpError> {
        let mut size = 0u64;
        let mut digits = 0;
        for &byte in input.iter().take(limits.chunk_line) {
            let digit = match byte {
                b'0'..=b'9' => byte - b'0',
                b'a'..=b'f' => byte - b'a' + 10,
                b'A'..=b'F' => byte - b'A' + 10,
                _ => break,
            };
            if size > u64::MAX >> 4 {
                return Err(Grammar::ChunkSize.into());
            }
            size = size << 4 | u64::from(digit);
            digits += 1;
        }
        let line = match memchr::memchr(b'\n', &input[digits..input.len().min(limits.chunk_line)]) {
            Some(at) => digits + at,
            None => {
                check_extension(&input[digits..], digits, true)?;
                if input.len() >= limits.chunk_line {
                    return Err(too_much(Limit::ChunkLine, limits.chunk_line, input.len()));
                }
                return Ok(None);
            }
        };
        if line == 0 || input[line - 1] != b'\r' || line == digits {
            return Err(Grammar::LineEnd.into());
        }
        let extension = &input[digits..line - 1];
        check_extension(extension, digits, false)?;
        self.extensions += extension.len() as u64;
        self.data = self.data.saturating_add(size);
        if self.data > limits.body {
            return Err(HttpError::TooMuch { limit: Limit::Body, max: limits.body, got: self.data });
        }
        let most = EXTENSIONS_MORE.saturating_add(self.data);
        if self.extensions > most {
            return Err(HttpError::TooMuch { limit: Limit::ChunkLine, max: most, got: self.extensions });
        }
        input.advance(line + 1);
        Ok(Some(size))
    }

    fn trailers(&mut self, input: &mut BytesMut, limits: &HttpLimits) -> Result<Option<Piece>, HttpError> {
        if input.starts_with(b"\r\n") {
            input.advance(2);
            return Ok(Some(Piece::End(None)));
        }
        if input.len() < 2 && input.first().is_none_or(|&byte| byte == b'\r') {
            return Ok(None);
        }
        let Some(len) = self.scan.find(input, limits.trailers, Limit::Trailers)? else { return Ok(None) };
        let lines = input.split_to(len).freeze();
        let mut trailers = HeaderMap::new();
        // What the fields say concerns the head: those that would say anything are refused.
        fields::parse(&lines, 0, &mut trailers, &mut Facts::default(), limits.headers)?;
        if trailers.keys().any(is_forbidden) {
            return Err(Grammar::Trailer.into());
        }
        Ok(Some(Piece::End(Some(Box::new(trailers)))))
    }
}

/// What follows the digits: nothing, or extensions. Of an unfinished line, the CR may be there already.
fn check_extension(rest: &[u8], digits: usize, unfinished: bool) -> Result<(), HttpError> {
    let rest = if unfinished { rest.strip_suffix(b"\r").unwrap_or(rest) } else { rest };
    match rest.first() {
        None if digits == 0 && !unfinished => Err(Grammar::ChunkSize.into()),
        None => Ok(()),
        Some(_) if digits == 0 => Err(Grammar::ChunkSize.into()),
        Some(b';') => {
            let bad = |&byte: &u8| byte != b'\t' && (byte < 0x20 || byte == 0x7f);
            let good = if unfinished { !rest.iter().any(bad) } else { are_extensions(rest) };
            if good { Ok(()) } else { Err(Grammar::ChunkExtension.into()) }
        }
        Some(_) => Err(Grammar::ChunkSize.into()),
    }
}

/// Fields that say how to read a message, or to whom it goes, are of no use behind it, and harm who believes them.
pub(crate) fn is_forbidden(name: &HeaderName) -> bool {
    const FORBIDDEN: [HeaderName; 16] = [
        header::AUTHORIZATION,
        header::CONNECTION,
        header::CONTENT_ENCODING,
        header::CONTENT_LENGTH,
        header::CONTENT_RANGE,
        header::CONTENT_TYPE,
        header::COOKIE,
        header::EXPECT,
        header::HOST,
        header::MAX_FORWARDS,
        header::RANGE,
        header::SET_COOKIE,
        header::TE,
        header::TRAILER,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ];
    FORBIDDEN.contains(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What comes of these bytes: data, then what the end was.
    fn read(bytes: &[u8], step: usize) -> Result<Option<(Vec<u8>, usize, usize)>, HttpError> {
        let limits = HttpLimits { body: 1000, trailers: 60, chunk_line: 40, ..HttpLimits::default() };
        let (mut chunked, mut input, mut data) = (Chunked::new(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(step) {
            input.extend_from_slice(piece);
            while let Some(piece) = chunked.next(&mut input, &limits)? {
                match piece {
                    Piece::Data(bytes) => data.extend_from_slice(&bytes),
                    Piece::End(trailers) => {
                        return Ok(Some((data, trailers.map_or(0, |trailers| trailers.len()), input.len())));
                    }
                }
            }
        }
        Ok(None)
    }

    #[test]
    fn chunks_are_read_the_same_whole_and_byte_by_byte() {
        for step in [1, 2, 3, 1000] {
            let body = b"5\r\nhello\r\n0A;name=\"x\"\r\n0123456789\r\n000\r\nx: 1\r\ny: 2\r\n\r\n";
            assert_eq!(read(body, step), Ok(Some((b"hello0123456789".to_vec(), 2, 0))));
            assert_eq!(read(b"1\r\na\r\n0\r\n\r\n", step), Ok(Some((b"a".to_vec(), 0, 0))));
            assert_eq!(read(b"1\r\na\r\n0\r\n\r", step), Ok(None));
        }
    }

    /// Behaviour 84.
    #[test]
    fn anything_but_the_grammar_of_chunks_is_refused() {
        let grammar = HttpError::Grammar;
        for (body, error) in [
            (&b"g\r\n"[..], grammar(Grammar::ChunkSize)),
            (b"\r\n", grammar(Grammar::ChunkSize)),
            (b";a\r\n", grammar(Grammar::ChunkSize)),
            (b"0x5\r\n", grammar(Grammar::ChunkSize)),
            (b"-5\r\n", grammar(Grammar::ChunkSize)),
            (b"+5\r\n", grammar(Grammar::ChunkSize)),
            (b" 5\r\n", grammar(Grammar::ChunkSize)),
            (b"5 \r\n", grammar(Grammar::ChunkSize)),
            (b"5 ;a\r\n", grammar(Grammar::ChunkSize)),
            (b"5_0\r\n", grammar(Grammar::ChunkSize)),
            (b"5\x0b\r\n", grammar(Grammar::ChunkSize)),
            (b"10000000000000000\r\n", grammar(Grammar::ChunkSize)),
            (b"ffffffffffffffff0\r\n", grammar(Grammar::ChunkSize)),
            (b"5\nhello\r\n", grammar(Grammar::LineEnd)),
            (b"5;a\nhello\r\n", grammar(Grammar::LineEnd)),
            (b"5;\r\n", grammar(Grammar::ChunkExtension)),
            (b"5; \r\n", grammar(Grammar::ChunkExtension)),
            (b"5;;a\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a;\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a \r\n", grammar(Grammar::ChunkExtension)),
            (b"5;=b\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a=\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a=b c\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a b\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a=b=c\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a(\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a=\"b\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a=\"b\\\"\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a=\"b\"c\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a=b\"\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;\xe4\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a\rb\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a\x00\r\n", grammar(Grammar::ChunkExtension)),
            (b"5;a\x7f\r\n", grammar(Grammar::ChunkExtension)),
            (b"5\r\nhelloX", grammar(Grammar::ChunkEnd)),
            (b"5\r\nhello\n0", grammar(Grammar::ChunkEnd)),
            (b"5\r\nhello\rX", grammar(Grammar::ChunkEnd)),
            (b"5\r\nhello0\r\n\r\n", grammar(Grammar::ChunkEnd)),
            (b"0\r\n\n\n", grammar(Grammar::LineEnd)),
            (b"0\r\nX\r\n\r\n", grammar(Grammar::NoColon)),
            (b"0\r\nContent-Length: 5\r\n\r\n", grammar(Grammar::Trailer)),
            (b"0\r\nHost: a\r\n\r\n", grammar(Grammar::Trailer)),
            (b"0\r\n a: b\r\n\r\n", grammar(Grammar::Folded)),
            (b"3e9\r\n", HttpError::TooMuch { limit: Limit::Body, max: 1000, got: 1001 }),
        ] {
            assert_eq!(read(body, 1000), Err(error.clone()), "{}", body.escape_ascii());
            assert!(read(body, 1).is_err(), "{} byte by byte", body.escape_ascii());
        }
        let long = [b"5;".as_slice(), &[b'a'; 100]].concat();
        assert_eq!(read(&long, 1), Err(too_much(Limit::ChunkLine, 40, 40)));
        let trailer = [b"0\r\nx: ".as_slice(), &[b'a'; 100]].concat();
        assert_eq!(read(&trailer, 1), Err(too_much(Limit::Trailers, 60, 61)));
    }

    #[test]
    fn extensions_are_names_with_or_without_values_and_nothing_else() {
        for extension in [
            ";a",
            ";a;b",
            ";a=b",
            ";a=b;c=d",
            "; a",
            ";\ta",
            ";a =b",
            ";a= b",
            ";a = b ; c",
            ";!#$%&'*+-.^_`|~09az=b",
            ";a=!#$%&'*+-.^_`|~09az",
            ";a=\"\"",
            ";a=\"b c;d=e\"",
            ";a=\"\\\"\\\\\";b",
        ] {
            let body = format!("1{extension}\r\nx\r\n0{extension}\r\n\r\n");
            for step in [1, 1000] {
                assert_eq!(read(body.as_bytes(), step), Ok(Some((b"x".to_vec(), 0, 0))), "{extension}");
            }
        }
        assert_eq!(read(b"1;a=\"\xe4\"\r\nx\r\n0\r\n\r\n", 1), Ok(Some((b"x".to_vec(), 0, 0))));
    }

    #[test]
    fn extensions_without_data_behind_them_end() {
        let mut input = BytesMut::new();
        let limits = HttpLimits::default();
        let mut chunked = Chunked::new();
        let chunk = [b"1;".as_slice(), &[b'a'; 200], b"\r\nx\r\n"].concat();
        let error = (0..1000).find_map(|_| {
            input.extend_from_slice(&chunk);
            loop {
                match chunked.next(&mut input, &limits) {
                    Ok(Some(_)) => {}
                    Ok(None) => return None,
                    Err(error) => return Some(error),
                }
            }
        });
        assert!(matches!(error, Some(HttpError::TooMuch { limit: Limit::ChunkLine, .. })), "{error:?}");
    }
}

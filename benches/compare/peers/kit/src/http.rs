//! HTTP for servers that bring none: `httparse`, and answers that are ready but for their date.
//!
//! ```text
//!   bytes ─▶ httparse ─▶ "/"      a text, kept whole with the date of this second
//!                        "/json"  a head kept the same way, the body by serde_json for each request
//! ```

use httparse::Status;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::time::{Duration, SystemTime};

/// What `/` says.
pub const HELLO: &str = "Hello, World!";
/// What `/64k` says.
pub static LONG: [u8; 64 * 1024] = [b'x'; 64 * 1024];
/// In every answer of every server.
pub const SERVER: &str = "compare";

const HEADERS: usize = 32;
const DATE: usize = 29;

/// What `/json` says, made anew for each request.
#[derive(Debug, Serialize)]
pub struct Greeting {
    pub message: &'static str,
}

/// `{"message":"Hello, World!"}`
pub fn json() -> Vec<u8> {
    serde_json::to_vec(&Greeting { message: HELLO }).expect("a struct with a text in it")
}

/// What was sent is no request, or none for these pages.
#[derive(Debug)]
pub struct BadRequest;

/// Answers of a thread.
#[derive(Debug)]
pub struct Pages {
    second: i64,
    text: Dated,
    json: Dated,
}

#[derive(Debug)]
struct Dated {
    bytes: Vec<u8>,
    date: usize,
}

impl Dated {
    fn new(kind: &str, length: usize, body: &str) -> Self {
        let mut bytes =
            format!("HTTP/1.1 200 OK\r\nserver: {SERVER}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\ndate: ")
                .into_bytes();
        let date = bytes.len();
        bytes.extend_from_slice(&[b' '; DATE]);
        bytes.extend_from_slice(b"\r\n\r\n");
        bytes.extend_from_slice(body.as_bytes());
        Self { bytes, date }
    }
}

impl Default for Pages {
    fn default() -> Self {
        let text = Dated::new("text/plain", HELLO.len(), HELLO);
        Self { second: -1, text, json: Dated::new("application/json", json().len(), "") }
    }
}

impl Pages {
    /// An answer for each whole request in `input`, into `answers`. How many bytes these were.
    #[inline]
    pub fn answer(&mut self, input: &[u8], answers: &mut Vec<u8>) -> Result<usize, BadRequest> {
        self.keep_date();
        let mut used = 0;
        while used < input.len() {
            let mut headers = [const { std::mem::MaybeUninit::uninit() }; HEADERS];
            let mut request = httparse::Request::new(&mut []);
            match request.parse_with_uninit_headers(&input[used..], &mut headers).map_err(|_| BadRequest)? {
                Status::Partial => break,
                Status::Complete(len) => used += len,
            }
            // Nobody here sends a body.
            let body = |name: &str| {
                name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
            };
            if request.method != Some("GET") || request.headers.iter().any(|header| body(header.name)) {
                return Err(BadRequest);
            }
            match request.path {
                Some("/") => answers.extend_from_slice(&self.text.bytes),
                Some("/json") => {
                    answers.extend_from_slice(&self.json.bytes);
                    let greeting = Greeting { message: HELLO };
                    serde_json::to_writer(&mut *answers, &greeting).map_err(|_| BadRequest)?;
                }
                _ => return Err(BadRequest),
            }
        }
        Ok(used)
    }

    /// The same for bytes as they come; `rest` keeps the beginning of a request whose end has not come.
    #[inline]
    pub fn answer_next(
        &mut self,
        bytes: &[u8],
        rest: &mut Vec<u8>,
        answers: &mut Vec<u8>,
    ) -> Result<(), BadRequest> {
        if rest.is_empty() {
            let used = self.answer(bytes, answers)?;
            rest.extend_from_slice(&bytes[used..]);
        } else {
            rest.extend_from_slice(bytes);
            let used = self.answer(rest, answers)?;
            rest.drain(..used);
        }
        Ok(())
    }

    fn keep_date(&mut self) {
        let second = clock_gettime(ClockId::RealtimeCoarse).tv_sec;
        if second != self.second {
            self.second = second;
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second.unsigned_abs());
            let date = httpdate::fmt_http_date(time);
            for page in [&mut self.text, &mut self.json] {
                page.bytes[page.date..page.date + DATE].copy_from_slice(date.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_in_two_parts_gets_one_answer() {
        let (mut pages, mut rest, mut answers) = (Pages::default(), Vec::new(), Vec::new());
        pages.answer_next(b"GET / HTTP/1.1\r\nhost", &mut rest, &mut answers).unwrap();
        assert!(answers.is_empty());
        pages.answer_next(b": a\r\n\r\nGET", &mut rest, &mut answers).unwrap();
        assert!(
            answers.starts_with(b"HTTP/1.1 200 OK\r\n") && answers.ends_with(b"GMT\r\n\r\nHello, World!")
        );
        assert_eq!(rest, b"GET");
    }

    #[test]
    fn json_is_as_long_as_its_head_says() {
        let mut answers = Vec::new();
        Pages::default().answer(b"GET /json HTTP/1.1\r\n\r\n", &mut answers).unwrap();
        assert!(answers.ends_with(b"\r\n\r\n{\"message\":\"Hello, World!\"}"));
        assert!(answers.windows(18).any(|part| part == b"content-length: 27"));
    }

    #[test]
    fn what_is_no_request_for_these_pages_gets_none() {
        for bad in [
            "POST / HTTP/1.1\r\n\r\n",
            "GET /x HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\ncontent-length: 1\r\n\r\n",
        ] {
            assert!(Pages::default().answer(bad.as_bytes(), &mut Vec::new()).is_err(), "{bad:?}");
        }
    }
}

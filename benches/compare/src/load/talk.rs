//! What is asked, and what has to come back.
//!
//! ```text
//!   asked (endless)     … r r r r …        sent from any place of it, so nothing is put together while measuring
//!   comes (endless)     … a a a a …        compared byte by byte                        echo, WebSocket
//!   comes (like before) a, but for its date    compared byte by byte with the one before   HTTP
//! ```
//! An HTTP answer that is not like the one before, as with every new second, is looked at in full: status, headers, date, length,
//! body. It becomes the one that the next are compared with.

use std::time::{Duration, SystemTime};

/// As much as one read takes.
pub(crate) const BUFFER: usize = 256 * 1024;
/// A prime, so that no message meets the same part as the one before.
const PATTERN: usize = 65_537;
/// Heads of answers are far shorter.
const HEAD_MAX: usize = 4096;
const DATE: usize = 29;
/// A date is written once or twice a second, on a machine that may be busy.
const DATE_OFF_MAX: Duration = Duration::from_secs(5);
const MASK: [u8; 4] = [0x12, 0x34, 0x56, 0x78];
const WEBSOCKET_HELLO: &str = "GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// What a client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Talk {
    /// Bytes that differ from connection to connection and from message to message.
    Echo { bytes: usize },
    /// `GET /` or `GET /json`, as a load generator sends it.
    Http { json: bool, varied: bool },
    /// A masked binary frame.
    WebSocket { bytes: usize },
}

/// Messages without end.
#[derive(Debug, Clone)]
pub(crate) struct Endless {
    /// Length of one.
    pub(crate) message: usize,
    /// After so many bytes it starts anew; no fewer than one read takes.
    period: usize,
    /// Twice the same, so that a slice of it never has to wrap.
    bytes: Vec<u8>,
}

impl Endless {
    fn new(start: &[u8], message: usize) -> Self {
        let mut bytes = start.repeat(BUFFER.div_ceil(start.len()));
        let period = bytes.len();
        bytes.extend_from_within(..);
        Self { message, period, bytes }
    }

    /// At most `len` bytes from there.
    #[inline]
    pub(crate) fn at(&self, place: usize, len: usize) -> &[u8] {
        &self.bytes[place..place + len.min(self.period)]
    }

    #[inline]
    pub(crate) fn after(&self, place: usize, len: usize) -> usize {
        (place + len) % self.period
    }
}

impl Talk {
    /// What is sent.
    pub(crate) fn asked(self) -> Endless {
        match self {
            Self::Echo { bytes } => Endless::new(&pattern(), bytes),
            Self::Http { json, varied } => {
                let path = if json { "/json" } else { "/" };
                let request = |host: &str| {
                    format!(
                        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: compare\r\n\
                         Accept: text/plain,text/html;q=0.9,application/json;q=0.8,*/*;q=0.7\r\n\
                         Connection: keep-alive\r\n\r\n"
                    )
                };
                let all: Vec<String> = match varied {
                    false => vec![request("localhost")],
                    true => (10_000..11_500).map(|number| request(&format!("host-{number}"))).collect(),
                };
                Endless::new(all.concat().as_bytes(), all[0].len())
            }
            Self::WebSocket { bytes } => {
                let payload = payload(bytes);
                let masked = payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask);
                let mut frame = frame_head(bytes, true);
                frame.extend(masked);
                Endless::new(&frame, frame.len())
            }
        }
    }

    /// Where in `asked` a connection starts.
    pub(crate) fn start(self, connection: usize) -> usize {
        match self {
            Self::Echo { .. } => connection * 257 % PATTERN,
            _ => 0,
        }
    }

    /// What is said once before the first message.
    pub(crate) fn hello(self) -> Option<&'static str> {
        matches!(self, Self::WebSocket { .. }).then_some(WEBSOCKET_HELLO)
    }

    pub(crate) fn check(self) -> Check {
        match self {
            Self::Echo { .. } => Check::Bytes(self.asked()),
            Self::Http { json, .. } => Check::Http(HttpCheck::new(json)),
            Self::WebSocket { bytes } => {
                let mut frame = frame_head(bytes, false);
                frame.extend(payload(bytes));
                Check::Bytes(Endless::new(&frame, frame.len()))
            }
        }
    }
}

/// SplitMix64, the same in every run.
fn pattern() -> Vec<u8> {
    let mut state = 1_u64;
    let mut byte = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 32) as u8
    };
    (0..PATTERN).map(|_| byte()).collect()
}

fn payload(bytes: usize) -> Vec<u8> {
    pattern()[..bytes].to_vec()
}

/// The head of a whole binary frame of up to 64 KiB.
fn frame_head(bytes: usize, masked: bool) -> Vec<u8> {
    let bit = if masked { 0x80 } else { 0 };
    let mut head = vec![0x82];
    match u16::try_from(bytes).expect("a frame of up to 64 KiB") {
        short @ ..126 => head.push(bit | short as u8),
        long => {
            head.push(bit | 126);
            head.extend(long.to_be_bytes());
        }
    }
    if masked {
        head.extend(MASK);
    }
    head
}

/// Looks at answers.
#[derive(Debug)]
pub(crate) enum Check {
    Bytes(Endless),
    Http(HttpCheck),
}

/// How far the answers on one connection have come.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Where in what comes back the next byte is.
    place: usize,
    /// Bytes of a message that is not complete.
    part: usize,
    /// The beginning of an HTTP answer whose end has not come.
    rest: Vec<u8>,
}

impl Progress {
    pub(crate) fn from(place: usize) -> Self {
        Self { place, ..Self::default() }
    }
}

impl Check {
    /// How many answers these bytes complete, or what is wrong with them.
    #[inline]
    pub(crate) fn take(&mut self, progress: &mut Progress, bytes: &[u8]) -> Result<usize, String> {
        match self {
            Self::Bytes(expected) => {
                if bytes != expected.at(progress.place, bytes.len()) {
                    return Err(format!(
                        "the {} bytes that came are not those that should come back",
                        bytes.len()
                    ));
                }
                progress.place = expected.after(progress.place, bytes.len());
                progress.part += bytes.len();
                let complete = progress.part / expected.message;
                progress.part %= expected.message;
                Ok(complete)
            }
            Self::Http(http) if progress.rest.is_empty() => {
                let (answers, used) = http.take(bytes)?;
                progress.rest.extend_from_slice(&bytes[used..]);
                Ok(answers)
            }
            Self::Http(http) => {
                progress.rest.extend_from_slice(bytes);
                let (answers, used) = http.take(&progress.rest)?;
                progress.rest.drain(..used);
                Ok(answers)
            }
        }
    }
}

#[derive(Debug)]
pub(crate) struct HttpCheck {
    kind: &'static str,
    body: &'static [u8],
    /// The answer before.
    known: Vec<u8>,
}

impl HttpCheck {
    fn new(json: bool) -> Self {
        let (kind, body): (_, &[u8]) = match json {
            false => ("text/plain", b"Hello, World!"),
            true => ("application/json", b"{\"message\":\"Hello, World!\"}"),
        };
        Self { kind, body, known: Vec::new() }
    }

    /// How many answers there are, and how many bytes these were.
    fn take(&mut self, bytes: &[u8]) -> Result<(usize, usize), String> {
        let (mut answers, mut used) = (0, 0);
        while used < bytes.len() {
            let rest = &bytes[used..];
            let len = if self.like_before(rest) { self.known.len() } else { self.in_full(rest)? };
            if len == 0 {
                break;
            }
            used += len;
            answers += 1;
        }
        Ok((answers, used))
    }

    /// Every byte as before.
    #[inline]
    fn like_before(&self, bytes: &[u8]) -> bool {
        !self.known.is_empty() && bytes.starts_with(&self.known)
    }

    /// Length of the answer, 0 if it is not whole.
    #[cold]
    fn in_full(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let Some(end) = bytes.windows(4).position(|part| part == b"\r\n\r\n") else {
            return match bytes.len() {
                ..=HEAD_MAX => Ok(0),
                long => {
                    Err(format!("{long} bytes of an answer, more than {HEAD_MAX}, and its head has no end"))
                }
            };
        };
        let head = str::from_utf8(&bytes[..end]).map_err(|_| "the head of an answer is no text")?;
        let (status, headers) = head.split_once("\r\n").unwrap_or((head, ""));
        if !status.starts_with("HTTP/1.1 200") {
            return Err(format!("the answer begins with {status:?}"));
        }
        let find = |name: &str| {
            let mut lines = headers.split("\r\n").filter_map(|line| line.split_once(':'));
            lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
        };
        let need = |name: &str| find(name).ok_or(format!("an answer without {name}"));
        need("server")?;
        let kind = need("content-type")?;
        if !kind.starts_with(self.kind) {
            return Err(format!("content-type {kind:?} instead of {:?}", self.kind));
        }
        let length = need("content-length")?;
        if length != self.body.len().to_string() {
            return Err(format!("content-length {length:?} instead of {}", self.body.len()));
        }
        if find("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            return Err("the server wants to close".to_owned());
        }
        check_date(need("date")?)?;
        let len = end + 4 + self.body.len();
        if bytes.len() < len {
            return Ok(0);
        }
        if &bytes[end + 4..len] != self.body {
            return Err(format!("the body is {:?}", String::from_utf8_lossy(&bytes[end + 4..len])));
        }
        self.known.clear();
        self.known.extend_from_slice(&bytes[..len]);
        Ok(len)
    }
}

fn check_date(date: &str) -> Result<(), String> {
    let time = httpdate::parse_http_date(date).ok().filter(|_| date.len() == DATE);
    let time = time.ok_or(format!("{date:?} is no date"))?;
    let now = SystemTime::now();
    let off = now.duration_since(time).or_else(|_| time.duration_since(now)).unwrap_or_default();
    if off > DATE_OFF_MAX { Err(format!("the date {date:?} is {off:?} off")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> String {
        let date = httpdate::fmt_http_date(SystemTime::now());
        format!(
            "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Type: text/plain\r\nContent-Length: 13\r\nDate: {date}\r\n\r\nHello, World!"
        )
    }

    fn check(json: bool) -> (Check, Progress) {
        (Talk::Http { json, varied: false }.check(), Progress::default())
    }

    #[test]
    fn answers_are_counted_whole_byte_by_byte_and_glued() {
        let three = answer().repeat(3);
        let (mut whole, mut progress) = check(false);
        assert_eq!(whole.take(&mut progress, three.as_bytes()), Ok(3));
        let (mut parts, mut progress) = check(false);
        let counts = three.bytes().map(|byte| parts.take(&mut progress, &[byte]).unwrap());
        assert_eq!(counts.sum::<usize>(), 3);
    }

    #[test]
    fn what_is_wrong_with_an_answer_is_named() {
        let bad = [
            (answer().replace("200", "500"), "begins with"),
            (answer().replace("13", "14"), "content-length"),
            (answer().replace("Hello", "Hallo"), "the body is"),
            (answer().replace("Server", "Other"), "without server"),
            (answer().replace("Date", "Data"), "without date"),
            (answer().replace("plain", "other"), "content-type"),
            ("x".repeat(5000), "no end"),
        ];
        for (text, why) in bad {
            let (mut check, mut progress) = check(false);
            check.take(&mut progress, answer().as_bytes()).unwrap();
            let said = check.take(&mut progress, text.as_bytes()).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn an_old_date_is_an_error() {
        assert!(check_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap_err().contains("off"));
        assert!(check_date("yesterday").unwrap_err().contains("no date"));
    }

    #[test]
    fn an_echo_with_one_wrong_byte_is_seen() {
        let talk = Talk::Echo { bytes: 64 };
        let (asked, mut check) = (talk.asked(), talk.check());
        let mut progress = Progress::from(talk.start(3));
        let mut bytes = asked.at(talk.start(3), 100).to_vec();
        assert_eq!(check.take(&mut progress, &bytes), Ok(1));
        bytes = asked.at(asked.after(talk.start(3), 100), 28).to_vec();
        assert_eq!(check.take(&mut progress, &bytes), Ok(1));
        assert!(check.take(&mut progress, &[0; 28]).is_err());
    }

    #[test]
    fn varied_requests_are_all_as_long_and_none_is_like_the_one_before() {
        let asked = Talk::Http { json: false, varied: true }.asked();
        let (mut place, mut before) = (0, Vec::new());
        for _ in 0..3000 {
            let request = asked.at(place, asked.message).to_vec();
            assert!(request.starts_with(b"GET / HTTP/1.1\r\n") && request.ends_with(b"\r\n\r\n"));
            assert_ne!(request, before);
            place = asked.after(place, asked.message);
            before = request;
        }
    }

    #[test]
    fn a_frame_is_masked_one_way_and_plain_the_other() {
        let talk = Talk::WebSocket { bytes: 64 };
        let asked = talk.asked();
        assert_eq!(asked.message, 2 + 4 + 64);
        assert_eq!(asked.at(0, 6), [0x82, 0x80 | 64, 0x12, 0x34, 0x56, 0x78]);
        let Check::Bytes(comes) = talk.check() else { panic!("frames are bytes") };
        assert_eq!((comes.message, comes.at(0, 2)), (66, &[0x82, 64][..]));
        assert_eq!(asked.at(6, 1)[0] ^ 0x12, comes.at(2, 1)[0]);
    }
}

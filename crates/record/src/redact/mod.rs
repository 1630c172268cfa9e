//! What a file must not show: values of headers, or whatever a function of the user's covers.
//!
//! Runs where the file is written and not where a message passes: it costs nothing before there is a file, and nothing on a loop.
//! Bytes are replaced one by one, so all lengths stay what they were.
//!
//! ```text
//!   line start ── a name and `:` ──▶ one of ours? ── yes ──▶ cover up to the end of the line, and lines that continue it
//!        ▲                                 └── no ──▶ skip up to the end of the line
//!        └─────────────────────────────────────────────────────────┘
//! ```
//! Peers that break the rules are those whose recordings are read. So what some other program could take for one of our headers is one: blanks
//! or anything else between the name and its colon, blanks and what cannot be seen in front of it, a line that ends in a carriage return alone, a value that goes
//! on in the next line behind a blank.
//!
//! What comes in is one stream and what goes out is another, whatever pieces they are in: a value that is split is covered in both. Where
//! bytes are missing (a ring that has lost its beginning, a piece that was cut), nobody knows whether a value goes on behind them:
//! everything up to the next end of a line is covered. The same holds for a recorder that came later than its channel.
//!
//! Texts of errors and panics may quote what is covered; see `texts`.

mod texts;

use crate::format::{Raw, kind, varint, writer::Kept};
use std::{fmt, sync::Arc};
use texts::Values;

/// What is put over bytes that are not to be seen.
pub(crate) const COVER: u8 = b'*';
/// No name of a header is longer.
const NAME_MAX: usize = 128;

/// Which way bytes went.
///
/// ```
/// use netwright_record::Direction;
///
/// assert_ne!(Direction::In, Direction::Out);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the peer.
    In,
    /// To the peer.
    Out,
}

type Own = Arc<dyn Fn(Direction, &mut [u8]) + Send + Sync>;

/// What is replaced by `*` before a recording is written.
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::{Direction, FlightRecorder, Redaction, Seen};
///
/// let redaction = Redaction::http().header("x-api-key").and(|way, bytes| {
///     if way == Direction::In && bytes.starts_with(b"PASS ") {
///         bytes[5..].fill(b'*');
///     }
/// });
/// let flight = FlightRecorder::builder().redact(redaction).build();
/// let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|_, _: bytes::BytesMut| {}));
/// channel.write_inbound("GET / HTTP/1.1\r\nX-Api-Key: 4711\r\n\r\n").write_inbound("PASS secret");
///
/// let read: Vec<_> = flight.live()[0].recording().records().filter_map(|record| match record.what {
///     Seen::Read(piece) => Some(piece.bytes),
///     _ => None,
/// }).collect();
/// assert_eq!(read, ["GET / HTTP/1.1\r\nX-Api-Key: ****\r\n\r\n", "PASS ******"]);
/// ```
#[derive(Clone, Default)]
pub struct Redaction {
    headers: Vec<String>,
    own: Vec<Own>,
    without_texts: bool,
}

impl Redaction {
    /// Everything is written as it was.
    pub fn none() -> Self {
        Self::default()
    }

    /// The values of the headers by which HTTP says who somebody is: `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie`.
    /// What recorders do unless told otherwise; it concerns every line that begins with such a name and a colon, in any protocol.
    pub fn http() -> Self {
        ["authorization", "proxy-authorization", "cookie", "set-cookie"]
            .into_iter()
            .fold(Self::none(), Self::header)
    }

    /// And the values of headers of this name, in capital or small letters.
    ///
    /// # Panics
    /// If no header can have that name: it is empty, longer than 128 bytes, or has something in it that names do not have.
    pub fn header(mut self, name: impl AsRef<str>) -> Self {
        let name = name.as_ref().trim().to_ascii_lowercase();
        let is_name = (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_token);
        assert!(
            is_name,
            "{name:?} is not the name of a header: 1 to {NAME_MAX} letters, digits and !#$%&'*+-.^_`|~"
        );
        if !self.headers.contains(&name) {
            self.headers.push(name);
        }
        self
    }

    /// And what this function covers in a piece. It sees the pieces in order, on a thread that may block; where values may be split over
    /// several, it has to keep in mind what it has seen.
    pub fn and(mut self, cover: impl Fn(Direction, &mut [u8]) + Send + Sync + 'static) -> Self {
        self.own.push(Arc::new(cover));
        self
    }

    /// And all texts: messages of panics, errors, and why a channel was closed, which may tell of what peers have sent. If not said, what they
    /// quote of covered values is covered, as far as it can be found: behind the name of a header, and what was covered in the bytes
    /// of the same recording. A text that has been changed in between, or tells of bytes that are no longer in the ring, still shows them.
    ///
    /// ```
    /// use netwright_core::{EmbeddedChannel, pipeline};
    /// use netwright_record::{FlightRecorder, NewRecording, Redaction, Seen};
    /// use std::{sync::mpsc, time::Duration};
    ///
    /// let (send, files) = mpsc::channel();
    /// let flight = FlightRecorder::builder()
    ///     .redact(Redaction::http().without_texts())
    ///     .to(move |file: &NewRecording| { let _ = send.send(file.recording()?); Ok(()) })
    ///     .build();
    /// let panics = pipeline().add(flight.stage()).handle(|_, _: bytes::BytesMut| panic!("no such user: Smith"));
    /// EmbeddedChannel::new(panics).write_inbound("hello");
    ///
    /// let recording = files.recv_timeout(Duration::from_secs(30))?;
    /// assert_eq!(recording.records().last().unwrap().what, Seen::Panicked("*".repeat(19)));
    /// # Ok::<(), mpsc::RecvTimeoutError>(())
    /// ```
    pub fn without_texts(mut self) -> Self {
        self.without_texts = true;
        self
    }

    pub(crate) fn is_none(&self) -> bool {
        self.headers.is_empty() && self.own.is_empty() && !self.without_texts
    }

    pub(crate) fn headers(&self) -> &[String] {
        &self.headers
    }

    /// For the pieces of one recording.
    fn begin(&self, beginning_is_lost: bool) -> Redacting<'_> {
        let at = if beginning_is_lost { At::Covered } else { At::Name };
        let lines = || Lines { at, name: Vec::new(), name_is_over: false };
        Redacting { rules: self, ways: [lines(), lines()] }
    }
}

impl fmt::Debug for Redaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redaction")
            .field("headers", &self.headers)
            .field("own", &self.own.len())
            .field("without_texts", &self.without_texts)
            .finish()
    }
}

/// Covers what is not to be seen in a recording: pieces first, then texts, in which any value of any piece may be quoted.
pub(crate) fn redact(rules: &Redaction, kept: &mut Kept) {
    if rules.is_none() {
        return;
    }
    let mut redacting = rules.begin(kept.lost_records > 0 || !kept.from_the_start);
    let (mut values, mut texts, mut before) = (Values::default(), Vec::new(), Vec::new());
    let (mut at, records) = (0, &mut kept.records);
    while let Ok(raw) = Raw::at(records, at) {
        at = raw.end;
        let body = &mut records[raw.body..raw.end];
        let behind_number = || varint::take(body.iter().copied()).map_or(0, |(_, len)| len.min(body.len()));
        let (way, first, whole) = match raw.kind & !kind::FLUSHED_BIT {
            kind::READ => (Direction::In, 0, true),
            kind::WRITTEN => (Direction::Out, 0, true),
            kind::READ_CUT => (Direction::In, behind_number(), false),
            kind::WRITTEN_CUT => (Direction::Out, behind_number(), false),
            kind::FILE => (Direction::Out, body.len(), false),
            kind::ERROR | kind::PANICKED => {
                texts.push(raw.body..raw.end);
                continue;
            }
            kind::CLOSE | kind::INACTIVE => {
                texts.push(raw.end.min(raw.body + 1)..raw.end); // behind what kind of cause it is
                continue;
            }
            _ => continue,
        };
        let bytes = &mut body[first..];
        before.clear();
        before.extend_from_slice(bytes);
        redacting.piece(way, bytes, whole);
        values.piece(way.index(), &before, bytes, whole);
    }
    values.end();
    for text in texts {
        match rules.without_texts {
            true => records[text].fill(COVER),
            false => values.cover(&rules.headers, &mut records[text]),
        }
    }
}

impl Direction {
    fn index(self) -> usize {
        usize::from(self == Self::Out)
    }
}

/// On its way through a recording.
struct Redacting<'a> {
    rules: &'a Redaction,
    ways: [Lines; 2],
}

impl Redacting<'_> {
    /// Covers what is not to be seen. `whole`: nothing of the piece is missing behind these bytes.
    fn piece(&mut self, way: Direction, bytes: &mut [u8], whole: bool) {
        if !self.rules.headers.is_empty() {
            let lines = &mut self.ways[way.index()];
            lines.cover(&self.rules.headers, bytes);
            if !whole {
                lines.at = At::Covered;
            }
        }
        self.rules.own.iter().for_each(|cover| cover(way, bytes));
    }
}

/// Where in a line we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// In what may be a name.
    Name,
    /// Between the colon behind one of our names and its value.
    Space,
    /// In what is covered.
    Covered,
    /// At the beginning of a line behind one that was covered: a blank continues it.
    Folded,
    /// In what is nobody's business.
    Rest,
}

/// What names of headers consist of (RFC 9110, 5.6.2).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

struct Lines {
    at: At,
    /// What there is of the name, in small letters.
    name: Vec<u8>,
    /// Something has come behind it that is no part of a name.
    name_is_over: bool,
}

impl Lines {
    fn cover(&mut self, headers: &[String], bytes: &mut [u8]) {
        let mut index = 0;
        while index < bytes.len() {
            match self.at {
                At::Name => {
                    let byte = bytes[index];
                    self.at = self.name_goes_on(headers, byte);
                    index += 1;
                }
                At::Space if matches!(bytes[index], b' ' | b'\t') => index += 1,
                At::Space => self.at = At::Covered,
                At::Covered => {
                    let rest = &mut bytes[index..];
                    let end = memchr::memchr(b'\n', rest);
                    let line = end.unwrap_or(rest.len());
                    rest[..line].iter_mut().filter(|byte| **byte != b'\r').for_each(|byte| *byte = COVER);
                    index += line;
                    if end.is_some() {
                        index += 1;
                        self.at = At::Folded;
                    }
                }
                At::Folded if matches!(bytes[index], b' ' | b'\t') => self.at = At::Covered,
                At::Folded => self.begin_line(),
                At::Rest => match memchr::memchr2(b'\n', b'\r', &bytes[index..]) {
                    Some(line) => {
                        index += line + 1;
                        self.begin_line();
                    }
                    None => return,
                },
            }
        }
    }

    fn begin_line(&mut self) {
        self.at = At::Name;
        self.name.clear();
        self.name_is_over = false;
    }

    /// One more byte of what may be a name.
    fn name_goes_on(&mut self, headers: &[String], byte: u8) -> At {
        match byte {
            b':' if headers.iter().any(|header| header.as_bytes() == self.name) => At::Space,
            b'\n' | b'\r' => {
                self.begin_line();
                At::Name
            }
            b':' => At::Rest,
            // In front of it.
            _ if self.name.is_empty() && !self.name_is_over && !byte.is_ascii_graphic() => At::Name,
            _ if !is_token(byte) => {
                self.name_is_over = true;
                At::Name
            }
            _ if self.name_is_over || self.name.len() == NAME_MAX => At::Rest,
            _ => {
                self.name.push(byte.to_ascii_lowercase());
                At::Name
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(pieces: &[&str], beginning_is_lost: bool) -> String {
        let rules = Redaction::http();
        let mut redacting = rules.begin(beginning_is_lost);
        let mut all = Vec::new();
        for piece in pieces {
            let mut bytes = piece.as_bytes().to_vec();
            redacting.piece(Direction::In, &mut bytes, true);
            all.extend(bytes);
        }
        String::from_utf8(all).unwrap()
    }

    const HEAD: &str = "GET / HTTP/1.1\r\nHost: a\r\nCookie: id=7\r\nAuthorization:Basic abc=\r\n\r\nbody";
    const SHOWN: &str = "GET / HTTP/1.1\r\nHost: a\r\nCookie: ****\r\nAuthorization:**********\r\n\r\nbody";

    #[test]
    fn values_of_the_named_headers_are_covered_and_lengths_stay() {
        assert_eq!(covered(&[HEAD], false), SHOWN);
        assert_eq!(covered(&["x-cookie: a\ncookies: b\n"], false), "x-cookie: a\ncookies: b\n");
    }

    #[test]
    fn what_others_could_take_for_a_header_is_one() {
        for (said, shown) in [
            ("cookie : c\nhost: a\n", "cookie : *\nhost: a\n"),
            ("cookie\t:c\n", "cookie\t:*\n"),
            (" Cookie: c\n", " Cookie: *\n"),
            ("\0\u{b}Cookie: c\n", "\0\u{b}Cookie: *\n"),
            ("Authorization;: c\n", "Authorization;: *\n"),
            ("host: a\rCookie: c\r\n", "host: a\rCookie: *\r\n"),
            ("Cookie: a\r\n b\r\n\tc\r\nhost: d\r\n", "Cookie: *\r\n**\r\n**\r\nhost: d\r\n"),
            ("Cookie: a\n b\nhost: d\n", "Cookie: *\n**\nhost: d\n"),
            ("Cookie: a\rb\n", "Cookie: *\r*\n"),
            ("Cookie:\r\n b\r\n", "Cookie:\r\n**\r\n"),
        ] {
            assert_eq!(covered(&[said], false), shown, "{said:?}");
            let single: Vec<_> = (0..said.len()).map(|at| &said[at..=at]).collect();
            assert_eq!(covered(&single, false), shown, "{said:?}, byte by byte");
        }
        assert_eq!(covered(&["\u{feff}\u{a0}Cookie: c\n"], false), "\u{feff}\u{a0}Cookie: *\n");
        // And where the beginning of a value is lost, what continues it.
        assert_eq!(covered(&["cret\r\n more\r\nhost: a\r\n"], true), "****\r\n*****\r\nhost: a\r\n");
    }

    #[test]
    #[should_panic(expected = "\"a b:\" is not the name of a header")]
    fn a_name_that_no_header_can_have_is_refused() {
        let _ = Redaction::none().header("a b:");
    }

    #[test]
    fn a_value_is_covered_wherever_the_stream_is_split() {
        for first in 0..HEAD.len() {
            for second in first..HEAD.len() {
                let pieces = [&HEAD[..first], &HEAD[first..second], &HEAD[second..]];
                assert_eq!(covered(&pieces, false), SHOWN, "split at {first} and {second}");
            }
        }
    }

    #[test]
    fn behind_bytes_that_are_missing_everything_is_covered_up_to_the_next_line() {
        assert_eq!(covered(&["secret\r\nhost: a\r\n"], true), "******\r\nhost: a\r\n");
        let rules = Redaction::http();
        let mut redacting = rules.begin(false);
        let mut first = b"Set-Cook".to_vec();
        redacting.piece(Direction::Out, &mut first, false);
        let mut second = b"ret\nyes\n".to_vec();
        redacting.piece(Direction::Out, &mut second, true);
        assert_eq!(second, b"***\nyes\n");
    }

    #[test]
    fn what_comes_in_and_what_goes_out_are_lines_of_their_own() {
        let rules = Redaction::http();
        let mut redacting = rules.begin(false);
        let (mut one, mut two, mut three) = (b"Cookie: a".to_vec(), b"b\n".to_vec(), b"c\n".to_vec());
        redacting.piece(Direction::In, &mut one, true);
        redacting.piece(Direction::Out, &mut two, true);
        redacting.piece(Direction::In, &mut three, true);
        assert_eq!((&one[..], &two[..], &three[..]), (&b"Cookie: *"[..], &b"b\n"[..], &b"*\n"[..]));
    }
}

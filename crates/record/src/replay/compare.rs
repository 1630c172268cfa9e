//! Compares what went out in two recordings, byte by byte, as strictly as it is asked for.
//!
//! Bytes that one side does not know (of files, of pieces that were cut) may be any on the other. Values of named headers may differ, also in
//! their length: both sides skip to the end of the line. What a recording has covered with `*` is not known either.

use super::difference::{Context, Difference};
use crate::{Cause, Recording, Seen, redact::COVER};

/// Two recordings that are about to be compared: the first one is what is expected. Made by [`Recording::compare`] and
/// [`Replayed::compare`](crate::Replayed::compare).
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::FlightRecorder;
///
/// let record = |reply: &'static str| {
///     let flight = FlightRecorder::builder().build();
///     let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(move |cx, _: bytes::BytesMut| cx.write(reply)));
///     channel.write_inbound("?");
///     flight.live()[0].recording()
/// };
/// let (yesterday, today) = (record("date: yesterday\r\n\r\nhello"), record("date: today\r\n\r\nhello"));
/// assert!(yesterday.compare(&today).check().is_err());
/// yesterday.compare(&today).ignore_header("Date").check()?;
/// # Ok::<(), netwright_record::Difference>(())
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is compared before `check`"]
pub struct Comparison<'a> {
    expected: &'a Recording,
    again: &'a Recording,
    headers: Vec<String>,
    pieces: bool,
    end: bool,
    more_may_come: bool,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(expected: &'a Recording, again: &'a Recording) -> Self {
        let headers = expected.redacted().chain(again.redacted()).map(str::to_ascii_lowercase).collect();
        Self { expected, again, headers, pieces: false, end: false, more_may_come: false }
    }

    /// The value of headers of this name may differ. Those that a recording has covered may anyway.
    pub fn ignore_header(mut self, name: impl AsRef<str>) -> Self {
        self.headers.push(name.as_ref().trim().to_ascii_lowercase());
        self
    }

    /// The bytes have to go out in the same pieces. If not said, how they are cut does not matter.
    pub fn in_the_same_pieces(mut self) -> Self {
        self.pieces = true;
        self
    }

    /// The channel has to end for a reason of the same kind, or not at all.
    pub fn with_the_same_end(mut self) -> Self {
        self.end = true;
        self
    }

    /// If the recording does not tell of the channel's end, because it was written by hand or its file is cut, more may go out than it
    /// knows of.
    pub fn as_far_as_recorded(mut self) -> Self {
        self.more_may_come = true;
        self
    }

    /// Compares.
    ///
    /// # Errors
    /// Where they differ first.
    pub fn check(self) -> Result<(), Difference> {
        let (expected, again) = (Output::of(self.expected), Output::of(self.again));
        match expected.compare(&again, &self.headers) {
            Err(Difference::More { .. }) if self.more_may_come && end_of(self.expected).is_none() => {}
            other => other?,
        }
        if self.pieces {
            expected.compare_pieces(&again)?;
        }
        match self.end {
            true => compare_ends(end_of(self.expected), end_of(self.again)),
            false => Ok(()),
        }
    }

    /// Compares, for a test.
    ///
    /// # Panics
    /// They differ.
    #[track_caller]
    pub fn assert_same(self) {
        if let Err(difference) = self.check() {
            panic!("{difference}");
        }
    }
}

fn end_of(recording: &Recording) -> Option<Cause> {
    recording.records().find_map(|record| match record.what {
        Seen::Inactive(cause) => Some(cause),
        Seen::Panicked(text) => Some(Cause { kind: crate::CauseKind::Panicked, text }),
        _ => None,
    })
}

fn compare_ends(recorded: Option<Cause>, now: Option<Cause>) -> Result<(), Difference> {
    if recorded.as_ref().map(|cause| cause.kind) == now.as_ref().map(|cause| cause.kind) {
        return Ok(());
    }
    let text = |cause: Option<Cause>| cause.map(|cause| cause.text);
    Err(Difference::End { recorded: text(recorded), now: text(now) })
}

/// All that went out, as one.
#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    /// Behind which byte how many are not known, in order.
    gaps: Vec<(usize, u64)>,
    /// Bytes that are covered may be any.
    covered: bool,
    pieces: Vec<u64>,
}

impl Output {
    fn of(recording: &Recording) -> Self {
        let mut output = Self { covered: recording.is_redacted(), ..Self::default() };
        for record in recording.records() {
            match record.what {
                Seen::Written(piece) => {
                    output.bytes.extend_from_slice(&piece.bytes);
                    output.pieces.push(piece.len);
                    output.gap(piece.len - piece.bytes.len() as u64);
                }
                Seen::File(len) => {
                    output.pieces.push(len);
                    output.gap(len);
                }
                _ => {}
            }
        }
        output
    }

    fn gap(&mut self, len: u64) {
        match self.gaps.last_mut() {
            _ if len == 0 => {}
            Some((at, before)) if *at == self.bytes.len() => *before = before.saturating_add(len),
            _ => self.gaps.push((self.bytes.len(), len)),
        }
    }

    fn compare(&self, now: &Self, headers: &[String]) -> Result<(), Difference> {
        let (mut here, mut there) = (Cursor::of(self), Cursor::of(now));
        loop {
            if here.line_begins && there.line_begins {
                skip_value(&mut here, &mut there, headers);
            }
            let context = |here: &Cursor<'_>, there: &Cursor<'_>| {
                Context::around(&self.bytes, here.at, &now.bytes, there.at)
            };
            match (here.left(), there.left()) {
                (Left::Nothing, Left::Nothing) => return Ok(()),
                (Left::Nothing, _) => {
                    let (recorded, now_len) = (here.position, there.total());
                    return Err(Difference::More { recorded, now: now_len, context: context(&here, &there) });
                }
                (_, Left::Nothing) => {
                    let (recorded, now_len) = (here.total(), there.position);
                    return Err(Difference::Missing {
                        recorded,
                        now: now_len,
                        context: context(&here, &there),
                    });
                }
                (Left::Unknown(a), Left::Unknown(b)) => {
                    here.skip_unknown(a.min(b));
                    there.skip_unknown(a.min(b));
                }
                (Left::Unknown(_), Left::Byte(_)) => {
                    here.skip_unknown(1);
                    there.next();
                }
                (Left::Byte(_), Left::Unknown(_)) => {
                    here.next();
                    there.skip_unknown(1);
                }
                (Left::Byte(a), Left::Byte(b)) => {
                    let covered = self.covered && a == COVER || now.covered && b == COVER;
                    if a != b && !covered {
                        let (at, now_at) = (here.position, there.position);
                        return Err(Difference::Byte { at, now_at, context: context(&here, &there) });
                    }
                    here.next();
                    there.next();
                }
            }
        }
    }

    fn compare_pieces(&self, now: &Self) -> Result<(), Difference> {
        let most = self.pieces.len().max(now.pieces.len());
        for index in 0..most {
            let (recorded, now) = (self.pieces.get(index).copied(), now.pieces.get(index).copied());
            if recorded != now {
                return Err(Difference::Pieces { index, recorded, now });
            }
        }
        Ok(())
    }
}

/// Where we are in an output.
struct Cursor<'a> {
    output: &'a Output,
    at: usize,
    /// Which gap comes next, and how much of it was skipped.
    gap: usize,
    skipped: u64,
    /// How many bytes went out before, known or not.
    position: u64,
    line_begins: bool,
}

enum Left {
    Nothing,
    Byte(u8),
    Unknown(u64),
}

impl<'a> Cursor<'a> {
    fn of(output: &'a Output) -> Self {
        Self { output, at: 0, gap: 0, skipped: 0, position: 0, line_begins: true }
    }

    fn left(&self) -> Left {
        match self.output.gaps.get(self.gap) {
            Some(&(at, len)) if at == self.at => Left::Unknown(len - self.skipped),
            _ => self.output.bytes.get(self.at).map_or(Left::Nothing, |&byte| Left::Byte(byte)),
        }
    }

    fn next(&mut self) {
        self.line_begins = self.output.bytes[self.at] == b'\n';
        self.at += 1;
        self.position += 1;
    }

    fn skip_unknown(&mut self, len: u64) {
        self.skipped += len;
        self.position += len;
        self.line_begins = false;
        if self.output.gaps.get(self.gap).is_some_and(|&(_, whole)| whole == self.skipped) {
            self.gap += 1;
            self.skipped = 0;
        }
    }

    /// How many bytes there are from here to the next gap, or to the end.
    fn known(&self) -> &'a [u8] {
        let end = self.output.gaps.get(self.gap).map_or(self.output.bytes.len(), |&(at, _)| at);
        &self.output.bytes[self.at..end]
    }

    fn total(&self) -> u64 {
        self.output.pieces.iter().fold(0, |sum, len| sum.saturating_add(*len))
    }

    fn skip_bytes(&mut self, len: usize) {
        (0..len).for_each(|_| self.next());
    }
}

/// If both lines are of the same header, and its value may differ: on to the ends of both.
fn skip_value(here: &mut Cursor<'_>, there: &mut Cursor<'_>, headers: &[String]) {
    for header in headers {
        if let (Some(first), Some(second)) = (value_of(here.known(), header), value_of(there.known(), header))
        {
            here.skip_bytes(first);
            there.skip_bytes(second);
            return;
        }
    }
}

/// Where the line ends, if it is one of this header: what ends it is compared again.
fn value_of(line: &[u8], header: &str) -> Option<usize> {
    let name = line.get(..header.len())?;
    if !name.eq_ignore_ascii_case(header.as_bytes()) || line.get(header.len()) != Some(&b':') {
        return None;
    }
    let end = memchr::memchr(b'\n', line).unwrap_or(line.len());
    Some(if end > 0 && line[end - 1] == b'\r' { end - 1 } else { end })
}

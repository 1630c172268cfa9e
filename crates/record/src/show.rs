//! A recording as text for people: who said what, when, how much.
//!
//! What peers have sent cannot command a terminal: everything but printable text is escaped, or shown as hexadecimal digits.

use crate::{Ending, Piece, Record, Recording, Seen};
use std::fmt::{self, Write};

/// Bytes of one line of hexadecimal digits.
const HEX_LINE: usize = 16;
/// Of more bytes than one in eight that are no text, nobody reads the rest as text.
const STRANGE_SHARE: usize = 8;

/// A recording as text: a line for each thing that happened, and the bytes below it. Made by [`Recording::show`].
///
/// ```
/// use netwright_core::{EmbeddedChannel, pipeline};
/// use netwright_record::FlightRecorder;
///
/// let flight = FlightRecorder::builder().build();
/// let mut channel = EmbeddedChannel::new(pipeline().add(flight.stage()).handle(|cx, bytes| cx.write_and_flush(bytes)));
/// channel.write_inbound("hello\r\n");
/// let text = flight.live()[0].recording().show().to_string();
/// assert!(text.contains("0.000000  in   7 bytes\n               hello\\r\\n\n"), "{text}");
/// ```
#[derive(Debug, Clone)]
pub struct Conversation<'a> {
    recording: &'a Recording,
    bytes_max: usize,
}

impl Recording {
    /// The recording as text.
    pub fn show(&self) -> Conversation<'_> {
        Conversation { recording: self, bytes_max: 512 }
    }
}

impl Conversation<'_> {
    /// How many bytes of each piece are shown: 512 unless said otherwise.
    pub fn bytes_of_each(mut self, most: usize) -> Self {
        self.bytes_max = most;
        self
    }
}

impl fmt::Display for Conversation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recording = self.recording;
        for (name, value) in recording.metas() {
            writeln!(f, "{:<9} {}", Escaped(name.as_bytes()).to_string(), Escaped(value.as_bytes()))?;
        }
        if let Some(why) = recording.why() {
            writeln!(f, "written   because of: {why}")?;
        }
        if let Some((records, bytes)) = recording.lost() {
            writeln!(f, "lost      its beginning: {records} records with {bytes} bytes")?;
        }
        for record in recording.records() {
            self.show_record(f, &record)?;
        }
        match recording.ending() {
            Ending::Complete => Ok(()),
            Ending::Cut => writeln!(f, "The file is cut: this is as far as it goes."),
            Ending::Damaged { at } => {
                writeln!(f, "The file is damaged at byte {at}: this is as far as it can be read.")
            }
        }
    }
}

impl Conversation<'_> {
    fn show_record(&self, f: &mut fmt::Formatter<'_>, record: &Record) -> fmt::Result {
        write!(f, "{:>13.6}  ", record.at.as_secs_f64())?;
        match &record.what {
            Seen::Active => writeln!(f, "connected"),
            Seen::Read(piece) => self.show_piece(f, "in ", piece),
            Seen::Written(piece) => self.show_piece(f, "out", piece),
            Seen::File(len) => writeln!(f, "out  {} of a file", count(*len)),
            Seen::Flush => writeln!(f, "out  flushed"),
            Seen::InputClosed => writeln!(f, "in   the peer sends no more"),
            Seen::Writable(true) => writeln!(f, "there is room to write again"),
            Seen::Writable(false) => writeln!(f, "too much waits to be sent"),
            Seen::Error(text) => writeln!(f, "error: {}", Escaped(text.as_bytes())),
            Seen::Close(cause) => writeln!(f, "our side closes: {}", Escaped(cause.text.as_bytes())),
            Seen::OutputShutDown => writeln!(f, "out  our side sends no more"),
            Seen::Inactive(cause) => writeln!(f, "ended: {}", Escaped(cause.text.as_bytes())),
            Seen::Panicked(text) => writeln!(f, "a handler panicked: {}", Escaped(text.as_bytes())),
        }
    }

    fn show_piece(&self, f: &mut fmt::Formatter<'_>, way: &str, piece: &Piece) -> fmt::Result {
        write!(f, "{way}  {}", count(piece.len))?;
        if !piece.is_whole() {
            write!(f, ", of which {} were kept", count(piece.bytes.len() as u64))?;
        }
        writeln!(f)?;
        let shown = &piece.bytes[..piece.bytes.len().min(self.bytes_max)];
        match is_text(shown) {
            true => show_lines(f, shown)?,
            false => show_hex(f, shown)?,
        }
        match piece.bytes.len() - shown.len() {
            0 => Ok(()),
            more => writeln!(f, "{:15}… {} more", "", count(more as u64)),
        }
    }
}

fn count(len: u64) -> String {
    if len == 1 { "1 byte".to_owned() } else { format!("{len} bytes") }
}

fn is_text(bytes: &[u8]) -> bool {
    let strange = |byte: &&u8| !matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    bytes.iter().filter(strange).count() <= bytes.len() / STRANGE_SHARE
}

fn show_lines(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        writeln!(f, "{:15}{}", "", Escaped(line))?;
    }
    Ok(())
}

fn show_hex(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for (index, line) in bytes.chunks(HEX_LINE).enumerate() {
        write!(f, "{:15}{:06x}  ", "", index * HEX_LINE)?;
        for place in 0..HEX_LINE {
            match line.get(place) {
                Some(byte) => write!(f, "{byte:02x} ")?,
                None => f.write_str("   ")?,
            }
        }
        f.write_char(' ')?;
        for byte in line {
            f.write_char(if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' })?;
        }
        writeln!(f)?;
    }
    Ok(())
}

/// Bytes as text in which nothing is left that a terminal would do something for.
pub(crate) struct Escaped<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for letter in chunk.valid().chars() {
                match letter {
                    '\r' => f.write_str("\\r")?,
                    '\n' => f.write_str("\\n")?,
                    '\t' => f.write_str("\\t")?,
                    '\\' => f.write_str("\\\\")?,
                    letter if letter.is_control() || is_of_direction(letter) => {
                        write!(f, "\\u{{{:x}}}", u32::from(letter))?;
                    }
                    letter => f.write_char(letter)?,
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// Letters that turn round what stands behind them.
fn is_of_direction(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_commands_a_terminal() {
        let shown = Escaped("a\x1b[2Jb\u{9b}c\u{202e}d\\é".as_bytes()).to_string();
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{9b}c\\u{202e}d\\\\é");
        assert_eq!(Escaped(b"\xff\x00").to_string(), "\\xff\\u{0}");
    }

    #[test]
    fn bytes_that_are_no_text_are_shown_as_digits() {
        assert!(is_text(b"GET / HTTP/1.1\r\n") && !is_text("für".as_bytes().repeat(9).as_slice()));
        assert!(!is_text(&[0x81, 0x05, b'h', b'e', b'l', b'l', b'o', 0]));
    }
}

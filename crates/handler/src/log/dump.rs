//! Bytes as people read them.

use std::fmt::Write;

/// Bytes on one line of a dump.
const LINE: usize = 16;

/// Lines of hexadecimal numbers, each with its offset and with the letters that they are; then how many more there are.
pub(super) fn hex(bytes: &[u8], cut: usize) -> String {
    let mut dump = String::with_capacity(bytes.len().div_ceil(LINE) * 79 + 24);
    for (index, line) in bytes.chunks(LINE).enumerate() {
        let _ = write!(dump, "\n{:08x} ", index * LINE); // to a string, which does not fail
        for column in 0..LINE {
            if column % 8 == 0 {
                dump.push(' ');
            }
            match line.get(column) {
                Some(byte) => {
                    let _ = write!(dump, "{byte:02x} ");
                }
                None => dump.push_str("   "),
            }
        }
        dump.push_str(" |");
        dump.extend(line.iter().map(|byte| match byte {
            0x20..=0x7e => char::from(*byte),
            _ => '.',
        }));
        dump.push('|');
    }
    if cut > 0 {
        let _ = write!(dump, "\n… and {cut} bytes more");
    }
    dump
}

/// Text in quotes on one line; what cannot be printed is escaped, also what is not UTF-8.
pub(super) fn text(bytes: &[u8], cut: usize) -> String {
    let mut line = String::with_capacity(bytes.len() + 24);
    line.push('"');
    for chunk in bytes.utf8_chunks() {
        let _ = write!(line, "{}", chunk.valid().escape_debug());
        for byte in chunk.invalid() {
            let _ = write!(line, "\\x{byte:02x}");
        }
    }
    line.push('"');
    if cut > 0 {
        let _ = write!(line, "… and {cut} bytes more");
    }
    line
}

/// What a `Debug` has written, on one line: nothing in it can be taken for an event of its own.
pub(super) fn debug(bytes: &[u8], cut: bool) -> String {
    let mut line: String = String::from_utf8_lossy(bytes)
        .chars()
        .flat_map(|char| {
            let (plain, escaped) = match char.is_control() {
                true => (None, Some(char.escape_default())),
                false => (Some(char), None),
            };
            plain.into_iter().chain(escaped.into_iter().flatten())
        })
        .collect();
    if cut {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_has_sixteen_bytes_on_a_line_and_says_what_is_missing() {
        let bytes: Vec<u8> = (b'a'..=b'z').chain([0, 10, 255]).collect();
        assert_eq!(
            hex(&bytes, 7),
            "\n00000000  61 62 63 64 65 66 67 68  69 6a 6b 6c 6d 6e 6f 70  |abcdefghijklmnop|\
             \n00000010  71 72 73 74 75 76 77 78  79 7a 00 0a ff           |qrstuvwxyz...|\
             \n… and 7 bytes more"
        );
        assert_eq!(hex(&[], 0), "");
    }

    #[test]
    fn text_stays_on_one_line_whatever_the_bytes_are() {
        assert_eq!(text(b"hello", 0), "\"hello\"");
        assert_eq!(text("grün\r\n\x1b[31m\0".as_bytes(), 0), r#""grün\r\n\u{1b}[31m\0""#);
        assert_eq!(text(b"\xff\xfe \"x\"", 3), r#""\xff\xfe \"x\""… and 3 bytes more"#);
        for byte in 0..=255 {
            assert!(!text(&[byte], 0).chars().any(char::is_control), "{byte}");
            assert!(!debug(&[byte], false).chars().any(char::is_control), "{byte}");
        }
    }

    #[test]
    fn what_a_debug_writes_is_left_as_it_is_but_for_control_characters() {
        assert_eq!(debug(b"Point { x: 1 }", false), "Point { x: 1 }");
        assert_eq!(debug(b"one\ntwo", true), "one\\ntwo…");
    }
}

//! What kinds of records there are, by number. `docs/recording-format.md` says what each of them holds; a number is never used again.

/// What every recording begins with: no text, and damaged by whoever changes line ends or drops the eighth bit.
pub(crate) const MAGIC: [u8; 8] = *b"\x89NWR\r\n\x1a\n";
/// The version of the format that this crate writes, and the only one that it reads.
pub(crate) const VERSION: u8 = 1;

pub(crate) const META: u8 = 1;
pub(crate) const LOST: u8 = 2;
pub(crate) const ACTIVE: u8 = 16;
pub(crate) const READ: u8 = 17;
pub(crate) const READ_CUT: u8 = 18;
pub(crate) const WRITTEN: u8 = 19;
pub(crate) const WRITTEN_CUT: u8 = 20;
pub(crate) const FILE: u8 = 21;
pub(crate) const FLUSH: u8 = 22;
pub(crate) const INPUT_CLOSED: u8 = 23;
pub(crate) const WRITABLE: u8 = 24;
pub(crate) const ERROR: u8 = 25;
pub(crate) const CLOSE: u8 = 26;
pub(crate) const OUTPUT_SHUT_DOWN: u8 = 27;
pub(crate) const INACTIVE: u8 = 28;
pub(crate) const PANICKED: u8 = 29;
/// With this bit a record of something that went out says that a flush came with it.
pub(crate) const FLUSHED_BIT: u8 = 64;
pub(crate) const END: u8 = 255;

/// Whether the kind is one of those that went out, with a flush behind it.
pub(crate) fn is_flushed(kind: u8) -> bool {
    matches!(kind & !FLUSHED_BIT, WRITTEN | WRITTEN_CUT | FILE) && kind & FLUSHED_BIT != 0
}

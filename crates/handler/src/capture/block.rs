//! Blocks of pcapng, the format of captures that Wireshark writes and reads (draft-ietf-opsawg-pcapng).
//!
//! ```text
//!   type │ length │ body, padded to 4 bytes │ options: code, length, value, padded … │ length
//! ```
//! All numbers are little-endian, which the first block says. A block is complete when it is appended: nothing is patched later.

use std::time::Duration;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const SECRETS: u32 = 10;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Packets begin with the head of IP: version 4 or 6, as its first byte says.
const LINKTYPE_RAW: u16 = 101;
/// Times count units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;
/// Secrets as lines of `SSLKEYLOGFILE`.
const TLS_KEY_LOG: u32 = 0x544c_534b;

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
/// No comment is longer.
const COMMENT_MAX: usize = 1024;

/// Which way a packet went, as `epb_flags` says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    In = 1,
    Out = 2,
}

impl Way {
    pub(super) fn other(self) -> Self {
        match self {
            Self::In => Self::Out,
            Self::Out => Self::In,
        }
    }
}

/// Appends a block whose body, options included, is what this appends: a multiple of four bytes.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let first = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = (out.len() - first + 4) as u32;
    debug_assert!(len.is_multiple_of(4), "a block of {len} bytes");
    out.extend_from_slice(&len.to_le_bytes());
    out[first + 4..first + 8].copy_from_slice(&len.to_le_bytes());
}

/// How long the block that begins here is.
pub(super) fn len_of(block: impl IntoIterator<Item = u8>) -> usize {
    let mut bytes = [0; 4];
    bytes.iter_mut().zip(block.into_iter().skip(4)).for_each(|(there, byte)| *there = byte);
    u32::from_le_bytes(bytes) as usize
}

fn pad(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&[0; 3][..len.next_multiple_of(4) - len]);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn comment(out: &mut Vec<u8>, text: &str) {
    let end = (0..=COMMENT_MAX.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    option(out, OPT_COMMENT, &text.as_bytes()[..end.unwrap_or(0)]);
}

/// What every file begins with: a section, and its one interface.
pub(super) fn preamble(out: &mut Vec<u8>) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]); // version 1.0
        out.extend_from_slice(&(-1_i64).to_le_bytes()); // a section of any length
        option(out, 4, concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).as_bytes());
        option(out, OPT_END, &[]);
    });
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&LINKTYPE_RAW.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&[0; 4]); // packets of any length
        option(out, 2, b"netwright");
        option(out, 9, &[NANOSECONDS]);
        option(out, OPT_END, &[]);
    });
}

fn time(out: &mut Vec<u8>, since_epoch: Duration) {
    let nanos = u64::try_from(since_epoch.as_nanos()).unwrap_or(u64::MAX);
    out.extend_from_slice(&((nanos >> 32) as u32).to_le_bytes());
    out.extend_from_slice(&(nanos as u32).to_le_bytes());
}

/// A packet: its head and what it carries.
pub(super) fn packet(
    out: &mut Vec<u8>,
    at: Duration,
    way: Way,
    head: &[u8],
    payload: &[u8],
    said: Option<&str>,
) {
    block(out, PACKET, |out| {
        let len = head.len() + payload.len();
        out.extend_from_slice(&0_u32.to_le_bytes()); // of the one interface
        time(out, at);
        out.extend_from_slice(&(len as u32).to_le_bytes());
        out.extend_from_slice(&(len as u32).to_le_bytes());
        out.extend_from_slice(head);
        out.extend_from_slice(payload);
        pad(out, len);
        option(out, 2, &(way as u32).to_le_bytes());
        if let Some(text) = said {
            comment(out, text);
        }
        option(out, OPT_END, &[]);
    });
}

/// Lines of a key log.
pub(super) fn secrets(out: &mut Vec<u8>, lines: &[u8]) {
    block(out, SECRETS, |out| {
        out.extend_from_slice(&TLS_KEY_LOG.to_le_bytes());
        out.extend_from_slice(&(lines.len() as u32).to_le_bytes());
        out.extend_from_slice(lines);
        pad(out, lines.len());
    });
}

/// How many packets there were, and how many of them are not in the file.
pub(super) fn statistics(out: &mut Vec<u8>, at: Duration, packets: u64, lost: u64, said: &str) {
    block(out, STATISTICS, |out| {
        out.extend_from_slice(&0_u32.to_le_bytes());
        time(out, at);
        option(out, 4, &packets.to_le_bytes());
        option(out, 5, &lost.to_le_bytes());
        comment(out, said);
        option(out, OPT_END, &[]);
    });
}

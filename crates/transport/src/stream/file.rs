//! Files for streams that carry bytes only, and files that cannot be sent.

use super::open_envelope;
use bytes::Bytes;
use netwright_core::{Outbound, WriteError};
use std::io;

/// The most that is read from a file at once.
const FILE_CHUNK: usize = 64 * 1024;

/// The next bytes to be sent, whatever they are part of: for streams that carry bytes and nothing else. What was taken of them is said by
/// [`Outbound::advance`], with the bytes dropped before: whoever is told that they were sent may count on having them back. None: nothing flushed is left.
///
/// Of a file it reads the next part, `file_max` bytes at most. What cannot be sent (a file that cannot be read, an envelope with
/// descriptors or to somebody else) fails, and is followed by what is behind it; errors name the `transport`: `"a pipe"`.
///
/// # Errors
/// A file has failed in the middle of a message, so the connection has to end.
pub fn next_bytes(
    outbound: &mut Outbound,
    transport: &'static str,
    file_max: usize,
) -> io::Result<Option<Bytes>> {
    loop {
        if let Some(bytes) = outbound.first_bytes() {
            return Ok(Some(bytes.clone()));
        }
        if outbound.first_envelope().is_some() {
            open_envelope(outbound, transport);
        } else if outbound.first_file().is_none() {
            return Ok(None);
        } else if let Some(bytes) = read_file(outbound, file_max)? {
            return Ok(Some(bytes));
        }
    }
}

/// The next part of the first file. If there is none, its promise has failed.
pub(crate) fn read_file(outbound: &mut Outbound, max: usize) -> io::Result<Option<Bytes>> {
    let Some(region) = outbound.first_file() else { return Ok(None) };
    let error = match region.read_chunk(max.min(FILE_CHUNK)) {
        Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
        Ok(_) => region.ended_early(),
        Err(error) => error,
    };
    fail_file(outbound, error).map(|()| None)
}

/// The file at the front cannot be read: its write fails. `Err`: a part of its message is with the peer already, who would take
/// what comes next for the rest of it, so the connection has to end.
#[cold]
pub(crate) fn fail_file(outbound: &mut Outbound, error: io::Error) -> io::Result<()> {
    let breaks_off = outbound.first_file().and_then(|region| region.breaks_off(&error));
    outbound.fail_first(WriteError::File(error.into()));
    breaks_off.map_or(Ok(()), Err)
}

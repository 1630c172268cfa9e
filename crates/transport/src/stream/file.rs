//! Files that cannot be sent.

use netwright_core::{Outbound, WriteError};
use std::io;

/// The file at the front cannot be read: its write fails. `Err`: a part of its message is with the peer already, who would take
/// what comes next for the rest of it, so the connection has to end.
#[cold]
pub(crate) fn fail_file(outbound: &mut Outbound, error: io::Error) -> io::Result<()> {
    let breaks_off = outbound.first_file().and_then(|region| region.breaks_off(&error));
    outbound.fail_first(WriteError::File(error.into()));
    breaks_off.map_or(Ok(()), Err)
}

//! Files that cannot be sent.

use netwright_core::{FileRegion, Outbound, WriteError};
use std::{io, sync::Arc};

/// The file at the front cannot be read: its write fails. `Err`: a part of its message is with the peer already, who would take
/// what comes next for the rest of it, so the connection has to end.
#[cold]
pub(crate) fn fail_file(outbound: &mut Outbound, error: io::Error) -> io::Result<()> {
    let begun = outbound.first_file().is_some_and(FileRegion::is_begun);
    let error = Arc::new(error);
    outbound.fail_first(WriteError::File(error.clone()));
    if begun {
        let text = format!("a file failed when a part of its message was sent: {error}");
        return Err(io::Error::new(error.kind(), text));
    }
    Ok(())
}

//! Addresses on the command line.

use crate::failure::Failure;

/// Refuses names within a process: this program would be alone with them.
pub(crate) fn refuse_local(address: &str) -> Result<(), Failure> {
    if address.starts_with("local:") {
        let text =
            "is a name within one process, which no other program can reach; take HOST:PORT or unix:PATH";
        return Err(Failure::usage(format!("{address} {text}")));
    }
    Ok(())
}

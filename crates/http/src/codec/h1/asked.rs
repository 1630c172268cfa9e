//! What a reply depends on, beside itself: known to who asked, and to who answers.

use http::StatusCode;

/// What was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Asked {
    /// The reply has no body, whatever its headers say.
    pub(crate) head: bool,
    /// A 2xx ends HTTP on this connection.
    pub(crate) connect: bool,
    /// A 101 does.
    pub(crate) upgrade: bool,
    /// HTTP/1.0: no chunks, and `Connection: keep-alive` has to be said.
    pub(crate) http10: bool,
    /// The connection ends with the reply.
    pub(crate) close: bool,
    /// Who asked may wait for a 100 before it sends the body.
    pub(crate) expects: bool,
}

impl Asked {
    /// Whether what follows a reply of this status is not HTTP.
    pub(crate) fn switches(self, status: StatusCode) -> bool {
        status == StatusCode::SWITCHING_PROTOCOLS || self.connect && status.is_success()
    }
}

/// Whether replies of this status have no body, whoever asked for what.
pub(crate) fn is_bodiless(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT || status == StatusCode::NOT_MODIFIED
}

//! What a stream of bytes stands on: the halves of an async tail's peer, which stay on their loop, or ones that may be anywhere.

use bytes::{Bytes, BytesMut};
use netwright_core::{CloseCause, PeerReader, PeerWriter, Written};
use std::task::{Context, Poll};

/// Where a [`PeerRead`](crate::PeerRead) has its bytes from. Nobody else can implement it.
pub trait Reads: Unpin + sealed::Sealed {
    #[doc(hidden)]
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<BytesMut>, CloseCause>>;
}

/// Where a [`PeerWrite`](crate::PeerWrite) has room for its bytes. Nobody else can implement it.
pub trait Writes: Unpin + sealed::Sealed {
    #[doc(hidden)]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>>;
    #[doc(hidden)]
    fn write_now(&mut self, bytes: Bytes);
    #[doc(hidden)]
    fn write_tracked(&mut self, bytes: Bytes) -> Written;
    #[doc(hidden)]
    fn flush(&mut self);
    /// Sees to it that what was written is sent without anybody waiting for it.
    #[doc(hidden)]
    fn flush_soon(&mut self);
    #[doc(hidden)]
    fn shut_down_output(&mut self);
}

pub(crate) mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for PeerReader {}

impl Reads for PeerReader {
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<BytesMut>, CloseCause>> {
        PeerReader::poll_read(self, cx)
    }
}

impl sealed::Sealed for PeerWriter {}

impl Writes for PeerWriter {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        PeerWriter::poll_ready(self, cx)
    }
    fn write_now(&mut self, bytes: Bytes) {
        PeerWriter::write_now(self, bytes);
    }
    fn write_tracked(&mut self, bytes: Bytes) -> Written {
        PeerWriter::write_now_tracked(self, bytes)
    }
    fn flush(&mut self) {
        PeerWriter::flush(self);
    }
    /// The tail sends it when it waits next.
    fn flush_soon(&mut self) {}
    fn shut_down_output(&mut self) {
        PeerWriter::shut_down_output(self);
    }
}

//! tokio's traits. A flush is done when the system has taken what was written, a shutdown when the peer is about to learn
//! of it.

use crate::{
    PeerIo, PeerRead, PeerWrite,
    ends::{Reads, Writes},
};
use bytes::Buf;
use std::{
    io::{IoSlice, Result},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

impl<R: Reads> AsyncRead for PeerRead<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(())); // nothing is asked for
        }
        let rest = ready!(self.poll_rest(cx))?;
        let len = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..len]);
        rest.advance(len);
        Poll::Ready(Ok(()))
    }
}

byte_streams!(ReadBuf<'_>, (), poll_shutdown, {
    fn is_write_vectored(&self) -> bool {
        true
    }
});

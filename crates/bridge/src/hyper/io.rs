//! hyper's I/O traits.
//!
//! hyper flushes after every response and only wants it to be on its way, so a flush here is done at once: the tail sends
//! what was written when it waits next, which is when hyper has nothing left to do. Room to write is what holds hyper back,
//! and a shutdown comes after everything that was written. No write is tracked, so a response costs no promise and no
//! second poll of the connection.

use crate::{
    PeerIo, PeerRead, PeerWrite,
    ends::{Reads, Writes},
};
use bytes::Buf;
use hyper::rt::{Read, ReadBufCursor, Write};
use std::{
    io::{IoSlice, Result},
    pin::Pin,
    task::{Context, Poll, ready},
};

impl<R: Reads> Read for PeerRead<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
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

impl<W: Writes> Write for PeerWrite<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        PeerWrite::poll_write(&mut self, cx, buf, false)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        PeerWrite::poll_write_vectored(&mut self, cx, bufs, false)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.flush_soon();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.shut_down();
        Poll::Ready(Ok(()))
    }
}

impl<R: Reads, W: Writes> Read for PeerIo<R, W> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.read).poll_read(cx, buf)
    }
}

impl<R: Reads, W: Writes> Write for PeerIo<R, W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        self.write.poll_write(cx, buf, false)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.write.poll_write_vectored(cx, bufs, false)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.write.flush_soon();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        self.write.shut_down();
        Poll::Ready(Ok(()))
    }
}

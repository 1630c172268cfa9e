//! The traits of `futures-io`. A flush is done when the system has taken what was written, a close (of the output)
//! when the peer is about to learn
//! of it.

use crate::{
    PeerIo, PeerRead, PeerWrite,
    ends::{Reads, Writes},
};
use bytes::Buf;
use futures_io::{AsyncBufRead, AsyncRead, AsyncWrite};
use std::{
    io::{IoSlice, Result},
    pin::Pin,
    task::{Context, Poll, ready},
};

impl<R: Reads> AsyncRead for PeerRead<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0)); // nothing is asked for
        }
        let rest = ready!(self.poll_rest(cx))?;
        let len = rest.len().min(buf.len());
        rest.copy_to_slice(&mut buf[..len]);
        Poll::Ready(Ok(len))
    }
}

impl<R: Reads> AsyncBufRead for PeerRead<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<&[u8]>> {
        self.get_mut().poll_rest(cx).map_ok(|rest| &**rest)
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        self.rest.advance(amount);
    }
}

impl<W: Writes> AsyncWrite for PeerWrite<W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        PeerWrite::poll_write(&mut self, cx, buf, true)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        PeerWrite::poll_write_vectored(&mut self, cx, bufs, true)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        PeerWrite::poll_flush(&mut self, cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.poll_shut_down(cx)
    }
}

impl<R: Reads, W: Writes> AsyncRead for PeerIo<R, W> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<Result<usize>> {
        Pin::new(&mut self.read).poll_read(cx, buf)
    }
}

impl<R: Reads, W: Writes> AsyncBufRead for PeerIo<R, W> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<&[u8]>> {
        Pin::new(&mut self.get_mut().read).poll_fill_buf(cx)
    }

    fn consume(mut self: Pin<&mut Self>, amount: usize) {
        Pin::new(&mut self.read).consume(amount);
    }
}

impl<R: Reads, W: Writes> AsyncWrite for PeerIo<R, W> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        self.write.poll_write(cx, buf, true)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.write.poll_write_vectored(cx, bufs, true)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.write.poll_flush(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.write.poll_shut_down(cx)
    }
}

//! The traits of `futures-io`. A flush is done when the system has taken what was written, a close (of the output) when
//! the peer is about to learn of it.

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

byte_streams!([u8], usize, poll_close, {});

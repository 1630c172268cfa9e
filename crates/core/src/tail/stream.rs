//! Peers as streams and sinks of the `futures` crates.

use super::{Peer, PeerReader, PeerWriter};
use crate::channel::CloseCause;
use futures_core::Stream;
use futures_sink::Sink;
use std::{
    pin::Pin,
    task::{Context, Poll},
};

/// Ends with the peer's end; any other end of the channel is an error first.
impl<R: 'static, W: 'static> Stream for PeerReader<R, W> {
    type Item = Result<R, CloseCause>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_read(cx).map(Result::transpose)
    }
}

impl<R: 'static, W: 'static> Stream for Peer<R, W> {
    type Item = Result<R, CloseCause>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.halves().0.poll_read(cx).map(Result::transpose)
    }
}

/// Ready while there is room to write. Flushing asks for it and does not wait; closing waits for the end of the channel.
impl<R: 'static, W: 'static> Sink<W> for PeerWriter<R, W> {
    type Error = CloseCause;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        PeerWriter::poll_ready(&mut self, cx)
    }

    fn start_send(mut self: Pin<&mut Self>, msg: W) -> Result<(), CloseCause> {
        self.write_now(msg);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        self.flush();
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        self.close_when_flushed();
        self.poll_closed(cx).map(|_| Ok(()))
    }
}

impl<R: 'static, W: 'static> Sink<W> for Peer<R, W> {
    type Error = CloseCause;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        self.halves().1.poll_ready(cx)
    }

    fn start_send(mut self: Pin<&mut Self>, msg: W) -> Result<(), CloseCause> {
        self.halves().1.write_now(msg);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        self.flush();
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<(), CloseCause>> {
        self.close_when_flushed();
        self.halves().1.poll_closed(cx).map(|_| Ok(()))
    }
}

//! What the traits of tokio and of `futures-io` share word for word.

/// Implements `AsyncBufRead` and `AsyncWrite` for the halves, and all three traits for both of them together, with the traits that are
/// in scope: `$room` is what a read is given and `$read` what it returns, `$close` ends the output, `$more` stands in `AsyncWrite` alone.
macro_rules! byte_streams {
    ($room:ty, $read:ty, $close:ident, { $($more:tt)* }) => {
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
            fn $close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                self.poll_shut_down(cx)
            }
            $($more)*
        }

        impl<R: Reads, W: Writes> AsyncRead for PeerIo<R, W> {
            fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut $room) -> Poll<Result<$read>> {
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
            fn $close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
                self.write.poll_shut_down(cx)
            }
            $($more)*
        }
    };
}

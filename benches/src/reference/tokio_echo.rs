//! Plain tokio, written the fast way: one thread, a task for each connection.
//!
//! What makes it fast: `read` (unlike `readable` and `try_read`) takes a short read for the end and saves the `recv` that
//! would only hear `WouldBlock`; the buffer is large, made once and not cleared before each read; the runtime looks for
//! events when its tasks have run, not after every 61st.

use std::{io, net::TcpListener};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    runtime,
};

const BUFFER: usize = 64 * 1024;
/// More tasks than any scenario has connections.
const EVENT_INTERVAL: u32 = 1024;

/// Echoes on the calling thread until accepting fails.
pub fn serve(listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime =
        runtime::Builder::new_current_thread().enable_io().event_interval(EVENT_INTERVAL).build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(echo(stream));
        }
    })
}

/// Ends with the connection: there is nobody who would want to know why.
async fn echo(mut stream: TcpStream) {
    let mut buffer = Vec::with_capacity(BUFFER);
    while let Ok(1..) = stream.read_buf(&mut buffer).await {
        if stream.write_all(&buffer).await.is_err() {
            break;
        }
        buffer.clear();
    }
}

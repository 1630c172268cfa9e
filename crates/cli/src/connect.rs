//! `netwright connect`: standard input to a peer, the peer to standard output.
//!
//! ```text
//!   stdin ── a thread, one chunk at a time ──▶ Channel ──▶ peer
//!   stdout ◀── this thread ◀── news ◀── Listener ◀── one read for each request ── peer
//! ```
//! Whoever is slow slows down the other: the next chunk is read from standard input when the socket has taken the one
//! before, and the peer is read again when standard output has taken what came.

use crate::{address::refuse_local, failure::Failure, through::ProxyArguments};
use bytes::{Bytes, BytesMut};
use clap::Args;
use netwright::{AppContext, Application, Channel, Client, CloseCause, pipeline};
use std::{
    io::{self, Read, Write},
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

/// Talk to a server: standard input goes to it, its answers to standard output
///
/// Ends when the peer ends. At the end of standard input the peer is told that no more will come, and may still answer.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The server, as HOST:PORT or unix:PATH
    #[arg(value_name = "ADDR")]
    address: String,

    /// How long to wait for an answer after the end of standard input, in seconds without any
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    wait: u64,

    #[command(flatten)]
    proxy: ProxyArguments,
}

const EXAMPLES: &str = "\
Examples:
  netwright connect 127.0.0.1:7001                  type lines, end with Ctrl-D
  echo QUERY TIME ORDER | netwright connect 127.0.0.1:7001
  netwright connect example.org:80 --proxy socks5://127.0.0.1:1080
  netwright connect example.org:80 --proxy https://ada:secret@proxy.example";

/// Lines are short, files are not: this is what a pipe holds.
const CHUNK: usize = 64 * 1024;

enum News {
    Read(BytesMut),
    InputEnded,
    Ended(CloseCause),
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    refuse_local(&arguments.address)?;
    let (tell, news) = channel();
    let from_peer = tell.clone();
    let client = arguments
        .proxy
        .through()?
        .client(Client::builder())
        .auto_read(false)
        .pipeline(move || pipeline().app(Listener { news: from_peer.clone() }))?;
    let peer = client.connect(&arguments.address).wait()?;
    let to_peer = peer.clone();
    thread::spawn(move || {
        if let Err(error) = send_input(io::stdin().lock(), &to_peer) {
            tracing::warn!(%error, "standard input cannot be read any further");
        }
        to_peer.shut_down_output();
        let _ = tell.send(News::InputEnded);
    });
    print(&peer, &news, Duration::from_secs(arguments.wait))
}

/// Until standard input or the channel ends.
fn send_input(mut input: impl Read, peer: &Channel<Bytes>) -> io::Result<()> {
    loop {
        let mut chunk = BytesMut::zeroed(CHUNK);
        match input.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(len) => {
                chunk.truncate(len);
                if peer.send(chunk.freeze()).wait().is_err() {
                    return Ok(()); // the end of the channel is told by its handler
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn print(peer: &Channel<Bytes>, news: &Receiver<News>, patience: Duration) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    let mut limit = Duration::MAX;
    peer.request();
    loop {
        match news.recv_timeout(limit) {
            Ok(News::Read(bytes)) => {
                if output.write_all(&bytes).and_then(|()| output.flush()).is_err() {
                    return Ok(()); // nobody reads what we print
                }
                peer.request();
            }
            Ok(News::InputEnded) => limit = patience,
            Ok(News::Ended(CloseCause::Io(error))) => return Err(Failure::Failed(error.to_string())),
            Ok(News::Ended(_)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Ok(());
            }
        }
    }
}

struct Listener {
    news: Sender<News>,
}

impl Application for Listener {
    type Read = BytesMut;
    type Write = Bytes;

    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        let _ = self.news.send(News::Read(bytes));
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        let _ = self.news.send(News::Ended(cause));
    }
}

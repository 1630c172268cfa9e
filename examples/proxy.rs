//! A TCP proxy with back pressure both ways: `cargo run --release --example proxy -- 127.0.0.1:7011 127.0.0.1:7007`
//!
//! ```text
//!   client ◀──▶ [ front ] ══ pairs ══ [ back ] ◀──▶ server
//! ```
//!
//! Each side reads only while the other has room to write. An end of input is passed on as one, and when one side is
//! over, so is the other.

use bytes::BytesMut;
use netwright::{
    AppContext, Application, Channel, Client, CloseCause, EventLoopGroup, Outgoing, Server, event_loops,
    pipeline, pipeline::HalfClosure,
};
use std::{
    error::Error,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

/// One side of a pair. Knows the other side once that is connected; until then it does not read.
struct Side {
    other: Arc<OnceLock<Channel>>,
}

impl Side {
    fn other(&self) -> Option<&Channel> {
        self.other.get()
    }
}

impl Application for Side {
    type Read = BytesMut;
    type Write = Outgoing;

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        let Some(other) = self.other() else { return };
        other.write_and_flush(bytes.freeze());
        if !other.is_writable() {
            cx.pause(); // the other side resumes us when it has room
        }
    }

    fn writability(&mut self, _: &mut AppContext<'_, Self>, writable: bool) {
        if let (true, Some(other)) = (writable, self.other()) {
            other.resume();
        }
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        if let Some(other) = self.other() {
            other.shut_down_output();
        }
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        if let Some(other) = self.other() {
            end(other, &cause);
        }
    }
}

/// One side is over, and so is the other: behind what it was sent, unless nobody is left to read what comes back. Who waits for
/// that would wait for ever.
fn end(other: &Channel, cause: &CloseCause) {
    match cause {
        CloseCause::Io(_) => drop(other.close()),
        _ => drop(other.close_when_flushed()),
    }
}

/// Connects to the server for each client, then lets both sides read.
struct Front {
    side: Side,
    target: String,
    group: EventLoopGroup,
    /// The client sends no more, which may be so before the other side is there.
    input_ended: Arc<AtomicBool>,
}

impl Application for Front {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        let (front, to_back) = (cx.channel(), self.side.other.clone());
        let to_front = Arc::new(OnceLock::from(front.clone()));
        let client = Client::builder()
            .group(self.group.clone())
            .pipeline(move || pipeline().app(Side { other: to_front.clone() }));
        let back = match client {
            Ok(client) => client.connect(&self.target),
            Err(error) => return cx.fire_error(error),
        };
        let input_ended = self.input_ended.clone();
        back.listen(move |back| match back {
            Ok(back) => {
                let _ = to_back.set(back.clone());
                // What has happened to the client meanwhile found nobody to tell.
                if let Some(cause) = front.close_cause() {
                    end(back, &cause);
                } else if input_ended.load(Ordering::SeqCst) {
                    back.shut_down_output();
                }
                front.resume();
            }
            Err(error) => {
                eprintln!("{error}");
                let _ = front.close();
            }
        });
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        let Some(back) = self.side.other() else { return };
        back.write_and_flush(bytes.freeze());
        if !back.is_writable() {
            cx.pause();
        }
    }

    fn writability(&mut self, _: &mut AppContext<'_, Self>, writable: bool) {
        if let (true, Some(back)) = (writable, self.side.other()) {
            back.resume();
        }
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.input_ended.store(true, Ordering::SeqCst); // first: whoever connects looks there last
        if let Some(back) = self.side.other() {
            back.shut_down_output();
        }
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        if let Some(back) = self.side.other() {
            end(back, &cause);
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:7011".to_owned());
    let target = args.next().unwrap_or_else(|| "127.0.0.1:7007".to_owned());
    let group = event_loops(2)?;
    let (loops, to) = (group.clone(), target.clone());
    let server = Server::builder()
        .group(group)
        .auto_read(false) // nothing is read before the other side is there
        .pipeline(move |_| {
            let side = Side { other: Arc::default() };
            let (target, group) = (to.clone(), loops.clone());
            pipeline().app(Front { side, target, group, input_ended: Arc::default() })
        })
        .bind(listen)
        .wait()?;
    println!("proxy on {} to {target}", server.address());
    Ok(server.group().termination().wait()?)
}

//! Passes bytes on between whoever connects and another address, both ways.
//!
//! ```text
//!   peer ◀──▶ front ── read, pause ──▶ Tunnel ──▶ write, flush ── back ◀──▶ target
//!                   ◀─ resume ──────────────────── writable again
//! ```
//! Always true, in both directions:
//! 1. An end is not read while the other is not writable: who does not read slows down who writes, and what we hold is
//!    bounded by the water marks plus one read.
//! 2. The front is not read before the back is connected.
//! 3. The end of one's input becomes the end of the other's output, behind everything that was read before. When both
//!    inputs have ended, both ends close once all is sent; when one end breaks, the other is closed at once.
//!
//! The two ends may live on different loops: they reach each other through their channels' handles only.

use crate::{record::Tape, serve::Homes};
use bytes::{Bytes, BytesMut};
use netwright::{
    AppContext, Application, Channel, Client, CloseCause, Promised, Server,
    channel::ChannelState,
    client::ConnectError,
    pipeline,
    pipeline::HalfClosure,
    resolve::Resolver,
    server::{BindError, ServerBuilder},
};
use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The front waits meanwhile.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);

pub(crate) fn bind(
    server: ServerBuilder,
    address: &str,
    target: String,
    hosts: Homes,
    tape: Tape,
) -> Promised<Server, BindError> {
    let way = Arc::new(Onward { target, hosts, resolver: Resolver::new() });
    server
        .auto_read(false)
        .pipeline(move |_| {
            pipeline().add(tape.stage()).app(End::new(Side::Front(way.clone()), Arc::default()))
        })
        .bind(address)
}

/// Where to, and on which loops.
struct Onward {
    target: String,
    hosts: Homes,
    resolver: Resolver,
}

impl Onward {
    /// Connects the other end of a tunnel.
    fn connect(&self, tunnel: Arc<Tunnel>) -> Result<Connecting, ConnectError> {
        let client = self
            .hosts
            .of_client(Client::builder())
            .resolver(self.resolver.clone())
            .connect_timeout(CONNECT_LIMIT)
            .pipeline(move || pipeline().app(End::new(Side::Back, tunnel.clone())))?;
        Ok(client.connect(&self.target))
    }
}

type Connecting = Promised<Channel<Bytes>, ConnectError>;

/// What both ends know.
#[derive(Default)]
struct Tunnel {
    front: OnceLock<Channel<Bytes>>,
    back: OnceLock<Channel<Bytes>>,
    /// One of the inputs has ended.
    half_ended: AtomicBool,
}

enum Side {
    /// Was connected to, and makes the back.
    Front(Arc<Onward>),
    /// We connected it.
    Back,
}

/// One end of a tunnel.
struct End {
    side: Side,
    tunnel: Arc<Tunnel>,
    connecting: Option<Connecting>,
}

impl End {
    fn new(side: Side, tunnel: Arc<Tunnel>) -> Self {
        Self { side, tunnel, connecting: None }
    }

    fn other(&self) -> Option<&Channel<Bytes>> {
        match self.side {
            Side::Front(_) => self.tunnel.back.get(),
            Side::Back => self.tunnel.front.get(),
        }
    }

    /// Connects the back; its first act will be to let the front read.
    fn connect(&mut self, way: &Onward, front: Channel<Bytes>) {
        let refused = move |error: &ConnectError| {
            tracing::warn!(peer = ?front.peer_addr(), %error, "no way on, closing");
            front.close();
        };
        match way.connect(self.tunnel.clone()) {
            Ok(connecting) => {
                connecting.listen(move |result| match result {
                    Ok(_) | Err(ConnectError::Cancelled) => {}
                    Err(error) => refused(error),
                });
                self.connecting = Some(connecting);
            }
            Err(error) => refused(&error),
        }
    }
}

impl Application for End {
    type Read = BytesMut;
    type Write = Bytes;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        match &self.side {
            Side::Front(way) => {
                let _ = self.tunnel.front.set(cx.channel());
                let way = way.clone();
                self.connect(&way, cx.channel());
            }
            Side::Back => {
                let _ = self.tunnel.back.set(cx.channel());
                // Entered first, looked second: a front that ends meanwhile either finds us or is found closed.
                match self.other() {
                    Some(front) if front.state() != ChannelState::Closed => front.resume(),
                    _ => cx.close(),
                }
            }
        }
    }

    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        let Some(other) = self.other() else { return };
        other.write(bytes.freeze());
        if !other.is_writable() {
            cx.pause(); // its end of the tunnel resumes us; that comes later than this, even from another thread
        }
    }

    fn read_complete(&mut self, _: &mut AppContext<'_, Self>) {
        if let Some(other) = self.other() {
            other.flush();
        }
    }

    fn writability(&mut self, _: &mut AppContext<'_, Self>, writable: bool) {
        if let (Some(other), true) = (self.other(), writable) {
            other.resume();
        }
    }

    fn half_closure(&self) -> HalfClosure {
        HalfClosure::Needs
    }

    fn input_closed(&mut self, cx: &mut AppContext<'_, Self>) {
        let Some(other) = self.other() else { return };
        other.flush();
        if self.tunnel.half_ended.swap(true, Ordering::AcqRel) {
            // Ours through the handle, too: behind what the other end has written and what is still on its way here.
            cx.channel().close_when_flushed();
            other.close_when_flushed();
        } else {
            other.shut_down_output();
        }
    }

    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        if let Some(connecting) = &self.connecting {
            connecting.cancel();
        }
        match (self.other(), cause) {
            (None, _) => {}
            (Some(other), CloseCause::Requested) => drop(other.close_when_flushed()),
            (Some(other), _) => drop(other.close()),
        }
    }
}

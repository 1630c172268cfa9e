//! A peer that is a channel of ours, driven like a blocking socket.
//!
//! ```text
//!   read  ─▶ asks for one message, waits for it ◀── inbox ◀── Mailman (no reading by itself)
//!   write ─▶ waits for room, then hands it over  ──▶ channel ──▶ the server under test
//!   drop  ─▶ closes behind what was written, as a system does for a socket
//! ```
//! All peers of one kind share a client, which lives as long as the process. Where a behaviour needs resets, closing is one.

use super::{NARROW, PATIENCE, Soon, loops_of, settle};
use crate::contract::{Need, Setup, Transport};
use bytes::{Buf, Bytes, BytesMut};
use netwright_core::{
    Address, AppContext, Application, Channel, CloseCause, EventLoop, Outgoing, Promised, pipeline,
};
use netwright_transport::{ConnectError, StreamOptions};
use std::{
    io::{self, ErrorKind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::Duration,
};

/// What comes from the other end.
enum Mail {
    Bytes(BytesMut),
    End,
    Closed(CloseCause),
}

/// Puts what comes into the inbox, which is attached to the channel for whoever connected.
struct Mailman {
    mail: mpsc::Sender<Mail>,
    inbox: Option<mpsc::Receiver<Mail>>,
}

/// How the inbox gets from the loop to the peer.
struct Handover(Mutex<Option<mpsc::Receiver<Mail>>>);

impl Mailman {
    fn new() -> Self {
        let (mail, inbox) = mpsc::channel();
        Self { mail, inbox: Some(inbox) }
    }

    fn put(&self, mail: Mail) {
        let _ = self.mail.send(mail); // a peer that is gone does not listen
    }
}

impl Application for Mailman {
    type Read = BytesMut;
    type Write = Outgoing;

    fn active(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.channel().set_attribute(Handover(Mutex::new(self.inbox.take())));
    }
    fn read(&mut self, _: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.put(Mail::Bytes(bytes));
    }
    fn input_closed(&mut self, _: &mut AppContext<'_, Self>) {
        self.put(Mail::End);
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.put(Mail::Closed(cause));
    }
}

/// What is asked of a peer before it connects.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Kind {
    transport: Transport,
    narrow: bool,
    resets: bool,
}

type Connect = Box<dyn Fn(&Address) -> Promised<Channel, ConnectError> + Send + Sync>;

/// Connects peers of one kind.
struct Dialer {
    kind: Kind,
    connect: Connect,
    loops: Box<dyn Fn() -> Vec<EventLoop> + Send + Sync>,
}

static DIALERS: Mutex<Vec<Arc<Dialer>>> = Mutex::new(Vec::new());

fn dialer(setup: Setup, narrow: bool) -> Arc<Dialer> {
    let kind = Kind { transport: setup.transport, narrow, resets: setup.needs(Need::Reset) };
    let mut dialers = DIALERS.lock().unwrap();
    if let Some(known) = dialers.iter().find(|known| known.kind == kind) {
        return known.clone();
    }
    let mut options = StreamOptions::new();
    if kind.narrow {
        options = options.recv_buffer_size(NARROW);
    }
    if kind.resets {
        options = options.linger(Duration::ZERO);
    }
    let builder = setup.client_builder().options(options).auto_read(false).half_closure(true);
    let client = builder.pipeline(|| pipeline().app(Mailman::new())).unwrap();
    let same = client.clone();
    let loops = Box::new(move || loops_of(&same));
    let connect = Box::new(move |address: &Address| client.connect(address));
    let dialer = Arc::new(Dialer { kind, connect, loops });
    dialers.push(dialer.clone());
    dialer
}

/// Handles of one connection; the last one that goes closes it.
#[derive(Clone)]
pub(crate) struct OwnPeer(Arc<Inner>);

struct Inner {
    channel: Channel,
    reading: Mutex<Reading>,
    nonblocking: AtomicBool,
    dialer: Arc<Dialer>,
}

struct Reading {
    inbox: mpsc::Receiver<Mail>,
    /// Came, and was not taken yet.
    rest: BytesMut,
    asked: bool,
    end: Option<Result<(), ErrorKind>>,
}

impl OwnPeer {
    pub(super) fn dial(setup: Setup, address: &Address, narrow: bool) -> io::Result<Self> {
        let dialer = dialer(setup, narrow);
        let channel = (dialer.connect)(address).soon().map_err(|error| {
            let kind = match &error {
                ConnectError::Refused(_) => ErrorKind::ConnectionRefused,
                ConnectError::Io { error, .. } => error.kind(),
                _ => ErrorKind::Other,
            };
            io::Error::new(kind, error.to_string())
        })?;
        let handover = channel.attribute::<Handover>().expect("the channel is active");
        let inbox = handover.0.lock().unwrap().take().expect("one peer for each channel");
        let reading = Mutex::new(Reading { inbox, rest: BytesMut::new(), asked: false, end: None });
        Ok(Self(Arc::new(Inner { channel, reading, nonblocking: AtomicBool::new(false), dialer })))
    }

    pub(super) fn reset(self) {
        assert!(self.0.dialer.kind.resets, "this behaviour needs a reset, and its entry does not say so");
        self.0.channel.close().soon();
    }

    /// Closes at once, whatever waits to be sent.
    pub(super) fn break_off(self) {
        drop(self.0.channel.close());
    }

    pub(super) fn shut_down(&self) {
        self.0.channel.shut_down_output();
    }

    pub(super) fn set_nonblocking(&self, nonblocking: bool) {
        self.0.nonblocking.store(nonblocking, Ordering::SeqCst);
    }

    pub(super) fn address(&self) -> Address {
        self.0.channel.local().expect("connected")
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut reading = self.0.reading.lock().unwrap();
        loop {
            if !reading.rest.is_empty() {
                let len = buffer.len().min(reading.rest.len());
                reading.rest.copy_to_slice(&mut buffer[..len]);
                return Ok(len);
            }
            if let Some(end) = reading.end {
                return end.map(|()| 0).map_err(io::Error::from);
            }
            if !reading.asked {
                self.0.channel.request();
                reading.asked = true;
            }
            match self.next_mail(&reading.inbox)? {
                Mail::Bytes(bytes) => {
                    reading.rest = bytes;
                    reading.asked = false;
                }
                Mail::End => reading.end = Some(Ok(())),
                Mail::Closed(CloseCause::Io(error)) => reading.end = Some(Err(error.kind())),
                Mail::Closed(_) => reading.end = Some(Ok(())),
            }
        }
    }

    fn next_mail(&self, inbox: &mpsc::Receiver<Mail>) -> io::Result<Mail> {
        if !self.0.nonblocking.load(Ordering::SeqCst) {
            return inbox.recv_timeout(PATIENCE).map_err(|_| ErrorKind::TimedOut.into());
        }
        settle(&(self.0.dialer.loops)());
        inbox.try_recv().map_err(|_| ErrorKind::WouldBlock.into())
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let channel = &self.0.channel;
        if self.0.nonblocking.load(Ordering::SeqCst) && !channel.is_writable() {
            return Err(ErrorKind::WouldBlock.into());
        }
        if let Err(error) = Box::pin(channel.writable()).soon() {
            return Err(io::Error::new(ErrorKind::BrokenPipe, format!("{error:?}")));
        }
        channel.write_and_flush(Bytes::copy_from_slice(bytes));
        Ok(bytes.len())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        drop(self.channel.close_when_flushed());
    }
}

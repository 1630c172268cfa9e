//! One channel of datagrams, on its loop.
//!
//! Always true:
//! 1. `readable` and `blocked` remember what events said, or the socket when it was looked at; a call that brought fewer
//!    datagrams than asked for has emptied the socket.
//! 2. No more is received than the pipeline wants: nothing while it is paused, one at a time while it asks one by one. A
//!    handler that pauses amid a batch gets the rest of it when it wants more; meanwhile it waits at the pipeline's front.
//! 3. At most [`DATAGRAMS_PER_TURN`] per turn; what is left goes on in the next one, behind other channels. Each batch is
//!    followed by `read_complete`.
//! 4. What goes wrong with one datagram fails its write or is told as an event. Only an error of the socket itself ends the
//!    channel.
//! 5. What is told while messages are held waits behind them, and there are at most [`HELD_EVENTS_MAX`] of it: further events
//!    are counted only. Whoever makes us send to nobody would fill our memory else.
//! 6. The socket is closed before anybody is told of the end.

use super::{
    Datagram, DatagramError, DatagramSettings, PortUnreachable, SendRules, Truncated, Undelivered,
    batch::BATCH_MAX,
    carrier::{DatagramBatch, DatagramQueue, DatagramSocket},
    mailbox::Mailbox,
    socket::{DatagramSocket as Handle, add},
};
use crate::{
    stream::Wrote,
    sys::errors::{is_about_the_network, is_port_unreachable},
};
use netwright_core::{
    Address, Channel, CloseCause, Event as UserEvent, Fault, Host, LocalLoop, Outgoing, Segment, SourceTimer,
    UnixName, WriteError,
    driver::{Event, Ready, Source, Token},
    internal::CarriedBy,
};
use socket2::Domain;
use std::{io, sync::Arc, time::Duration};

/// Datagrams of one channel before others get their turn.
const DATAGRAMS_PER_TURN: usize = 256;
/// System calls for one flush before other channels of the loop get their turn.
const SENDS_PER_TURN: usize = 16;
/// What a channel expects of its first call; it learns.
const EXPECT_FIRST: usize = 4;
/// Errors fetched from the socket for one event.
const ERRORS_PER_EVENT: usize = 16;
/// How long to wait for a Unix socket whose queue is full, if the system does not tell when it has room; twice as long
/// after each attempt in vain, up to the second one.
const RETRY: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(64)];
/// Events that wait behind messages which nobody takes.
const HELD_EVENTS_MAX: usize = 64;
/// Our own timer. Those of stages have the number of their stage in the upper half, which is never 0.
const RETRY_SIGNAL: u64 = 0;

/// Makes the socket of a channel that has its token.
pub(crate) type MakeSocket<'a> = Box<dyn FnOnce(Token) -> io::Result<Box<dyn DatagramSocket>> + 'a>;

/// What a channel is made of.
pub(crate) struct Opening<'a, P> {
    pub(crate) local: &'a LocalLoop,
    pub(crate) make: MakeSocket<'a>,
    pub(crate) handle: Arc<Handle>,
    pub(crate) rules: SendRules,
    pub(crate) peer: Option<Address>,
    pub(crate) pipeline: P,
    pub(crate) settings: &'a DatagramSettings,
}

impl<'a> Opening<'a, ()> {
    /// Of a socket that is not the system's.
    pub(crate) fn without_system(
        local: &'a LocalLoop,
        domain: Domain,
        peer: Option<Address>,
        settings: &'a DatagramSettings,
        make: MakeSocket<'a>,
    ) -> Self {
        let handle = Arc::new(Handle::without_socket(domain));
        // No descriptors go along, whatever it is called.
        let rules = SendRules { connected: peer.is_some(), unix: false, segments: false };
        Self { local, make, handle, rules, peer, pipeline: (), settings }
    }

    /// The same with its pipeline.
    pub(crate) fn with<P>(self, pipeline: P) -> Opening<'a, P> {
        let Self { local, make, handle, rules, peer, settings, .. } = self;
        Opening { local, make, handle, rules, peer, pipeline, settings }
    }
}

/// Takes a socket into the loop of the calling thread and makes its channel active.
pub(crate) fn open<P, W>(opening: Opening<'_, P>) -> io::Result<Channel<P::Tail>>
where
    P: Segment<Datagram, W>,
    W: CarriedBy<Outgoing>,
{
    let Opening { local, make, handle, rules, peer, pipeline, settings } = opening;
    let host = Host::new(local.clone(), pipeline, settings.host);
    let channel = host.channel();
    channel.attach(&settings.attributes);
    channel.set_attribute(handle.clone());
    local.register_with(|token| {
        let socket = make(token)?;
        let address = socket.local();
        let channel = DatagramChannel {
            host,
            local: local.clone(),
            carrier: Some(Carrier { socket, handle: handle.clone() }),
            handle,
            token,
            receive_max: settings.receive_max,
            takes_descriptors: settings.descriptors_max > 0,
            rules,
            peer,
            expect: EXPECT_FIRST,
            readable: false,
            blocked: false,
            called: false,
            retry: None,
            retry_after: RETRY[0],
            held_events: 0,
        };
        Ok::<_, io::Error>(channel.begin(address))
    })?;
    Ok(channel)
}

/// The socket while it is open. Dropping it deregisters and closes.
struct Carrier {
    socket: Box<dyn DatagramSocket>,
    handle: Arc<Handle>,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.handle.let_go(); // ours is the last reference now
    }
}

struct DatagramChannel<P: Segment<Datagram, W>, W: CarriedBy<Outgoing>> {
    /// Before the host: a loop that lets go of its sources closes the socket before the host tells of the end.
    carrier: Option<Carrier>,
    host: Host<P, W, Datagram>,
    local: LocalLoop,
    handle: Arc<Handle>,
    token: Token,
    /// The longest datagram that is taken; several that were joined may be longer together.
    receive_max: usize,
    /// Fewer than came along would be wrong.
    takes_descriptors: bool,
    rules: SendRules,
    peer: Option<Address>,
    /// How many datagrams the next call will bring, by experience.
    expect: usize,
    /// There may be something to receive.
    readable: bool,
    /// No more can be sent for now.
    blocked: bool,
    /// A call for the next turn is under way.
    called: bool,
    retry: Option<SourceTimer>,
    retry_after: Duration,
    /// Events told since messages are held.
    held_events: usize,
}

impl<P, W> DatagramChannel<P, W>
where
    P: Segment<Datagram, W>,
    W: CarriedBy<Outgoing>,
{
    /// Handlers are added, the channel becomes active, and what they asked for is done.
    fn begin(mut self, address: Option<Address>) -> Self {
        self.host.register(self.token);
        self.host.activate(address, self.peer.clone());
        self.act();
        self
    }

    /// Does everything that can be done now.
    fn act(&mut self) {
        let mut budget = DATAGRAMS_PER_TURN;
        loop {
            self.send();
            if self.host.take_output_shutdown() {
                self.host.output_shut_down(Ok(())); // nobody is there to be told
            }
            if let Some(cause) = self.take_close() {
                self.close(cause);
            }
            if !self.readable || self.carrier.is_none() || !self.host.wants_read() {
                break;
            }
            if budget == 0 {
                self.call_again();
                break;
            }
            budget -= self.receive(budget);
        }
        if let Some(carrier) = &mut self.carrier {
            carrier.socket.settle(self.host.wants_read(), self.blocked);
        } else if self.host.is_finished() {
            self.host.remove();
            self.local.deregister(self.token);
        }
    }

    /// Why to close now, if so; what a stage sends on its way out goes first.
    fn take_close(&mut self) -> Option<CloseCause> {
        let close = self.host.take_close();
        if close.is_none() && self.host.has_last_words() {
            self.send();
            return self.host.take_close();
        }
        close
    }

    fn call_again(&mut self) {
        if !std::mem::replace(&mut self.called, true) {
            self.local.call(self.token);
        }
    }

    // ---- receiving ----

    /// One call, and what follows from it. Returns how much of the turn it took.
    fn receive(&mut self, budget: usize) -> usize {
        let Some(carrier) = &mut self.carrier else { return budget };
        self.held_events = 0; // whoever wants more has taken what was held
        let want = self.expect.min(self.host.wanted()).min(budget).min(BATCH_MAX);
        let mut mailbox = Mailbox::borrow();
        let mut batch = DatagramBatch { mailbox: &mut mailbox, want, count: 0 };
        let result = carrier.socket.receive(&mut batch);
        let received = batch.count;
        let taken = match result {
            Ok(()) => {
                self.readable = received == want;
                self.learn(received, want);
                add(&self.handle.counts.received, received);
                for index in 0..received {
                    self.deliver(&mut mailbox, index);
                }
                self.host.read_complete();
                received.max(1)
            }
            Err(error) => {
                self.receive_failed(error);
                1
            }
        };
        mailbox.give_back();
        taken
    }

    /// Full: there is more, so ask for more. Nearly empty: less will do, and costs less.
    fn learn(&mut self, received: usize, want: usize) {
        if received == want && want == self.expect {
            self.expect = (self.expect * 2).min(BATCH_MAX);
        } else if received * 4 < self.expect {
            self.expect = (self.expect / 2).max(EXPECT_FIRST.min(BATCH_MAX));
        }
    }

    #[inline]
    fn deliver(&mut self, mailbox: &mut Mailbox, index: usize) {
        if let Some(mut datagram) = mailbox.pushed() {
            if let Some(peer) = &self.peer {
                datagram.from = peer.clone();
            }
            return self.hand_on(datagram);
        }
        let length = mailbox.length(index);
        let extra = mailbox.extra(index);
        let from = match &self.peer {
            Some(peer) => peer.clone(),
            None => mailbox.from(index).unwrap_or(Address::Unix(UnixName::Unnamed)),
        };
        let cut = extra.cut && self.takes_descriptors;
        if length > mailbox.limit() || cut {
            return self.truncated(from, length, cut);
        }
        let mut bytes = mailbox.bytes(index);
        if extra.segment > 0 {
            while bytes.len() > extra.segment {
                let first = bytes.split_to(extra.segment);
                add(&self.handle.counts.received, 1); // joined with others it was counted once
                self.hand_on(Datagram::new(from.clone(), first));
            }
        }
        let mut datagram = Datagram::new(from, bytes);
        #[cfg(unix)]
        {
            datagram.descriptors = extra.descriptors;
            datagram.credentials = extra.credentials;
        }
        #[cfg(not(unix))]
        let _ = &mut datagram;
        self.hand_on(datagram);
    }

    #[inline]
    fn hand_on(&mut self, datagram: Datagram) {
        if datagram.bytes.len() > self.receive_max {
            return self.truncated(datagram.from, datagram.bytes.len(), false); // it came joined with others
        }
        if !self.host.is_closing() {
            self.host.received(datagram);
        }
    }

    #[cold]
    fn truncated(&mut self, from: Address, length: usize, descriptors: bool) {
        add(&self.handle.counts.truncated, 1);
        let limit = self.receive_max;
        tracing::debug!(%from, length, limit, descriptors, "a datagram did not fit and was dropped");
        self.tell(UserEvent::new(Truncated { from, length, limit, descriptors }));
    }

    #[cold]
    fn receive_failed(&mut self, error: io::Error) {
        match error.kind() {
            io::ErrorKind::WouldBlock => self.readable = false,
            io::ErrorKind::Interrupted => {}
            _ if is_about_the_network(&error) => self.undelivered(Undelivered::new(None, error)),
            _ => self.close(CloseCause::io(error)),
        }
    }

    /// The network has told that a datagram did not arrive.
    #[cold]
    fn undelivered(&mut self, news: Undelivered) {
        add(&self.handle.counts.undelivered, 1);
        let to = news.to.or_else(|| self.peer.clone());
        self.tell(match is_port_unreachable(&news.error) {
            true => UserEvent::new(PortUnreachable { to }),
            false => UserEvent::new(Undelivered { to, error: news.error }),
        });
    }

    /// Tells what nobody has to take care of; nobody hears of it if too much of that waits already.
    fn tell(&mut self, event: UserEvent) {
        self.held_events = if self.host.is_holding() { self.held_events + 1 } else { 0 };
        if self.held_events <= HELD_EVENTS_MAX {
            self.host.tell(event);
        }
    }

    /// An event told of an error: fetches what the socket has kept.
    #[cold]
    fn fetch_errors(&mut self) {
        for _ in 0..ERRORS_PER_EVENT {
            let Some(carrier) = &mut self.carrier else { return };
            match carrier.socket.take_error() {
                Ok(None) => return,
                Ok(Some(news)) => self.undelivered(news),
                Err(error) => return self.close(CloseCause::io(error)),
            }
        }
        self.call_again(); // and look for the rest
    }

    // ---- sending ----

    fn send(&mut self) {
        while self.host.take_flush() && !self.blocked {
            match self.send_flushed() {
                Wrote::All => self.retry_after = RETRY[0],
                Wrote::Blocked | Wrote::Sending => self.wait_for_room(),
                Wrote::Enough => {
                    self.host.wants_flush_again();
                    self.call_again();
                    self.host.wrote();
                    return;
                }
            }
            self.host.wrote(); // there may be room again, and so a new wish to flush
        }
    }

    fn send_flushed(&mut self) -> Wrote {
        let mut mailbox = Mailbox::borrow();
        let mut calls = 0;
        let wrote = loop {
            let Some(carrier) = &mut self.carrier else { break Wrote::All };
            let mut outbound = self.host.outbound();
            if !outbound.has_flushed() {
                break Wrote::All;
            }
            if calls == SENDS_PER_TURN {
                break Wrote::Enough;
            }
            calls += 1;
            let mut queue = DatagramQueue { mailbox: &mut mailbox, outbound: &outbound, rules: &self.rules };
            match carrier.socket.send(&mut queue) {
                Ok(0) => {
                    calls -= 1; // no system call, and one message less
                    self.refuse_first(None);
                }
                Ok(sent) => {
                    add(&self.handle.counts.sent, sent); // first: who waits for a write may look
                    for _ in 0..sent {
                        outbound.first_sent();
                    }
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => break Wrote::Blocked,
                    io::ErrorKind::Interrupted => {}
                    // About an earlier datagram; this one has not been tried yet.
                    io::ErrorKind::ConnectionRefused if !self.rules.unix => {
                        self.undelivered(Undelivered::new(None, error));
                    }
                    _ => self.refuse_first(Some(error)),
                },
            }
        };
        mailbox.give_back();
        wrote
    }

    /// The first message cannot be sent: its write fails, the channel lives on.
    #[cold]
    fn refuse_first(&mut self, error: Option<io::Error>) {
        add(&self.handle.counts.refused, 1);
        let rules = self.rules;
        let mut outbound = self.host.outbound();
        let Some(message) = outbound.messages().next() else { return };
        let error = match error {
            Some(error) => DatagramError::refused(message, error),
            None => DatagramError::of(message, &rules),
        };
        tracing::debug!(%error, "a datagram was not sent");
        outbound.fail_first(WriteError::Fault(Fault::from(error)));
    }

    fn wait_for_room(&mut self) {
        self.blocked = true;
        let told = self.carrier.as_ref().is_none_or(|carrier| carrier.socket.tells_of_room());
        if !told && self.retry.is_none() {
            self.retry = Some(self.local.arm(self.token, self.retry_after, RETRY_SIGNAL));
            self.retry_after = (self.retry_after * 2).min(RETRY[1]);
        }
    }

    fn room_again(&mut self) {
        if std::mem::take(&mut self.blocked) {
            self.host.wants_flush_again();
        }
    }

    // ---- the end ----

    fn close(&mut self, cause: CloseCause) {
        if let Some(carrier) = self.carrier.take() {
            drop(carrier);
            if let Some(timer) = self.retry.take() {
                self.local.disarm(timer);
            }
            self.host.closed(cause);
        }
    }
}

impl<P, W> Source for DatagramChannel<P, W>
where
    P: Segment<Datagram, W>,
    W: CarriedBy<Outgoing>,
{
    fn ready(&mut self, event: Event) {
        let mut ready = event.ready;
        if ready == Ready::NONE {
            self.called = false;
            self.host.run_commands();
            ready = self.carrier.as_mut().map_or(Ready::NONE, |carrier| carrier.socket.look());
        }
        self.readable |= ready.contains(Ready::READ);
        if ready.contains(Ready::WRITE) {
            self.room_again();
        }
        if ready.contains(Ready::ERROR) {
            self.fetch_errors();
        }
        self.act();
    }

    fn signal(&mut self, signal: u64) {
        if signal == RETRY_SIGNAL {
            self.retry = None;
            self.room_again();
        } else {
            self.host.signal(signal);
        }
        self.act();
    }

    /// The drop of something that was sent: stages never get here.
    fn panicked(&mut self, message: &str) {
        self.close(CloseCause::Panicked(message.to_owned()));
        self.host.forsake();
        self.host.remove();
    }

    fn shut_down(&mut self) {
        self.close(CloseCause::ShutDown);
        self.host.forsake();
        self.act();
    }
}

//! One channel over a byte stream, on its loop.
//!
//! Always true:
//! 1. `readable` and `blocked` remember what events said. A stream that says "no more" after a receive is not asked again
//!    before the next event: no call is wasted on hearing `WouldBlock`. Only a peer that has closed is read until the end.
//! 2. It reads no more than its [`Share`] of a turn, however often it is called; what is left goes on in the next one, behind
//!    other channels.
//! 3. A peer that has gone is noticed also while nobody reads, as soon as nothing is left to be read.
//! 4. Whatever was read is followed by `read_complete`, and what is flushed there is sent, before the channel ends. What stages
//!    have under way on workers then is part of that: an end of input waits for it, an error does not.
//! 5. While something waits to be sent, somebody looks whether the peer takes it ([`Watched`]).
//! 6. The stream is closed before anybody is told. While a close waits for a send ([`Stream::close_later`]) or for the peer
//!    ([`Lingering`]), nothing else happens to the channel.

use super::{
    ChannelSettings, Received, Stream, Wrote,
    linger::{LINGER, Lingering},
    pace::{Found, LOOK, Watched},
    share::Share,
};
use crate::live::{Guard, Phase};
#[cfg(feature = "_planted")]
use netwright_core::planted::Bug;
use netwright_core::{
    Address, AnyHost, CloseCause, Event as UserEvent, LocalLoop, ShuttingDown, SourceTimer, WriteError,
    driver::{Event, Ready, Token},
};
use std::{io, sync::Arc, time::Duration};

/// A peer that sends no more has had its time for its answers. No signal of a stage: these have numbers of stages in them.
const END_DUE: u64 = u64::MAX;

/// Turns in which the last words of a broken connection may come: what has arrived is told in the next, and in one of those after
/// it if the ring had no buffers left.
const LAST_LOOKS: u32 = 8;

/// A connection that is broken, and whose last words are to be read.
struct BrokenOff {
    error: io::Error,
    looks: u32,
}

/// Flushes of one channel before others get their turn: who writes whenever there is room, to a peer that reads as fast,
/// would never come to an end.
const FLUSHES_PER_TURN: usize = 16;

/// Everything is written for a channel whose pipeline is not known, and compiled here for each stream; what a user's crate compiles
/// for each of its pipelines is the table of calls that leads here ([`Carrier`]).
pub(crate) struct StreamChannel<S: Stream, H: ?Sized = AnyHost> {
    local: LocalLoop,
    /// None once it is closed, or is about to be.
    stream: Option<S>,
    /// A close that waits for the peer.
    lingering: Option<Box<Lingering<S>>>,
    /// A peer that did not take everything at once.
    watched: Option<Box<Watched>>,
    /// Those of all channels of its server or client.
    settings: Arc<ChannelSettings>,
    token: Token,
    /// There may be something to read.
    readable: bool,
    /// The peer's end has been seen: read until it comes.
    ending: bool,
    /// An event has said that the connection is broken.
    broken: bool,
    /// A short read does not mean that nothing is left: the peer's end, or bytes behind urgent ones.
    until_empty: bool,
    /// The end has come; only with half-closure the channel lives on.
    input_ended: bool,
    /// And the pipeline has heard of it, because it lives on.
    input_told: bool,
    /// That ends the channel, once what is under way on workers has come out.
    end_waits: Option<SourceTimer>,
    /// A write has found that the connection is broken.
    broken_off: Option<Box<BrokenOff>>,
    /// Our end has been announced to the peer.
    output_ended: bool,
    /// Bytes have been delivered and `read_complete` has not been told yet.
    incomplete: bool,
    /// No more can be sent for now.
    blocked: bool,
    /// The peer was too slow: nobody waits for it any more.
    is_cut: bool,
    /// The planted bug: it does not leave.
    #[cfg(feature = "_planted")]
    forgotten: bool,
    /// A call for the next turn is under way.
    called: bool,
    /// In which turn it was asked for.
    called_in: u32,
    /// The last turn in which it has read all that it may. Of turns the lower half of the number will do, to tell one from the others.
    has_read_in: u32,
    /// Keeps whoever counts connections informed: dropped with the channel.
    guard: Guard,
    /// Last, so that its type need not be known.
    host: H,
}

impl<S: Stream, H> StreamChannel<S, H> {
    pub(super) fn new(
        host: H,
        local: LocalLoop,
        stream: S,
        token: Token,
        settings: &Arc<ChannelSettings>,
        guard: Guard,
    ) -> Self {
        Self {
            local,
            stream: Some(stream),
            lingering: None,
            watched: None,
            settings: settings.clone(),
            token,
            readable: false,
            ending: false,
            broken: false,
            until_empty: false,
            input_ended: false,
            input_told: false,
            end_waits: None,
            broken_off: None,
            output_ended: false,
            incomplete: false,
            blocked: false,
            is_cut: false,
            #[cfg(feature = "_planted")]
            forgotten: false,
            called: false,
            called_in: 0,
            has_read_in: 0,
            guard,
            host,
        }
    }
}

impl<S: Stream> StreamChannel<S> {
    /// Handlers are added, the channel becomes active, and what they asked for is done.
    pub(super) fn begin(&mut self, local: Option<Address>, peer: Option<Address>) {
        self.host.register(self.token);
        self.host.activate(local, peer);
        self.heed();
        self.act();
    }

    /// Does what the server wants of all its connections.
    fn heed(&mut self) {
        match self.guard.news() {
            None | Some(Phase::Open) => {}
            Some(Phase::Draining) => self.host.tell(UserEvent::new(ShuttingDown)),
            Some(Phase::Over) => self.host.close_because(CloseCause::ShutDown),
            Some(Phase::Now) => self.host.close_now(CloseCause::ShutDown),
        }
    }

    /// The turn of its loop, as far as one has to be told from another.
    fn turn(&self) -> u32 {
        self.local.turn() as u32
    }

    /// Does everything that can be done now.
    fn act(&mut self) {
        let mut share = Share::default();
        while !self.is_closing() {
            self.send();
            if self.host.take_output_shutdown() {
                self.shut_down_output();
            }
            if let Some(cause) = self.take_close() {
                self.close(cause);
            } else if self.end_waits.is_some() && self.end_or_tell() {
                continue; // to what the pipeline asks for, having heard of it: no other call may come
            }
            if !self.readable || self.input_ended || self.stream.is_none() {
                break;
            }
            if !self.host.wants_read() {
                if self.ending && self.look_for_end() {
                    continue;
                }
                break;
            }
            if share.is_spent() || self.called && self.has_read_enough() {
                self.wait_for_turn();
                break;
            }
            self.receive(&mut share);
        }
        if let Some(stream) = &mut self.stream {
            stream.settle(!self.input_ended && self.host.wants_read(), self.blocked);
        } else {
            self.go_on_ending();
        }
    }

    /// The stream is closed, or waits for the peer.
    #[cold]
    fn go_on_ending(&mut self) {
        if let Some(lingering) = &mut self.lingering {
            if !self.host.closes_at_once() && !lingering.is_over(&self.local, self.token) {
                return;
            }
            if let Some(lingering) = self.lingering.take() {
                let cause = lingering.end(&self.local);
                self.host.closed(cause);
            }
        }
        if self.host.is_finished() {
            self.host.remove();
            #[cfg(feature = "_planted")]
            if self.forgotten {
                return;
            }
            self.local.deregister(self.token);
        }
    }

    /// Whether a close waits for a send: until then nothing else happens.
    fn is_closing(&self) -> bool {
        self.stream.as_ref().is_some_and(Stream::is_closing)
    }

    /// Why to close now, if so; what a stage sends on its way out goes first.
    #[cold]
    fn take_close(&mut self) -> Option<CloseCause> {
        let close = self.host.take_close();
        if close.is_none() && self.host.has_last_words() && !self.blocked {
            self.send_once_more();
            return self.host.take_close();
        }
        close
    }

    fn call_again(&mut self) {
        if !std::mem::replace(&mut self.called, true) {
            self.called_in = self.turn();
            self.local.call(self.token);
        }
    }

    /// There is more to be read, and others are to have their turns before.
    #[cold]
    fn wait_for_turn(&mut self) {
        self.has_read_in = self.turn();
        self.call_again();
    }

    /// Whether it is called once more in a turn of which it has had its share: for a command, or by a future.
    #[cold]
    fn has_read_enough(&self) -> bool {
        self.has_read_in == self.turn()
    }

    // ---- reading ----

    /// One receive, and what follows from it.
    #[inline(always)] // with the system call in it: see `return_stack`
    fn receive(&mut self, share: &mut Share) {
        let Some(stream) = &mut self.stream else { return };
        match stream.receive() {
            Ok(Received { bytes, more }) => {
                if bytes.is_empty() {
                    return self.end_of_input();
                }
                self.incomplete = true;
                let size = bytes.len();
                self.host.received(bytes);
                self.readable = more || self.until_empty;
                // The last read of this turn, as far as we know: the pipeline may flush what it has gathered.
                if !self.readable || share.read(size, &self.local) || !self.host.wants_read() {
                    self.read_complete();
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    self.until_empty = self.ending;
                    self.read_complete();
                }
                io::ErrorKind::Interrupted => {
                    if share.read(0, &self.local) {
                        self.read_complete();
                    }
                }
                _ => self.fail(error),
            },
        }
    }

    fn read_complete(&mut self) {
        if std::mem::take(&mut self.incomplete) {
            self.host.read_complete();
        }
    }

    /// Nobody wants to read and the peer is going: if nothing is left to be read, it has gone. True if so.
    #[cold]
    fn look_for_end(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return false };
        match stream.has_ended() {
            // What is under way may ask for what has not been read.
            Ok(true) if self.host.is_busy() => return false,
            Ok(true) => self.end_of_input(),
            Ok(false) => return false,
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => return false,
                _ => self.fail(error),
            },
        }
        true
    }

    #[cold]
    fn end_of_input(&mut self) {
        self.readable = false;
        self.input_ended = true;
        if let Some(broken) = self.broken_off.take() {
            return self.fail(broken.error);
        }
        self.read_complete();
        // What handlers asked for by handles, callers and futures of their own, while they read what came last, comes before the end.
        self.host.run_commands();
        self.send_once_more(); // answers to what came last
        if self.stream.is_none() || self.is_closing() {
            return; // and they have found that the connection is broken: the pipeline has heard of its end
        }
        if !self.tell_of_end() {
            self.end_if_idle();
        }
    }

    /// Tells the pipeline that the peer sends no more, if it needs to hear of that. True if the channel lives on.
    #[cold]
    fn tell_of_end(&mut self) -> bool {
        if self.input_told || !self.host.allows_half_closure() {
            return false;
        }
        self.input_told = true;
        self.host.input_closed();
        if self.output_ended {
            return false;
        }
        if self.broken {
            self.take_error(); // it came with the end, and will not come again
        }
        true
    }

    /// Nothing can happen any more, once what is under way on workers has come out and the peer has taken its answers: it has said
    /// that it sends no more, not that it does not read. It has as long for that as messages are kept for who does not ask.
    #[cold]
    fn end_if_idle(&mut self) {
        let waits = self.host.is_busy() || self.host.is_answering();
        if waits {
            if self.end_waits.is_none() {
                self.end_waits = Some(self.local.arm(self.token, self.settings.host.forsaken_after, END_DUE));
            }
            return;
        }
        let cause = self.host.take_close().unwrap_or(CloseCause::PeerClosed);
        self.close(cause);
    }

    /// The end has waited for something that was under way, such as an async tail that had not begun: now it may need to hear of it.
    /// True if it has heard.
    #[cold]
    fn end_or_tell(&mut self) -> bool {
        if !self.tell_of_end() {
            self.end_if_idle();
            return false;
        }
        if let Some(timer) = self.end_waits.take() {
            self.local.disarm(timer);
        }
        true
    }

    // ---- writing ----

    #[inline(always)] // likewise
    fn send(&mut self) {
        let mut flushes = 0;
        while self.host.take_flush() && !self.blocked {
            if flushes == FLUSHES_PER_TURN {
                self.host.wants_flush_again();
                return self.call_again();
            }
            flushes += 1;
            let Some(stream) = &mut self.stream else { return };
            match stream.send(&mut self.host.outbound()) {
                Ok(Wrote::All) => self.drained(),
                Ok(Wrote::Sending) => self.blocked = true,
                Ok(Wrote::Blocked) => self.block(),
                Ok(Wrote::Enough) => {
                    self.host.wants_flush_again();
                    self.call_again();
                    self.host.wrote();
                    return;
                }
                Err(error) => return self.cannot_send(error),
            }
            self.host.wrote(); // there may be room again, and so a new wish to flush
        }
    }

    /// The same where nothing is in a hurry.
    #[cold]
    #[inline(never)]
    fn send_once_more(&mut self) {
        self.send();
    }

    /// No more is taken for now.
    #[inline]
    fn block(&mut self) {
        self.blocked = true;
        if self.watched.is_none()
            && let (Some(rate), Some(stream)) = (self.settings.host.least_rate, &mut self.stream)
        {
            let watched = Watched::begin(rate, stream, &self.host.outbound(), &self.local, self.token);
            self.watched = Some(watched);
        }
    }

    /// What is being sent may have come to wait for the peer.
    #[cold]
    fn look_at_send(&mut self) {
        if self.stream.as_ref().is_some_and(Stream::waits_for_peer) {
            self.block();
        }
    }

    #[inline]
    fn drained(&mut self) {
        if let Some(watched) = &mut self.watched {
            watched.drained();
        }
    }

    /// Has the peer taken what it has to since the last look?
    #[cold]
    fn look_at_pace(&mut self) {
        let (Some(mut watched), Some(stream)) = (self.watched.take(), &mut self.stream) else { return };
        match watched.look(stream, &self.host.outbound(), &self.local, self.token) {
            Found::Nothing => {}
            Found::Taken => self.watched = Some(watched),
            Found::TooSlow => self.cut_off(),
        }
    }

    /// The peer is too slow: what the system keeps for it goes as well.
    #[cold]
    fn cut_off(&mut self) {
        let (Some(rate), Some(stream)) = (self.settings.host.least_rate, &mut self.stream) else { return };
        tracing::debug!(channel = %self.host.id(), %rate, "cut: the peer does not take what waits for it");
        self.guard.count_slow();
        stream.reset_on_close();
        self.is_cut = true;
        self.close(CloseCause::TooSlow(rate));
    }

    #[cold]
    fn shut_down_output(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let result = stream.shut_down_output();
        self.output_ended = true;
        self.host.output_shut_down(result.map_err(|error| WriteError::Closed(CloseCause::io(error))));
        if self.input_ended {
            self.close(CloseCause::Requested); // nothing can happen any more
        }
    }

    // ---- the end ----

    /// Finds an error that no read will find any more.
    #[cold]
    fn take_error(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let Some(error) = stream.take_error() else { return };
        match stream.ends_one_by_one() && !self.host.outbound().has_flushed() {
            true => self.close(CloseCause::PeerClosed), // both ways have ended, and nothing was lost
            false => self.fail(error),
        }
    }

    /// The connection is broken, and a write has found it first. What the peer had said before is still there, often why it would
    /// not have more: it is read, up to a turn's share, or for some turns if the stream brings it later.
    #[cold]
    fn cannot_send(&mut self, error: io::Error) {
        let Some(stream) = &mut self.stream else { return };
        if stream.brings_later() && !self.input_ended && self.host.wants_read() {
            self.blocked = true; // no more goes out
            self.broken_off.get_or_insert_with(|| Box::new(BrokenOff { error, looks: 0 }));
            return self.call_again();
        }
        let mut share = Share::default();
        while !self.input_ended && self.host.wants_read() {
            let Some(stream) = &mut self.stream else { return };
            match stream.receive() {
                Ok(Received { bytes, .. }) if !bytes.is_empty() => {
                    self.incomplete = true;
                    let size = bytes.len();
                    self.host.received(bytes);
                    if share.read(size, &self.local) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                    if share.read(0, &self.local) {
                        break;
                    }
                }
                _ => break,
            }
        }
        self.fail(error);
    }

    /// Waits for the last words of a broken connection; they end by themselves, most of the time.
    #[cold]
    fn look_for_last_words(&mut self, mut broken: Box<BrokenOff>) {
        broken.looks += 1;
        if broken.looks > LAST_LOOKS || !self.host.wants_read() {
            return self.fail(broken.error);
        }
        self.broken_off = Some(broken);
        self.call_again();
    }

    #[cold]
    fn fail(&mut self, error: io::Error) {
        self.read_complete();
        self.close(CloseCause::io(error));
    }

    #[cold]
    fn close(&mut self, cause: CloseCause) {
        let Some(stream) = &mut self.stream else { return };
        match stream.close_later(cause) {
            Ok(()) => self.blocked = true, // whatever an event made of it: the end of the send is told like room
            Err(cause) => self.end(cause),
        }
    }

    /// What is not sent now will not be: nobody looks after it any more.
    fn disarm(&mut self) {
        if let Some(timer) = self.end_waits.take() {
            self.local.disarm(timer);
        }
        if let Some(watched) = self.watched.take() {
            watched.end(&self.local);
        }
    }

    /// Nothing of ours is under way any more: closes, behind the peer's acknowledgement if that is wanted.
    fn end(&mut self, cause: CloseCause) {
        self.disarm();
        if matches!(&cause, CloseCause::Io(error) if error.kind() == io::ErrorKind::ConnectionReset)
            && let Some(stream) = &mut self.stream
        {
            stream.reset_on_close(); // it is already, or a stage wants it to be: a proxy passes a reset on
        }
        // A connection that has failed acknowledges nothing any more.
        if self.settings.linger == 0
            || self.is_cut
            || matches!(cause, CloseCause::Io(_))
            || self.host.closes_at_once()
        {
            return self.close_now(cause);
        }
        let Some(stream) = self.stream.take() else { return };
        let until = self.local.now().checked_add(Duration::from_secs(self.settings.linger.into()));
        match Lingering::begin(stream, cause, until) {
            Ok(lingering) => self.lingering = Some(Box::new(lingering)), // looked at when this turn ends
            Err(cause) => self.close_now(cause),
        }
    }

    fn close_now(&mut self, cause: CloseCause) {
        self.disarm();
        #[cfg(feature = "_planted")]
        {
            let reset =
                matches!(&cause, CloseCause::Io(error) if error.kind() == io::ErrorKind::ConnectionReset);
            self.forgotten = Bug::LeakOnReset.is_planted() && reset && self.host.outbound().has_flushed();
        }
        drop(self.stream.take());
        self.host.closed(cause);
    }

    /// From now on a short read does not mean that nothing is left.
    #[cold]
    fn read_until_empty(&mut self, ready: Ready) {
        self.ending |= ready.contains(Ready::READ_CLOSED) || ready.contains(Ready::ERROR);
        self.readable = true;
        self.until_empty = true;
    }

    /// The loop called without an event: carries out what others asked for, and tells what there is by other means.
    #[inline(never)]
    fn run_commands(&mut self) -> Ready {
        // What it asked for itself does not come in the same turn: then this is another call.
        self.called = self.called && self.called_in == self.turn();
        if let Some(broken) = self.broken_off.take() {
            self.look_for_last_words(broken);
        }
        self.host.run_commands();
        self.heed();
        self.stream.as_mut().map_or(Ready::NONE, Stream::look)
    }

    /// A stream whose sends end later has news.
    #[inline(never)]
    fn sent(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        match stream.sent(&mut self.host.outbound()) {
            Ok(None) => self.host.wrote(),
            Ok(Some(cause)) => self.end(cause),
            Err(error) => self.cannot_send(error),
        }
    }
    // ---- what the loop calls ----

    pub(super) fn ready(&mut self, event: Event) {
        let mut ready = event.ready;
        if ready == Ready::NONE {
            ready = self.run_commands();
        }
        if ready != Ready::NONE {
            self.readable |= ready.contains(Ready::READ);
            if ready.contains(Ready::READ_CLOSED)
                || ready.contains(Ready::ERROR)
                || ready.contains(Ready::URGENT)
            {
                self.read_until_empty(ready);
            }
            if ready.contains(Ready::WRITE) && std::mem::take(&mut self.blocked) {
                self.sent();
                if !self.host.outbound().has_flushed() {
                    self.drained();
                }
                self.host.wants_flush_again();
            }
            if ready.contains(Ready::ERROR) {
                self.broken = true;
                if self.input_ended {
                    self.take_error();
                }
            }
        }
        if self.blocked && self.watched.is_none() {
            self.look_at_send();
        }
        self.act(); // a jump, as nothing above needs room on the stack: see `return_stack`
    }

    pub(super) fn signal(&mut self, signal: u64) {
        match &mut self.lingering {
            Some(lingering) if signal == LINGER => lingering.signal(),
            _ if signal == END_DUE => {
                if self.end_waits.take().is_some() {
                    self.close(CloseCause::PeerClosed);
                }
            }
            _ if signal == LOOK => self.look_at_pace(),
            _ => self.host.signal(signal),
        }
        self.act();
    }

    /// The stream, or the drop of something that was sent: stages never get here.
    pub(super) fn panicked(&mut self, message: &str) {
        self.disarm();
        let stream = self.stream.take(); // dropped last: it may panic once more
        self.host.closed(CloseCause::Panicked(message.to_owned()));
        self.host.forsake();
        self.host.remove();
        drop(stream);
    }

    pub(super) fn shut_down(&mut self) {
        self.close(CloseCause::ShutDown);
        // The rest is the system's: no timer of a loop that leaves tells when to look, and nobody is to wait for a peer.
        if let Some(lingering) = self.lingering.take() {
            let cause = lingering.end(&self.local);
            self.host.closed(cause);
        }
        self.host.forsake(); // if its peer had gone before
        self.act();
    }
}

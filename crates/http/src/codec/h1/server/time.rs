//! How long a peer may take, in every state that it can leave a connection in.
//!
//! | the connection | what is waited for | timer | then |
//! | --- | --- | --- | --- |
//! | between requests | a request | idle | closed |
//! | within a head | the rest, at a rate | head | 408 |
//! | within a body: data, the head or the end of a chunk, trailers | the rest, at a rate | body | 408, or closed if a reply has begun |
//! | requests wait for replies | the application | none | |
//! | HTTP is over here, by 101 or CONNECT | who takes over | idle | closed |
//! | a tunnel of which our side has said all | the rest of the other side | idle | closed |
//! | a tunnel | the application | none | |
//! | the last reply is written | that the peer takes it | idle, ten times; before that its least rate | closed |
//! | and something of the peer is unread | its end | linger | closed |
//!
//! A connection is between requests from when the last reply is handed to the system, or from the end of the last body if that comes later. What the system has and the
//! peer has not is not waited for: a close is told behind it, so nothing of a reply is lost, unless the peer sends what nobody reads: that is what lingering is for, as long as it lasts. A request that meets the close on its way is the client's to repeat, as
//! always when idle connections are closed (RFC 9112, section 9.3.1), so the time should be longer than what clients' own take.
//!
//! Always true:
//! 1. In each of these states but the one that is the application's, a timer is armed.
//! 2. Only time in which we wait for the peer counts: not while whoever reads has paused.
//! 3. What counts is bytes by time. Whoever sends one now and then has not sent anything.

use super::{HttpServer, Phase};
use crate::error::HttpError;
use netwright_core::{CloseCause, Context, StageTimer, time};
use std::time::{Duration, Instant};

/// In place of the bytes that wait to be sent: what counts began in the middle of a period.
const NOT_LOOKED: u64 = u64::MAX;

/// Idle periods without anything being taken of what waits that are too many.
const STOOD_MAX: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Timers {
    pub(super) head: Option<StageTimer>,
    /// How long the head has taken when its timer is due.
    head_spent: Duration,
    pub(super) body: Option<StageTimer>,
    /// Bytes since the rate of the body is measured.
    pub(super) body_got: u64,
    /// For how long we have waited for them.
    body_waited: Duration,
    /// Since when we wait for the next ones.
    waits_since: Option<Instant>,
    pub(super) idle: Option<StageTimer>,
    /// Bodies that are over.
    bodies: u64,
    /// Requests when the idle timer was armed, and bodies.
    idle_decoded: (u64, u64),
    /// What had been written then.
    idle_written: (u64, u64),
    /// Bytes that waited to be sent then.
    idle_unsent: u64,
    /// Periods in which nothing of that was taken.
    stood: u32,
    /// What had come through a tunnel of which our side has said all.
    tunnel_got: Option<u64>,
    pub(super) linger: Option<StageTimer>,
    /// The last reply was not sent when we last looked.
    linger_unsent: bool,
    pub(super) lingered: u64,
}

impl Timers {
    /// So many bytes have come.
    #[inline]
    pub(super) fn came(&mut self, bytes: usize) {
        self.body_got += bytes as u64;
        if self.waits_since.is_some() {
            self.count_wait();
        }
    }

    /// Adds up what we have waited for a body so far.
    fn count_wait(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.body_waited += time::now().saturating_duration_since(since);
        }
    }

    fn measure_anew(&mut self) {
        (self.body_got, self.body_waited) = (0, Duration::ZERO);
    }
}

impl HttpServer {
    #[cold]
    pub(super) fn wait_for_head(&mut self, cx: &mut Context<'_, Self>) {
        if self.timers.head.is_none() {
            self.timers.head_spent = self.limits.head_time;
            self.timers.head = Some(cx.arm(self.limits.head_time));
        }
    }

    /// Everything of a body that is there has been taken, and more was asked for.
    pub(super) fn watch_body(&mut self, cx: &mut Context<'_, Self>) {
        if self.limits.body_rate == 0 {
            return;
        }
        if self.timers.body.is_none() {
            self.timers.measure_anew();
            self.timers.waits_since = None;
            self.timers.body = Some(cx.arm(self.limits.body_time));
        }
        // Whoever does not read cannot complain; and who was not told to send yet need not.
        if !cx.view().is_paused() && !self.expecting && self.timers.waits_since.is_none() {
            self.timers.waits_since = Some(time::now());
        }
    }

    pub(super) fn body_is_over(&mut self, cx: &mut Context<'_, Self>) {
        self.timers.waits_since = None;
        self.timers.bodies += 1;
        if let Some(timer) = self.timers.body.take() {
            cx.disarm(timer);
        }
    }

    /// Our side of a tunnel has said all: the other side has its time for the rest.
    pub(super) fn watch_tunnel(&mut self, cx: &mut Context<'_, Self>) {
        if self.timers.idle.is_none() {
            self.watch_idle(cx);
        }
    }

    /// A timer is due.
    pub(super) fn due(&mut self, cx: &mut Context<'_, Self>, timer: StageTimer) {
        let due = Some(timer);
        // What was refused is told as soon as it is its turn, and the connection ends with it.
        let refused = self.refused.is_some();
        if self.timers.head == due {
            self.timers.head = None;
            if !refused {
                self.head_due(cx);
            }
        } else if self.timers.body == due {
            self.timers.body = None;
            if !refused {
                self.body_due(cx);
            }
        } else if self.timers.idle == due {
            self.timers.idle = None;
            self.idle_due(cx);
        } else if self.timers.linger == due {
            self.timers.linger = None;
            self.linger_due(cx);
        }
    }

    fn head_due(&mut self, cx: &mut Context<'_, Self>) {
        if !self.decoder.is_between() || self.wire.input.is_empty() || !self.takes_requests() {
            return; // armed again when a head is waited for
        }
        let got = self.decoder.head_seen();
        let spent = self.timers.head_spent;
        let earned = Duration::from_secs((got / self.limits.head_rate.max(1)) as u64);
        let allowed = (self.limits.head_time + earned).min(self.limits.head_time * 3);
        if cx.view().is_paused() {
            self.timers.head = Some(cx.arm(self.limits.head_time)); // the rest may be there, and nobody has read it
        } else if allowed <= spent {
            self.refuse(cx, HttpError::HeadTooSlow { time: spent, got });
        } else {
            self.timers.head_spent = allowed;
            self.timers.head = Some(cx.arm(allowed - spent));
        }
    }

    fn body_due(&mut self, cx: &mut Context<'_, Self>) {
        if self.decoder.is_between() {
            return;
        }
        if cx.view().is_paused() {
            self.timers.waits_since = None; // since when is not known: in doubt for the peer
        }
        let waits = self.timers.waits_since.is_some();
        self.timers.count_wait();
        let (time, waited, got) = (self.limits.body_time, self.timers.body_waited, self.timers.body_got);
        if waited >= time {
            let least = (self.limits.body_rate as u128 * waited.as_millis() / 1000).max(1);
            let least = u64::try_from(least).unwrap_or(u64::MAX);
            if got < least {
                return self.refuse(cx, HttpError::BodyTooSlow { time: waited, least, got });
            }
            self.timers.measure_anew();
        }
        let mut next = time;
        if waits {
            self.timers.waits_since = Some(time::now());
            next = time - self.timers.body_waited;
        }
        self.timers.body = Some(cx.arm(next));
    }

    fn idle_due(&mut self, cx: &mut Context<'_, Self>) {
        // What stages nearer to the wire keep counts as well: it becomes less, while what they have passed on may stay as much.
        let flushed = cx.view().unsent_bytes();
        let unsent = flushed.saturating_add(cx.view().pending_bytes() as u64);
        let same = unsent == self.timers.idle_unsent;
        // The system takes more of us only when a good part of its buffer is free: who takes it slowly may take many periods for that.
        // Whether the peer takes anything at all is seen where the bytes leave (`LeastRate`); here it is looked at for those who have
        // no such limit.
        // As many bytes are the same bytes only if nothing was written meanwhile.
        let stands = same && unsent > 0 && self.timers.idle_written == self.written();
        self.timers.stood = if stands { self.timers.stood + 1 } else { 0 };
        let same = same && (unsent == 0 || self.timers.stood >= STOOD_MAX);
        let over = match self.phase {
            Phase::Reading => {
                let idle = self.timers.idle_decoded == self.came() // the end of a body may have come a moment ago
                    && self.timers.idle_written == self.written() // its last reply may have been over a moment ago
                    && self.refused.is_none()
                    && self.replies.waiting() == 0
                    && self.decoder.is_between()
                    && self.wire.input.is_empty();
                // A reply may take long to be sent; a peer that takes nothing of it for as long is gone. If nothing was written
                // meanwhile, as many bytes are the same bytes. What the peer has sent, its end included, may be unread for that
                // very reason: reading stops while replies pile up.
                let stands = flushed > 0 && self.timers.idle_written == self.written();
                same && (idle || stands)
            }
            Phase::Tunnel => return, // the application's business
            // Our side has said all, and the other side nothing any more.
            Phase::TunnelEnds => {
                unsent == 0
                    && self.timers.tunnel_got.replace(self.timers.body_got) == Some(self.timers.body_got)
            }
            // Whoever was to take over has not. What was written before is the next one's business.
            Phase::Switched => self.timers.idle_unsent != NOT_LOOKED,
            // Nothing is written any more: it can only become less.
            Phase::Lingering | Phase::Closing => same,
        };
        if over {
            self.phase = Phase::Closing;
            return cx.close_because(CloseCause::TimedOut(self.limits.idle_time));
        }
        self.watch_idle(cx);
        self.timers.idle_unsent = unsent;
    }

    /// What changes with everything that is read: requests that have begun, and bodies that are over.
    fn came(&self) -> (u64, u64) {
        (self.decoded, self.timers.bodies)
    }

    /// What changes with everything that is written: replies that are over, and parts of others.
    fn written(&self) -> (u64, u64) {
        (self.answered(), self.replies.parts)
    }

    pub(super) fn watch_idle(&mut self, cx: &mut Context<'_, Self>) {
        self.timers.idle_decoded = self.came();
        self.timers.idle_written = self.written();
        self.timers.idle_unsent = 0;
        self.timers.idle = Some(cx.arm(self.limits.idle_time));
    }

    /// Reads for a while what the peer still sends, whoever asks for messages: its end, at best.
    pub(super) fn linger(&mut self, cx: &mut Context<'_, Self>) {
        self.timers.linger = Some(cx.arm(self.limits.linger_time));
        self.insists = Some(Box::new(cx.insist()));
    }

    /// The peer has its time to read why from when all is sent; until then the idle timer watches it.
    fn linger_due(&mut self, cx: &mut Context<'_, Self>) {
        let unsent = cx.view().unsent_bytes() > 0;
        if unsent || self.timers.linger_unsent {
            self.timers.linger_unsent = unsent;
            self.timers.linger = Some(cx.arm(self.limits.linger_time));
            return;
        }
        self.phase = Phase::Closing;
        cx.close();
    }

    /// Nothing is read any more. The idle timer goes on: it sees whether the peer takes what was written.
    pub(super) fn stop_reading(&mut self, cx: &mut Context<'_, Self>) {
        self.timers.waits_since = None;
        self.timers.idle_unsent = NOT_LOOKED;
        for timer in [self.timers.head.take(), self.timers.body.take()].into_iter().flatten() {
            cx.disarm(timer);
        }
    }
}

//! What is encrypted when: everything at the flush, much of it in batches.
//!
//! ```text
//!   queue [m1][m2][file ······]  ── flush ──▶ gathered ──▶ records, up to a batch ──▶ [marker]
//!                      └──────────── the next batch, when the marker says that this one is sent ──┘
//! ```

use super::{Phase, Tls};
use crate::{
    TlsError,
    queue::Entry,
    room::{GATHER_MAX, SEAL_MAX, with_gather, with_room},
};
use bytes::Bytes;
use netwright_core::{
    CloseCause, Context, ENTRY_OVERHEAD, Fault, FileRegion, Kept, Outgoing, Place, Special, WriteError,
    WritePromise,
};

/// Plaintext that is encrypted at once. What is more waits until this is sent, so that a large file or message takes no
/// memory twice, and the loop's other connections have their turns.
const BATCH: usize = 256 * 1024;

/// Bytes that may wait here before the channel counts them as pending.
const UNTOLD_MAX: usize = 4 * 1024;

impl Tls {
    /// So many bytes wait here. The channel is told when they are worth it: what is flushed at once is not.
    pub(super) fn keep<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, bytes: usize) {
        self.kept += bytes;
        let untold = self.kept - self.told();
        if untold > UNTOLD_MAX {
            self.told.get_or_insert_with(|| cx.keep(0)).add(cx, untold);
        }
    }

    pub(super) fn let_go_of<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, bytes: usize) {
        self.kept -= bytes;
        let kept = self.kept;
        if let Some(told) = &mut self.told
            && told.bytes() > kept
        {
            told.sub(cx, told.bytes() - kept);
        }
    }

    /// How many the channel knows of.
    fn told(&self) -> usize {
        self.told.as_ref().map_or(0, Kept::bytes)
    }

    /// Encrypts what was flushed, up to one batch: the next one follows when that is on its way.
    pub(super) fn drain<P: Place>(&mut self, cx: &mut Context<'_, Self, P>) {
        if self.batch_under_way {
            return;
        }
        let mut room = BATCH;
        with_gather(|gathered| self.drain_with(cx, gathered, &mut room));
        if self.phase != Phase::Open {
            return;
        }
        if self.queue.has_flushed() {
            self.batch_under_way = true;
            let caller = cx.caller();
            let sent = cx.write_tracked(Bytes::new()); // done when everything before it is
            sent.listen(move |sent| {
                let sent = sent.clone();
                caller.call(move |tls, cx| {
                    tls.batch_under_way = false;
                    match sent {
                        Ok(()) => {
                            tls.drain(cx);
                            cx.flush();
                        }
                        Err(error) => tls.lose_rest(cx, &error),
                    }
                });
            });
        } else if let Some(done) = self.shutting_down.take() {
            self.shut_down(cx, done);
        }
    }

    /// What was sent before it is lost, so the rest is not sent either. Who waits for it hears of it now: the end of the channel
    /// may come behind messages that are only read when it is over.
    fn lose_rest<P: Place>(&mut self, cx: &mut Context<'_, Self, P>, error: &WriteError) {
        let counted = self.queue.fail_all(error);
        self.let_go_of(cx, counted);
        if let Some(done) = self.shutting_down.take() {
            done.fail(error.clone());
        }
    }

    pub(super) fn drain_with<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        gathered: &mut Vec<u8>,
        room: &mut usize,
    ) {
        while *room > 0
            && self.phase == Phase::Open
            && let Some(Entry { message, mut done, counted }) = self.queue.take()
        {
            self.let_go_of(cx, counted);
            if !done.claim() {
                continue; // cancelled
            }
            match message {
                Outgoing::Bytes(bytes) => self.put(cx, gathered, bytes, done, room),
                Outgoing::Special(Special::Envelope(envelope)) if envelope.is_plain() => {
                    self.put(cx, gathered, envelope.bytes, done, room);
                }
                Outgoing::Special(Special::Envelope(_)) => {
                    done.fail(WriteError::Fault(Fault::new(TlsError::NotBytes)))
                }
                Outgoing::Special(Special::File(region)) => {
                    self.seal_gathered(cx, gathered, WritePromise::untracked());
                    self.put_file(cx, gathered, region, done, room);
                }
            }
        }
        self.seal_gathered(cx, gathered, WritePromise::untracked());
    }

    /// Small messages are put together, so that they share a record; of large ones as much is encrypted as there is room.
    pub(super) fn put<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        gathered: &mut Vec<u8>,
        mut bytes: Bytes,
        done: WritePromise,
        room: &mut usize,
    ) {
        if bytes.len() <= GATHER_MAX {
            *room = room.saturating_sub(bytes.len());
            gathered.extend_from_slice(&bytes);
            if done.is_tracked() || gathered.len() > GATHER_MAX {
                self.seal_gathered(cx, gathered, done);
            }
            return;
        }
        self.seal_gathered(cx, gathered, WritePromise::untracked());
        let rest = bytes.split_off(bytes.len().min((*room).max(SEAL_MAX)));
        *room = room.saturating_sub(bytes.len());
        if rest.is_empty() {
            return self.seal(cx, &bytes, done);
        }
        self.seal(cx, &bytes, WritePromise::untracked());
        self.put_back(cx, rest.into(), done);
    }

    /// The rest of a message, for the next batch.
    pub(super) fn put_back<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        message: Outgoing,
        done: WritePromise,
    ) {
        if self.phase != Phase::Open {
            return done.fail(WriteError::Closed(CloseCause::Requested));
        }
        let bytes = counted(&message);
        self.keep(cx, bytes);
        self.queue.put_back(Entry { message, done, counted: bytes });
    }

    pub(super) fn seal_gathered<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        gathered: &mut Vec<u8>,
        done: WritePromise,
    ) {
        if !gathered.is_empty() {
            self.seal(cx, gathered, done);
            gathered.clear();
        } else if done.is_tracked() {
            cx.write_with(Bytes::new(), done);
        }
    }

    /// Reads and encrypts as much of a file as there is room for.
    pub(super) fn put_file<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        buffer: &mut Vec<u8>,
        mut region: Box<FileRegion>,
        done: WritePromise,
        room: &mut usize,
    ) {
        while region.remaining() > 0 {
            if *room == 0 {
                return self.put_back(cx, Outgoing::Special(Special::File(region)), done);
            }
            buffer.resize(SEAL_MAX, 0);
            match region.read_into(buffer) {
                Ok(len) => {
                    buffer.truncate(len);
                    region.advance(len as u64);
                    *room = room.saturating_sub(len);
                    if region.remaining() == 0 {
                        break;
                    }
                    self.seal_gathered(cx, buffer, WritePromise::untracked());
                }
                Err(error) => {
                    buffer.clear();
                    let breaks_off = region.breaks_off(&error);
                    done.fail(WriteError::File(error.into()));
                    if let Some(error) = breaks_off {
                        cx.flush(); // what is in front of it
                        self.break_off(cx, CloseCause::io(error));
                    }
                    return;
                }
            }
        }
        self.seal_gathered(cx, buffer, done);
    }

    /// Encrypts and passes on.
    pub(super) fn seal<P: Place>(
        &mut self,
        cx: &mut Context<'_, Self, P>,
        plain: &[u8],
        mut done: WritePromise,
    ) {
        let mut pieces = plain.chunks(SEAL_MAX).peekable();
        while let Some(piece) = pieces.next() {
            let Some(connection) = &mut self.connection else { return };
            let inbox = &mut self.inbox;
            let (sealed, bytes) = with_room(piece.len(), |out| connection.encrypt(inbox, piece, out));
            if let Err(error) = sealed {
                if !bytes.is_empty() {
                    cx.write(bytes); // a goodbye: the keys are used up
                    cx.flush();
                }
                return self.fail(cx, error.into());
            }
            let promise =
                if pieces.peek().is_none() { std::mem::take(&mut done) } else { WritePromise::untracked() };
            cx.write_with(bytes, promise);
        }
    }
}

/// What a message counts as while it waits: its bytes in memory, and what any message costs.
pub(super) fn counted(message: &Outgoing) -> usize {
    ENTRY_OVERHEAD
        + match message {
            Outgoing::Bytes(bytes) => bytes.len(),
            Outgoing::Special(Special::Envelope(envelope)) => envelope.bytes.len(),
            Outgoing::Special(Special::File(_)) => 0,
        }
}

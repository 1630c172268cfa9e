//! One direction of a local connection: a bounded queue of bytes.
//!
//! ```text
//!   writer ── push ──▶ [piece][piece][piece] ── fetch ──▶ reader's own list ──▶ handlers
//!      ▲                └──────── used ───────────────────────┘ │
//!      └── rung when there is room ◀────── give_back ◀──────────┘
//! ```
//! Always true between calls:
//! 1. `used` counts what was pushed and not given back, wherever it is: bytes, and [`PIECE_OVERHEAD`] for each piece. The
//!    writer pushes only while `used < limit`, and at most half of the limit beyond it (see `stream`).
//! 2. Who is told that there is nothing (no bytes, too little room) is marked as waiting in the same step, and is rung once
//!    by whoever changes that: when there are bytes, when half of the pipe is free. So no wake-up is lost, and none is sent
//!    to somebody who does not wait.
//! 3. The end of either side is told to the other in any case, once.
//! 4. Neither bells nor the drop of foreign bytes are called under the lock.
//!
//! All state is behind one mutex; there is no other shared state.

use bytes::{Bytes, BytesMut};
use netwright_core::SourceCaller;
use std::{
    collections::VecDeque,
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What a pipe holds unless told otherwise: as much as a read takes at most.
pub(super) const PIPE_LEN: usize = 64 * 1024;

/// What a piece counts for besides its bytes, so that a flood of tiny ones is bounded too.
pub(super) const PIECE_OVERHEAD: usize = 64;

/// Room for pieces that an empty list keeps.
const PIECES_KEPT: usize = 64;

/// Bytes on their way.
pub(super) enum Piece {
    /// A message as a whole; who else may hold it is looked at when it is read.
    Whole(Bytes),
    /// A part of a message that nobody else holds.
    Part(BytesMut),
}

impl Piece {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Part(bytes) => bytes.len(),
        }
    }

    /// What it counts for.
    pub(super) fn charge(&self) -> usize {
        self.len() + PIECE_OVERHEAD
    }

    /// For a handler: as it is if nobody else holds it, else a copy.
    pub(super) fn into_mut(self) -> BytesMut {
        match self {
            Self::Whole(bytes) => bytes.try_into_mut().unwrap_or_else(|held| BytesMut::from(&held[..])),
            Self::Part(bytes) => bytes,
        }
    }
}

/// How a side ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It had nothing more to say or to hear.
    InOrder,
    /// It went away without having read everything, or said so.
    Reset,
}

/// Calls one end of a pipe, from any thread.
pub(super) trait Bell: Clone {
    fn ring(&self);
}

impl Bell for SourceCaller {
    fn ring(&self) {
        self.call();
    }
}

pub(super) struct Pipe<B = SourceCaller> {
    limit: usize,
    state: Mutex<State<B>>,
}

struct State<B> {
    pieces: VecDeque<Piece>,
    used: usize,
    /// The writer pushes no more.
    ended: Option<Ending>,
    /// The reader reads no more.
    deserted: Option<Ending>,
    reader: Waiter<B>,
    writer: Waiter<B>,
}

struct Waiter<B> {
    bell: Option<B>,
    waits: bool,
}

impl<B: Bell> Waiter<B> {
    /// The bell of somebody who waits: to be rung without the lock.
    fn wake(&mut self) -> Option<B> {
        if mem::take(&mut self.waits) { self.bell.clone() } else { None }
    }
}

/// What the writer finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    /// So many bytes may be pushed.
    Bytes(usize),
    /// The reader has gone.
    Deserted,
}

impl<B: Bell> Pipe<B> {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit: limit.max(1),
            state: Mutex::new(State {
                pieces: VecDeque::new(),
                used: 0,
                ended: None,
                deserted: None,
                reader: Waiter { bell: None, waits: true },
                writer: Waiter { bell: None, waits: false },
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Half of what fits in: with so much room a writer that waits is rung, and so much that was read is worth giving
    /// back.
    pub(super) fn half(&self) -> usize {
        (self.limit / 2).max(1)
    }

    // ---- the writer ----

    /// How the writer is called. Nothing is rung now: who comes looks.
    pub(super) fn set_writer(&self, bell: B) {
        self.lock().writer.bell = Some(bell);
    }

    /// How much may be pushed. If that is less than `wanted`, which is half at most, the writer is rung when half is free.
    pub(super) fn room(&self, wanted: usize) -> Room {
        let mut state = self.lock();
        let room = self.room_in(&state);
        state.writer.waits = matches!(room, Room::Bytes(room) if room < wanted);
        room
    }

    fn room_in(&self, state: &State<B>) -> Room {
        match state.deserted {
            Some(_) => Room::Deserted,
            None => Room::Bytes(self.limit.saturating_sub(state.used)),
        }
    }

    /// Appends a piece, which is within the room that there was, and tells how much is left. If the reader has gone since
    /// it is dropped, as it would be on a network.
    pub(super) fn push(&self, piece: Piece) -> Room {
        let mut state = self.lock();
        if state.deserted.is_some() || state.ended.is_some() {
            drop(state);
            return Room::Deserted;
        }
        state.used += piece.charge();
        state.pieces.push_back(piece);
        let (room, bell) = (self.room_in(&state), state.reader.wake());
        drop(state);
        ring(bell);
        room
    }

    /// The writer pushes no more. The first ending counts.
    pub(super) fn end(&self, ending: Ending) {
        let mut state = self.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(ending);
        state.reader.waits = true; // whether it waits or not: it wants to know
        let bell = state.reader.wake();
        let own = state.writer.bell.take();
        drop(state);
        drop(own);
        ring(bell);
    }

    /// How the reader went, if it has.
    pub(super) fn deserted(&self) -> Option<Ending> {
        self.lock().deserted
    }

    // ---- the reader ----

    /// How the reader is called. Nothing is rung now: who comes looks.
    pub(super) fn set_reader(&self, bell: B) {
        self.lock().reader.bell = Some(bell);
    }

    /// Gives back what was read, and moves all that there is into the empty list `into`. If there is nothing, the answer
    /// is how the writer has ended; if it has not, the reader is rung when there is something.
    pub(super) fn fetch(&self, into: &mut VecDeque<Piece>, read: usize) -> Option<Ending> {
        if into.capacity() > PIECES_KEPT {
            into.shrink_to(PIECES_KEPT); // the longest burst is not kept for ever
        }
        let mut state = self.lock();
        let bell = self.free(&mut state, read);
        mem::swap(&mut state.pieces, into);
        let ended = if into.is_empty() { state.ended } else { None };
        state.reader.waits = into.is_empty() && ended.is_none();
        drop(state);
        ring(bell);
        ended
    }

    /// Gives back what was read.
    pub(super) fn give_back(&self, read: usize) {
        let bell = self.free(&mut self.lock(), read);
        ring(bell);
    }

    fn free(&self, state: &mut State<B>, read: usize) -> Option<B> {
        state.used -= read;
        if state.used.saturating_add(self.half()) <= self.limit { state.writer.wake() } else { None }
    }

    /// How the writer has ended, if it has and the pipe is empty.
    pub(super) fn ended(&self) -> Option<Ending> {
        let state = self.lock();
        if state.pieces.is_empty() { state.ended } else { None }
    }

    /// Whether the writer has ended, whatever is still in the pipe.
    pub(super) fn is_ending(&self) -> bool {
        self.lock().ended.is_some()
    }

    /// Whether anything is in the pipe.
    pub(super) fn has_pieces(&self) -> bool {
        !self.lock().pieces.is_empty()
    }

    /// The reader reads no more: what is in the pipe is dropped, and then it was no end in order.
    pub(super) fn desert(&self, ending: Ending) {
        let mut state = self.lock();
        let ending = if state.pieces.is_empty() { ending } else { Ending::Reset };
        state.deserted.get_or_insert(ending);
        state.writer.waits = true; // whether it waits or not: it wants to know
        let bell = state.writer.wake();
        let (pieces, own) = (mem::take(&mut state.pieces), state.reader.bell.take());
        drop(state);
        drop((pieces, own));
        ring(bell);
    }
}

fn ring(bell: Option<impl Bell>) {
    if let Some(bell) = bell {
        bell.ring();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    #[derive(Clone, Default)]
    struct Count(Arc<AtomicUsize>);

    impl Bell for Count {
        fn ring(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Count {
        fn take(&self) -> usize {
            self.0.swap(0, Ordering::SeqCst)
        }
    }

    struct Bench {
        pipe: Pipe<Count>,
        reader: Count,
        writer: Count,
    }

    fn pipe(limit: usize) -> Bench {
        let bench = Bench { pipe: Pipe::new(limit), reader: Count::default(), writer: Count::default() };
        bench.pipe.set_reader(bench.reader.clone());
        bench.pipe.set_writer(bench.writer.clone());
        bench
    }

    impl Bench {
        fn push(&self, bytes: &'static [u8]) {
            assert_ne!(self.pipe.push(Piece::Whole(Bytes::from_static(bytes))), Room::Deserted);
        }

        /// Reads all there is and gives it back with the next fetch.
        fn fetch(&self, read: usize) -> (Vec<u8>, usize, Option<Ending>) {
            let mut list = VecDeque::new();
            let ended = self.pipe.fetch(&mut list, read);
            let charge = list.iter().map(Piece::charge).sum();
            (list.into_iter().flat_map(Piece::into_mut).collect(), charge, ended)
        }
    }

    #[test]
    fn a_reader_is_rung_once_when_it_waits_and_not_when_it_does_not() {
        let bench = pipe(1000);
        bench.push(b"a");
        bench.push(b"b");
        assert_eq!(bench.reader.take(), 1);
        let (bytes, charge, _) = bench.fetch(0);
        assert_eq!(bytes, b"ab");
        bench.push(b"c");
        assert_eq!(bench.reader.take(), 0, "it has something to do and will look again");
        let (bytes, more, _) = bench.fetch(charge);
        assert_eq!(bytes, b"c");
        assert_eq!(bench.fetch(more).2, None);
        bench.push(b"d");
        assert_eq!(bench.reader.take(), 1);
    }

    #[test]
    fn a_writer_that_found_no_room_is_rung_once_when_there_is_some() {
        let bench = pipe(10);
        assert_eq!(bench.pipe.room(1), Room::Bytes(10));
        bench.push(b"0123456789");
        let (_, charge, _) = bench.fetch(0);
        assert_eq!(bench.writer.take(), 0, "it does not wait yet");
        assert_eq!(bench.pipe.room(1), Room::Bytes(0), "what the reader has not given back counts");
        bench.pipe.give_back(charge);
        bench.pipe.give_back(0);
        assert_eq!(bench.writer.take(), 1);
        assert_eq!(bench.pipe.room(1), Room::Bytes(10));
    }

    #[test]
    fn a_writer_that_needs_more_room_than_there_is_waits_until_half_is_free() {
        let bench = pipe(1000);
        for _ in 0..3 {
            bench.push(&[0; 236]); // 300 each
        }
        assert_eq!(bench.pipe.room(500), Room::Bytes(100));
        let (_, charge, _) = bench.fetch(0);
        assert_eq!(charge, 900);
        bench.pipe.give_back(300);
        assert_eq!(bench.writer.take(), 0, "400 are free");
        bench.pipe.give_back(300);
        assert_eq!(bench.writer.take(), 1);
        assert_eq!(bench.pipe.room(500), Room::Bytes(700));
    }

    #[test]
    fn what_was_pushed_before_the_end_is_read_before_it() {
        for ending in [Ending::InOrder, Ending::Reset] {
            let bench = pipe(1000);
            bench.push(b"last words");
            bench.reader.take();
            bench.pipe.end(ending);
            assert_eq!(bench.reader.take(), 1, "told though it does not wait");
            assert_eq!(bench.pipe.ended(), None);
            let (bytes, charge, ended) = bench.fetch(0);
            assert_eq!((&bytes[..], ended), (&b"last words"[..], None));
            assert_eq!(bench.fetch(charge).2, Some(ending));
            bench.pipe.end(Ending::Reset);
            assert_eq!(bench.pipe.ended(), Some(ending), "the first ending counts");
            assert_eq!(bench.reader.take(), 0);
        }
    }

    #[test]
    fn a_reader_that_goes_is_told_to_the_writer_and_what_it_did_not_read_is_dropped() {
        let held = Bytes::from(vec![1; 10]);
        let bench = pipe(5);
        assert_eq!(bench.pipe.push(Piece::Whole(held.clone())), Room::Bytes(0));
        assert!(bench.pipe.has_pieces() && !held.is_unique());
        bench.pipe.desert(Ending::InOrder);
        assert!(held.is_unique());
        assert_eq!(bench.pipe.deserted(), Some(Ending::Reset), "it had not read everything");
        assert_eq!((bench.writer.take(), bench.pipe.room(1)), (1, Room::Deserted));
        assert_eq!(bench.pipe.push(Piece::Whole(held.clone())), Room::Deserted);
        assert!(held.is_unique(), "nobody will read it");
    }

    #[test]
    fn bytes_that_nobody_else_holds_are_not_copied() {
        let bytes = Bytes::from(vec![7; 100]);
        let place = bytes.as_ptr();
        let held = bytes.clone();
        assert_ne!(Piece::Whole(bytes.clone()).into_mut().as_ptr(), place, "somebody holds it");
        drop(held);
        assert_eq!(Piece::Whole(bytes).into_mut().as_ptr(), place);
    }

    /// Two threads that sleep whenever they are told that there is nothing: a lost ring would hang them.
    #[test]
    fn no_ring_is_lost_between_two_threads() {
        #[derive(Clone)]
        struct Unpark(std::thread::Thread);
        impl Bell for Unpark {
            fn ring(&self) {
                self.0.unpark();
            }
        }
        const TOTAL: usize = 200_000;
        for limit in [1, 100, 1000] {
            let pipe = Arc::new(Pipe::<Unpark>::new(limit));
            pipe.set_reader(Unpark(std::thread::current()));
            let theirs = pipe.clone();
            let writer = std::thread::spawn(move || {
                theirs.set_writer(Unpark(std::thread::current()));
                let mut left = TOTAL / limit.min(100);
                while left > 0 {
                    match theirs.room(1) {
                        Room::Bytes(0) => std::thread::park(),
                        Room::Bytes(room) => {
                            let len = room.min(7).min(left);
                            assert_ne!(theirs.push(Piece::Part(BytesMut::zeroed(len))), Room::Deserted);
                            left -= len;
                        }
                        Room::Deserted => panic!("the reader goes last"),
                    }
                }
                theirs.end(Ending::InOrder);
            });
            let (mut list, mut got, mut read) = (VecDeque::new(), 0, 0);
            while pipe.fetch(&mut list, mem::take(&mut read)).is_none() {
                if list.is_empty() {
                    std::thread::park();
                }
                for piece in list.drain(..) {
                    got += piece.len();
                    read += piece.charge();
                }
            }
            writer.join().unwrap();
            assert_eq!(got, TOTAL / limit.min(100));
        }
    }
}

//! The queue against a plain list of bytes, and the sentences of its header one by one.

use super::*;
use crate::channel::{
    cause::{CloseCause, Written},
    file_region::{FileRegion, tests::file_with},
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

const UNTRACKED: fn() -> WritePromise = WritePromise::untracked;

/// A queue as a transport has it, for as long as the test lasts.
fn queue() -> Outbound<'static> {
    queue_with(WaterMarks::default())
}

fn queue_with(marks: WaterMarks) -> Outbound<'static> {
    Box::leak(Box::new(OutboundQueue::new(marks))).outbound()
}

fn marks(low: usize, high: usize) -> WaterMarks {
    WaterMarks::new(low, high).unwrap()
}

fn push(outbound: &mut Outbound, bytes: &'static str) {
    outbound.push(bytes.as_bytes().into(), UNTRACKED());
}

fn push_tracked(outbound: &mut Outbound, message: impl Into<Outgoing>) -> Written {
    let (promise, written) = WritePromise::tracked();
    outbound.push(message.into(), promise);
    written
}

/// A message of `len` times `x`.
fn xs(len: usize) -> Outgoing {
    Bytes::from(vec![b'x'; len]).into()
}

/// What a transport would send of the bytes up to the next file, and how many pieces these are.
fn gathered(outbound: &Outbound, bytes_max: usize) -> (usize, String) {
    let mut slices = [IoSlice::new(&[]); 16];
    let gathered = outbound.gather(&mut slices, bytes_max);
    let bytes: Vec<u8> = slices[..gathered.pieces].iter().flat_map(|slice| slice.to_vec()).collect();
    assert_eq!(bytes.len(), gathered.bytes);
    (gathered.pieces, String::from_utf8(bytes).unwrap())
}

/// Which promise completed, and how.
type Completed = (usize, Result<(), String>);

/// Notes down in which order promises complete.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Completed>>>);

impl Log {
    fn watch(&self, id: usize, written: &Written) {
        let log = self.0.clone();
        written.listen(move |result| {
            log.lock().unwrap().push((id, result.as_ref().copied().map_err(WriteError::to_string)));
        });
    }

    fn take(&self) -> Vec<Completed> {
        mem::take(&mut self.0.lock().unwrap())
    }

    fn take_succeeded(&self) -> Vec<usize> {
        self.take().into_iter().map(|(id, result)| result.map(|()| id).unwrap()).collect()
    }
}

#[test]
fn only_what_was_flushed_may_be_sent() {
    let mut outbound = queue();
    push(&mut outbound, "a");
    assert_eq!((outbound.len(), outbound.has_flushed(), outbound.unsent_bytes()), (1, false, 0));
    assert!(outbound.first_bytes().is_none());
    assert_eq!(gathered(&outbound, 100), (0, String::new()));
    outbound.flush();
    push(&mut outbound, "b");
    assert_eq!(gathered(&outbound, 100), (1, "a".into()));
    assert_eq!((outbound.len(), outbound.has_flushed(), outbound.unsent_bytes()), (2, true, 1));
    outbound.advance(1);
    assert!(!outbound.has_flushed() && !outbound.is_empty());
    outbound.flush();
    assert_eq!(outbound.first_bytes().unwrap(), "b");
    outbound.advance(1);
    assert!(outbound.is_empty());
}

#[test]
fn a_partial_write_keeps_the_rest_and_completes_only_what_is_sent_to_its_end() {
    let (mut outbound, log) = (queue(), Log::default());
    for (id, bytes) in ["one", "two", "three"].into_iter().enumerate() {
        log.watch(id, &push_tracked(&mut outbound, bytes.as_bytes()));
    }
    outbound.flush();
    outbound.advance(2);
    assert_eq!(log.take(), []);
    assert_eq!(gathered(&outbound, 100), (3, "etwothree".into()));
    outbound.advance(4);
    assert_eq!(log.take_succeeded(), [0, 1]);
    outbound.advance(0);
    outbound.advance(4);
    assert_eq!(gathered(&outbound, 100), (1, "e".into()));
    assert_eq!(log.take(), []);
    outbound.advance(1);
    assert_eq!(log.take_succeeded(), [2]);
    assert_eq!(outbound.pending_bytes(), 0);
}

#[test]
fn cancelled_before_the_flush_they_vanish_and_the_others_cannot_be_cancelled_any_more() {
    let (mut outbound, log) = (queue(), Log::default());
    let writes: Vec<_> =
        ["a", "b", "c", "d", "e"].iter().map(|text| push_tracked(&mut outbound, text.as_bytes())).collect();
    assert!(writes[0].cancel() && writes[3].cancel());
    assert_eq!(outbound.pending_bytes(), 5 * (1 + ENTRY_OVERHEAD), "until the flush");
    outbound.flush();
    assert_eq!(outbound.pending_bytes(), 3 * (1 + ENTRY_OVERHEAD));
    for (id, written) in writes.iter().enumerate() {
        log.watch(id, written);
        assert!(!written.cancel());
    }
    let cancelled = Err(WriteError::Cancelled.to_string());
    assert_eq!(log.take(), [(0, cancelled.clone()), (3, cancelled)]);
    assert_eq!(gathered(&outbound, 100), (3, "bce".into()));
    outbound.advance(3);
    assert_eq!(log.take_succeeded(), [1, 2, 4]);
}

#[test]
fn a_flush_of_cancelled_writes_alone_leaves_an_empty_queue_and_what_was_flushed_before_stays() {
    let mut outbound = queue();
    push_tracked(&mut outbound, "gone".as_bytes()).cancel();
    outbound.flush();
    assert!(outbound.is_empty() && !outbound.has_flushed() && outbound.pending_bytes() == 0);

    let _kept = push_tracked(&mut outbound, "kept".as_bytes());
    outbound.flush();
    push_tracked(&mut outbound, "gone".as_bytes()).cancel();
    push(&mut outbound, "too");
    outbound.flush();
    assert_eq!(gathered(&outbound, 100), (2, "kepttoo".into()));
}

#[test]
fn empty_messages_complete_in_their_order_and_are_never_offered_to_the_transport() {
    let (mut outbound, log) = (queue(), Log::default());
    let empty_file = || FileRegion::new(file_with(b""), 0, 0);
    let messages: [Outgoing; 6] =
        [xs(0), empty_file().into(), xs(1), xs(0), empty_file().into(), b"y".as_slice().into()];
    for (id, message) in messages.into_iter().enumerate() {
        log.watch(id, &push_tracked(&mut outbound, message));
    }
    assert_eq!(log.take(), [], "not before the flush");
    outbound.flush();
    assert_eq!(log.take_succeeded(), [0, 1]);
    assert_eq!(gathered(&outbound, 100), (2, "xy".into()));
    outbound.advance(1);
    assert_eq!(log.take_succeeded(), [2, 3, 4]);
    log.watch(6, &push_tracked(&mut outbound, xs(0)));
    outbound.flush();
    assert_eq!(log.take(), [], "waits for what was written before it");
    outbound.advance(1);
    assert_eq!(log.take_succeeded(), [5, 6]);
    assert_eq!((outbound.len(), outbound.pending_bytes()), (0, 0));
}

#[test]
fn gathering_stops_at_the_callers_slices_at_the_byte_cap_and_at_1024_pieces() {
    let mut outbound = queue();
    for _ in 0..1100 {
        push(&mut outbound, "abc");
    }
    outbound.flush();
    let mut slices = vec![IoSlice::new(&[]); 2000];
    assert_eq!(outbound.gather(&mut slices, usize::MAX), Gathered { pieces: 1024, bytes: 3072 });
    assert_eq!(outbound.gather(&mut slices[..7], usize::MAX), Gathered { pieces: 7, bytes: 21 });
    assert_eq!(outbound.gather(&mut slices, 7), Gathered { pieces: 3, bytes: 7 });
    assert_eq!(&*slices[2], b"a", "cut at the cap");
    assert_eq!(outbound.gather(&mut slices, 0), Gathered { pieces: 0, bytes: 0 });
    assert_eq!(outbound.gather(&mut [], 7), Gathered { pieces: 0, bytes: 0 });
}

#[test]
fn a_file_region_is_sent_alone_between_the_bytes_around_it() {
    let (mut outbound, log) = (queue(), Log::default());
    let mut region = FileRegion::new(file_with(b"0123456789"), 2, 5);
    let progress = region.progress();
    let messages: [Outgoing; 3] = [b"before".as_slice().into(), region.into(), b"after".as_slice().into()];
    for (id, message) in messages.into_iter().enumerate() {
        log.watch(id, &push_tracked(&mut outbound, message));
    }
    assert_eq!(outbound.pending_bytes(), 11 + 3 * ENTRY_OVERHEAD, "the file's bytes are not in memory");
    outbound.flush();
    assert_eq!(outbound.unsent_bytes(), 16);
    assert_eq!(gathered(&outbound, 100), (1, "before".into()));
    assert!(outbound.first_file().is_none());
    outbound.advance(6);
    assert_eq!(log.take_succeeded(), [0]);

    assert_eq!(gathered(&outbound, 100), (0, String::new()));
    assert!(outbound.first_bytes().is_none() && outbound.has_flushed());
    assert_eq!(outbound.first_file().unwrap().read_chunk(4).unwrap(), "2345");
    outbound.advance(3);
    assert_eq!(outbound.first_file().unwrap().read_chunk(4).unwrap(), "56");
    assert_eq!((progress.sent(), progress.total()), (3, 5));
    outbound.advance(2);
    assert_eq!(log.take_succeeded(), [1]);
    assert_eq!(progress.sent(), 5);
    assert_eq!(outbound.first_bytes().unwrap(), "after");
}

#[test]
fn a_file_that_is_too_short_fails_its_own_promise_and_leaves_the_others_alone() {
    let (mut outbound, log) = (queue(), Log::default());
    let region = FileRegion::new(file_with(b"short"), 0, 9);
    log.watch(0, &push_tracked(&mut outbound, region));
    log.watch(1, &push_tracked(&mut outbound, xs(0)));
    log.watch(2, &push_tracked(&mut outbound, xs(1)));
    outbound.flush();
    outbound.advance(5);
    let error = outbound.first_file().unwrap().read_chunk(100).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    outbound.fail_first(WriteError::File(Arc::new(error)));
    let completed = log.take();
    let [(0, Err(told)), (1, Ok(()))] = completed.as_slice() else { panic!("{completed:?}") };
    assert!(told.contains("expected 4 more bytes"), "{told}");
    assert_eq!(gathered(&outbound, 100), (1, "x".into()));
    assert_eq!(outbound.pending_bytes(), 1 + ENTRY_OVERHEAD);
    outbound.advance(1);
    outbound.fail_first(WriteError::OutputShutDown);
    push(&mut outbound, "unflushed");
    outbound.fail_first(WriteError::OutputShutDown);
    assert_eq!(outbound.len(), 1, "there was nothing flushed to fail");
}

#[test]
#[should_panic(expected = "the transport reports 6 bytes as taken, 3 more than were flushed")]
fn taking_more_than_was_flushed_panics() {
    let mut outbound = queue();
    push(&mut outbound, "abc");
    outbound.flush();
    push(&mut outbound, "def");
    outbound.advance(6);
}

#[test]
fn crossing_the_high_mark_and_falling_below_the_low_one_are_one_flip_each() {
    let mut outbound = queue_with(marks(128 + ENTRY_OVERHEAD, 256 + ENTRY_OVERHEAD));
    assert!(outbound.is_writable());
    outbound.push(xs(128), UNTRACKED());
    outbound.push(xs(128 - ENTRY_OVERHEAD), UNTRACKED());
    assert_eq!(outbound.pending_bytes(), outbound.water_marks().high());
    assert_eq!(outbound.account.take_flip(), None, "at the mark is not above it");
    outbound.push(xs(0), UNTRACKED());
    assert!(!outbound.is_writable());
    assert_eq!((outbound.account.take_flip(), outbound.account.take_flip()), (Some(false), None));
    outbound.push(xs(50), UNTRACKED());
    assert_eq!(outbound.account.take_flip(), None);

    outbound.flush();
    outbound.advance(128); // leaves 32 + 0 + 50 bytes and three overheads
    assert_eq!(outbound.pending_bytes(), 82 + 3 * ENTRY_OVERHEAD);
    assert_eq!(outbound.account.take_flip(), None, "below high, not yet below low");
    outbound.advance(32);
    assert_eq!(outbound.pending_bytes(), 50 + ENTRY_OVERHEAD);
    assert_eq!((outbound.account.take_flip(), outbound.account.take_flip()), (Some(true), None));
}

#[test]
fn exactly_at_the_low_mark_is_not_yet_writable() {
    let mut outbound = queue_with(marks(ENTRY_OVERHEAD + 10, ENTRY_OVERHEAD + 20));
    outbound.push(xs(21), UNTRACKED());
    outbound.flush();
    assert_eq!(outbound.account.take_flip(), Some(false));
    outbound.advance(11);
    assert_eq!((outbound.pending_bytes(), outbound.account.take_flip()), (ENTRY_OVERHEAD + 10, None));
    outbound.advance(1);
    assert_eq!(outbound.account.take_flip(), Some(true), "a part of a message counts as soon as it is taken");
}

#[test]
fn flips_that_nobody_asked_for_in_between_collapse() {
    let mut outbound = queue_with(marks(100, 200));
    for _ in 0..3 {
        outbound.push(xs(300), UNTRACKED());
        outbound.flush();
        assert!(!outbound.is_writable());
        outbound.advance(300);
        assert!(outbound.is_writable());
    }
    assert_eq!(outbound.account.take_flip(), None, "there and back is no change");
    outbound.push(xs(300), UNTRACKED());
    outbound.flush();
    outbound.advance(300);
    outbound.push(xs(300), UNTRACKED());
    assert_eq!((outbound.account.take_flip(), outbound.account.take_flip()), (Some(false), None));
}

#[test]
fn cancelled_writes_free_their_share_at_the_flush() {
    let mut outbound = queue_with(marks(100, 200));
    let written = push_tracked(&mut outbound, xs(300));
    assert_eq!(outbound.account.take_flip(), Some(false));
    assert!(written.cancel());
    outbound.flush();
    assert_eq!(outbound.account.take_flip(), Some(true));
}

#[test]
fn a_users_bit_keeps_the_channel_unwritable_after_draining_without_a_second_event() {
    let mut outbound = queue_with(marks(100, 200));
    outbound.set_user_writability(1, false).unwrap();
    assert_eq!((outbound.account.take_flip(), outbound.user_writability(1)), (Some(false), false));
    outbound.push(xs(300), UNTRACKED());
    outbound.flush();
    outbound.set_user_writability(31, false).unwrap();
    assert_eq!(outbound.account.take_flip(), None, "it was unwritable before");
    outbound.advance(300);
    outbound.set_user_writability(1, true).unwrap();
    outbound.set_user_writability(2, true).unwrap();
    assert_eq!((outbound.account.take_flip(), outbound.is_writable()), (None, false), "bit 31 is still off");
    outbound.set_user_writability(31, true).unwrap();
    assert_eq!((outbound.account.take_flip(), outbound.account.take_flip()), (Some(true), None));
}

#[test]
fn users_bits_are_1_to_31() {
    let mut outbound = queue();
    for bit in [0, 32, u32::MAX] {
        let error = outbound.set_user_writability(bit, false).unwrap_err();
        assert_eq!(error.expected, "one of 1 to 31");
        assert!(outbound.user_writability(bit));
    }
    assert!(outbound.is_writable());
}

#[test]
fn what_other_threads_have_written_counts_before_it_arrives() {
    let mut outbound = queue_with(marks(200, 400));
    outbound.account.expect_from_outside(401);
    assert_eq!((outbound.account.take_flip(), outbound.pending_bytes()), (Some(false), 401));
    outbound.account.arrived_from_outside(401);
    outbound.push(xs(401 - ENTRY_OVERHEAD), UNTRACKED());
    assert_eq!(outbound.account.take_flip(), None, "it has only changed its place");
    outbound.account.expect_from_outside(1);
    outbound.flush();
    outbound.advance(401 - ENTRY_OVERHEAD);
    assert_eq!((outbound.account.take_flip(), outbound.pending_bytes()), (Some(true), 1));
}

#[test]
fn water_marks_can_be_replaced_and_hold_at_once() {
    let mut outbound = queue();
    outbound.push(xs(1000), UNTRACKED());
    outbound.set_water_marks(marks(100, 200));
    assert_eq!(outbound.account.take_flip(), Some(false));
    outbound.set_water_marks(marks(1000, 5000));
    assert_eq!(outbound.account.take_flip(), None, "between the marks it stays what it was");
    outbound.set_water_marks(WaterMarks::default());
    assert_eq!(outbound.account.take_flip(), Some(true));
}

#[test]
fn water_marks_that_could_never_let_go_again_are_refused() {
    assert_eq!(WaterMarks::new(0, 10).unwrap_err().expected, "at least 1");
    let error = WaterMarks::new(11, 10).unwrap_err();
    assert_eq!((error.value.as_str(), error.expected.as_str()), ("11", "at most the high one, 10"));
    assert_eq!((marks(10, 10).low(), marks(10, 10).high()), (10, 10));
}

#[test]
fn the_end_fails_flushed_and_unflushed_in_order_and_every_later_write_with_the_same_cause() {
    let (mut outbound, log) = (queue_with(marks(1, 1)), Log::default());
    log.watch(0, &push_tracked(&mut outbound, xs(5)));
    log.watch(1, &push_tracked(&mut outbound, xs(0)));
    outbound.flush();
    outbound.advance(2);
    log.watch(2, &push_tracked(&mut outbound, xs(5)));
    let cancelled = push_tracked(&mut outbound, xs(5));
    cancelled.cancel();
    log.watch(3, &push_tracked(&mut outbound, xs(5)));
    outbound.account.expect_from_outside(7);
    assert_eq!(outbound.account.take_flip(), Some(false));

    let error = WriteError::Closed(CloseCause::PeerClosed);
    let told = Err(error.to_string());
    outbound.fail_all(error);
    assert_eq!(log.take(), [0, 1, 2, 3].map(|id| (id, told.clone())));
    assert!(outbound.is_empty() && !outbound.has_flushed() && outbound.pending_bytes() == 7);
    assert!(!outbound.is_writable());
    assert_eq!(outbound.account.take_flip(), None);

    outbound.fail_all(WriteError::Closed(CloseCause::ShutDown));
    outbound.account.end(WriteError::OutputShutDown);
    log.watch(4, &push_tracked(&mut outbound, xs(5)));
    push(&mut outbound, "nobody asks");
    outbound.flush();
    assert_eq!(log.take(), [(4, told)], "the first cause stays");
    assert!(outbound.is_empty());
}

#[test]
fn after_the_output_was_shut_down_writes_fail_and_what_was_accepted_can_still_be_sent() {
    let (mut outbound, log) = (queue_with(marks(1, 1)), Log::default());
    log.watch(0, &push_tracked(&mut outbound, xs(5)));
    outbound.account.end(WriteError::OutputShutDown);
    log.watch(1, &push_tracked(&mut outbound, xs(5)));
    assert_eq!(log.take(), [(1, Err(WriteError::OutputShutDown.to_string()))]);
    assert_eq!((outbound.account.take_flip(), outbound.is_writable()), (None, false));
    outbound.flush();
    outbound.advance(5);
    assert_eq!(log.take_succeeded(), [0]);
    assert_eq!((outbound.account.take_flip(), outbound.is_writable()), (None, false));

    outbound.fail_all(WriteError::Closed(CloseCause::Requested));
    assert!(matches!(outbound.ended(), Some(WriteError::Closed(CloseCause::Requested))));
}

/// Bytes whose owner counts how often it was dropped.
struct Owner(Arc<AtomicUsize>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        b"owned"
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_message_is_released_once_and_before_its_promise_completes_whatever_becomes_of_it() {
    let drops = Arc::new(AtomicUsize::new(0));
    // How many messages were released when each promise completed. Asserted outside: a listener's panic is contained.
    let released_at = Arc::new(Mutex::new(Vec::new()));
    let mut outbound = queue();
    let write = |outbound: &mut Outbound| {
        let (promise, written) = WritePromise::tracked();
        let (drops_then, released_at) = (drops.clone(), released_at.clone());
        written.listen(move |_| released_at.lock().unwrap().push(drops_then.load(Ordering::Relaxed)));
        outbound.push(Bytes::from_owner(Owner(drops.clone())).into(), promise);
        written
    };
    let _sent = write(&mut outbound);
    outbound.flush();
    outbound.advance(2);
    assert_eq!(drops.load(Ordering::Relaxed), 0);
    outbound.advance(3);
    assert!(write(&mut outbound).cancel());
    outbound.flush();
    assert_eq!(drops.load(Ordering::Relaxed), 2);
    let _given_up = write(&mut outbound);
    outbound.flush();
    outbound.fail_first(WriteError::Abandoned);
    let _failed = write(&mut outbound);
    outbound.fail_all(WriteError::Closed(CloseCause::Requested));
    let _late = write(&mut outbound);
    assert_eq!(drops.load(Ordering::Relaxed), 5);
    // Only whoever cancels is told at once, before the flush.
    assert_eq!(*released_at.lock().unwrap(), [1, 1, 3, 4, 5]);
}

#[test]
fn a_panic_in_the_release_of_one_message_costs_that_one_only() {
    struct Bomb;
    impl AsRef<[u8]> for Bomb {
        fn as_ref(&self) -> &[u8] {
            b"bomb"
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("boom");
        }
    }
    let (mut outbound, log) = (queue(), Log::default());
    log.watch(0, &push_tracked(&mut outbound, Bytes::from_owner(Bomb)));
    log.watch(1, &push_tracked(&mut outbound, xs(3)));
    log.watch(2, &push_tracked(&mut outbound, xs(3)));
    outbound.flush();
    let advance = std::panic::AssertUnwindSafe(|| outbound.advance(8));
    assert!(std::panic::catch_unwind(advance).is_err());
    outbound.advance(0);
    assert_eq!(log.take(), [(0, Err(WriteError::Abandoned.to_string())), (1, Ok(()))]);
    assert_eq!(gathered(&outbound, 100), (1, "xx".into()));
    assert_eq!(outbound.pending_bytes(), 2 + ENTRY_OVERHEAD);
}

#[test]
fn the_queue_keeps_its_room_in_steady_state_and_gives_a_bursts_room_back() {
    let mut outbound = queue();
    push(&mut outbound, "first");
    let room = outbound.line.entries.capacity();
    for _ in 0..1000 {
        outbound.flush();
        outbound.advance(5);
        push(&mut outbound, "again");
    }
    assert_eq!(outbound.line.entries.capacity(), room);

    for _ in 0..10_000 {
        push(&mut outbound, "burst");
    }
    outbound.flush();
    let bytes = outbound.unsent_bytes() as usize;
    outbound.advance(bytes - 1);
    assert!(outbound.line.entries.capacity() >= 10_000, "not while it is in use");
    outbound.advance(1);
    assert!(outbound.line.entries.capacity() <= ENTRIES_KEPT);

    for _ in 0..10_000 {
        push_tracked(&mut outbound, xs(0)).cancel();
    }
    outbound.flush();
    assert!(outbound.line.entries.capacity() <= ENTRIES_KEPT);
    push(&mut outbound, "last");
    outbound.fail_all(WriteError::Abandoned);
    assert_eq!(outbound.line.entries.capacity(), 0);
}

#[test]
fn an_entry_is_no_larger_than_what_it_is_charged_with() {
    assert!(mem::size_of::<Entry<Outgoing>>() <= ENTRY_OVERHEAD, "{}", mem::size_of::<Entry<Outgoing>>());
}

/// xorshift64*: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Self {
        // Spread small seeds over all bits; the state must not be 0.
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }
}

/// One message as a naive list keeps it.
struct Model {
    id: usize,
    bytes: Vec<u8>,
    in_file: bool,
    written: Option<Written>,
    cancelled: bool,
    flushed: bool,
}

impl Model {
    fn charge(&self) -> usize {
        ENTRY_OVERHEAD + if self.in_file { 0 } else { self.bytes.len() }
    }
}

#[test]
fn random_operations_agree_with_a_plain_list_of_bytes() {
    let content: Vec<u8> = (0..=255).collect();
    let file = Arc::new(file_with(&content));
    for seed in 0..100 {
        let mut random = Random::seeded(seed);
        let water = marks(400, 900);
        let (mut outbound, log) = (queue_with(water), Log::default());
        let mut model: VecDeque<Model> = VecDeque::new();
        let mut completed: Vec<usize> = Vec::new();
        let (mut next_id, mut above, mut reported, mut user_off) = (0, false, true, false);

        for step in 0..400 {
            let at = format!("seed {seed}, step {step}");
            match random.below(12) {
                0..=3 => {
                    let (len, start) = ([0, 1, 5, 60, 200][random.below(5)], random.below(50));
                    let in_file = random.below(5) == 0;
                    let bytes = content[start..start + len].to_vec();
                    let message = if in_file {
                        FileRegion::new(file.clone(), start as u64, len as u64).into()
                    } else {
                        Outgoing::from(bytes.clone())
                    };
                    let written = if random.below(3) == 0 {
                        outbound.push(message, UNTRACKED());
                        None
                    } else {
                        let written = push_tracked(&mut outbound, message);
                        log.watch(next_id, &written);
                        Some(written)
                    };
                    model.push_back(Model {
                        id: next_id,
                        bytes,
                        in_file,
                        written,
                        cancelled: false,
                        flushed: false,
                    });
                    next_id += 1;
                }
                4 if !model.is_empty() => {
                    let index = random.below(model.len());
                    let entry = &mut model[index];
                    if let Some(written) = &entry.written {
                        assert_eq!(written.cancel(), !entry.flushed && !entry.cancelled, "{at}");
                        entry.cancelled |= !entry.flushed;
                    }
                }
                5 => {
                    user_off = !user_off;
                    outbound.set_user_writability(3, !user_off).unwrap();
                }
                6..=7 => {
                    outbound.flush();
                    model.retain(|entry| entry.flushed || !entry.cancelled);
                    model.iter_mut().for_each(|entry| entry.flushed = true);
                    finish(&mut model, &mut completed);
                }
                _ => {
                    let cap = 1 + random.below(500);
                    let offered: Vec<u8> = if let Some(region) = outbound.first_file() {
                        region.read_chunk(cap).unwrap().to_vec()
                    } else {
                        let mut slices = vec![IoSlice::new(&[]); 1 + random.below(6)];
                        let gathered = outbound.gather(&mut slices, cap);
                        slices[..gathered.pieces].iter().flat_map(|slice| slice.to_vec()).collect()
                    };
                    let flushed: Vec<u8> = model
                        .iter()
                        .filter(|entry| entry.flushed)
                        .flat_map(|entry| entry.bytes.clone())
                        .collect();
                    assert!(flushed.starts_with(&offered), "{at}: other bytes than were written");
                    assert_eq!(offered.is_empty(), flushed.is_empty(), "{at}: nothing offered");
                    let taken = random.below(offered.len() + 1);
                    outbound.advance(taken);
                    let mut left = taken;
                    for entry in &mut model {
                        left -= entry.bytes.drain(..left.min(entry.bytes.len())).len();
                    }
                    finish(&mut model, &mut completed);
                }
            }
            let done: Vec<usize> =
                log.take().into_iter().filter_map(|(id, result)| result.ok().map(|()| id)).collect();
            assert_eq!(done, mem::take(&mut completed), "{at}: promises");
            let pending = model.iter().map(Model::charge).sum::<usize>();
            assert_eq!(outbound.pending_bytes(), pending, "{at}");
            assert_eq!(outbound.len(), model.len(), "{at}");
            let flushed: usize =
                model.iter().filter(|entry| entry.flushed).map(|entry| entry.bytes.len()).sum();
            assert_eq!(outbound.unsent_bytes(), flushed as u64, "{at}");
            assert_eq!(outbound.has_flushed(), flushed > 0, "{at}");
            above = pending > water.high() || above && pending >= water.low();
            assert_eq!(outbound.is_writable(), !above && !user_off, "{at}");
            if random.below(3) == 0 {
                let expected = (outbound.is_writable() != reported).then_some(!reported);
                assert_eq!(outbound.account.take_flip(), expected, "{at}");
                reported = outbound.is_writable();
            }
        }
    }
}

/// Takes what is sent to its end off the list's front.
fn finish(model: &mut VecDeque<Model>, completed: &mut Vec<usize>) {
    while model.front().is_some_and(|entry| entry.flushed && entry.bytes.is_empty()) {
        let entry = model.pop_front().unwrap();
        completed.extend(entry.written.map(|_| entry.id));
    }
}

#[test]
fn bytes_that_are_lent_count_until_they_are_reported_and_nothing_overtakes_them() {
    let mut outbound = queue();
    let log = Log::default();
    let first = push_tracked(&mut outbound, xs(10));
    let second = push_tracked(&mut outbound, xs(3));
    log.watch(1, &first);
    log.watch(2, &second);
    assert!(outbound.lend_first().is_none(), "nothing is flushed");
    outbound.flush();
    let pending = outbound.pending_bytes();
    let lent = outbound.lend_first().unwrap();
    assert_eq!(lent.len(), 10);
    assert!(lent.try_into_mut().is_ok(), "the transport alone has it");
    assert!(outbound.lend_first().is_none(), "one at a time");
    assert_eq!((outbound.pending_bytes(), outbound.unsent_bytes()), (pending, 13));
    outbound.advance(4);
    assert_eq!((outbound.pending_bytes(), outbound.unsent_bytes()), (pending - 4, 9));
    assert_eq!(log.take_succeeded(), [0_usize; 0]);
    outbound.advance(6);
    assert_eq!(log.take_succeeded(), [1]);
    assert_eq!(outbound.pending_bytes(), 3 + ENTRY_OVERHEAD);

    assert_eq!(outbound.lend_first().unwrap().len(), 3);
    outbound.fail_all(WriteError::Cancelled);
    assert_eq!((outbound.pending_bytes(), outbound.unsent_bytes(), outbound.len()), (0, 0, 0));
    assert_eq!(log.take().len(), 1);
}

#[test]
fn a_message_that_is_taken_while_it_is_lent_counts_for_nothing_any_more() {
    let mut outbound = queue();
    push(&mut outbound, "ten bytes.");
    outbound.flush();
    drop(outbound.lend_first());
    assert!(outbound.take_first().is_some());
    assert_eq!((outbound.pending_bytes(), outbound.unsent_bytes(), outbound.taken_bytes()), (0, 0, 10));
}

#[test]
#[should_panic(expected = "the transport reports 5 bytes as taken, but was lent 4")]
fn more_than_was_lent_cannot_be_taken() {
    let mut outbound = queue();
    push(&mut outbound, "four");
    push(&mut outbound, "more");
    outbound.flush();
    drop(outbound.lend_first());
    outbound.advance(5);
}

//! Channels over a stream that does as it is told: every short read, short write and error, at each step, in every order.
//!
//! The scripts are enumerated, not drawn: a failure names its script, and runs the same again.

use super::{Carrier, Received, Stream, Wrote, carrier, channel::StreamChannel};
use crate::live::Guard;
use bytes::BytesMut;
use netwright_core::{
    AppContext, Application, CloseCause, Host, HostSettings, LocalLoop, ManualLoop, Outbound, Outgoing,
    Written,
    driver::{Ready, Token},
    pipeline,
};
use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    io,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    /// Two bytes, and perhaps more.
    More,
    /// Two bytes, and nothing else for now.
    Some,
    Nothing,
    Interrupted,
    End,
    Reset,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Send {
    All,
    OneByte,
    Blocked,
    Enough,
    Broken,
}

const READS: [Read; 6] = [Read::More, Read::Some, Read::Nothing, Read::Interrupted, Read::End, Read::Reset];
const SENDS: [Send; 5] = [Send::All, Send::OneByte, Send::Blocked, Send::Enough, Send::Broken];

/// What the stream and the application did, for the test to look at.
#[derive(Default)]
struct Record {
    given: RefCell<Vec<u8>>,
    taken: RefCell<Vec<u8>>,
    read: RefCell<Vec<u8>>,
    events: RefCell<Vec<String>>,
    writes: RefCell<Vec<Written>>,
    calls: Cell<usize>,
    drops: Cell<usize>,
}

struct Scripted {
    reads: VecDeque<Read>,
    sends: VecDeque<Send>,
    next_byte: u8,
    record: Rc<Record>,
}

impl Scripted {
    fn count(&self) {
        self.record.calls.set(self.record.calls.get() + 1);
        assert!(self.record.calls.get() < 1000, "the channel spins");
    }

    fn take(&self, outbound: &mut Outbound, most: usize) {
        while let Some(bytes) = outbound.first_bytes().cloned() {
            let here = bytes.len().min(most);
            self.record.taken.borrow_mut().extend_from_slice(&bytes[..here]);
            outbound.advance(here);
            if most < usize::MAX {
                break;
            }
        }
    }
}

impl Stream for Scripted {
    fn receive(&mut self) -> io::Result<Received> {
        self.count();
        match self.reads.pop_front().unwrap_or(Read::Nothing) {
            step @ (Read::More | Read::Some) => {
                let bytes = [self.next_byte, self.next_byte + 1];
                self.next_byte += 2;
                self.record.given.borrow_mut().extend_from_slice(&bytes);
                Ok(Received { bytes: BytesMut::from(&bytes[..]), more: step == Read::More })
            }
            Read::Nothing => Err(io::ErrorKind::WouldBlock.into()),
            Read::Interrupted => Err(io::ErrorKind::Interrupted.into()),
            Read::End => Ok(Received { bytes: BytesMut::new(), more: false }),
            Read::Reset => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }

    fn has_ended(&mut self) -> io::Result<bool> {
        Ok(matches!(self.reads.front(), Some(Read::End)))
    }

    fn send(&mut self, outbound: &mut Outbound) -> io::Result<Wrote> {
        self.count();
        match self.sends.pop_front().unwrap_or(Send::All) {
            Send::All => self.take(outbound, usize::MAX),
            Send::OneByte => {
                self.take(outbound, 1);
                if outbound.has_flushed() {
                    return Ok(Wrote::Blocked);
                }
            }
            Send::Blocked => return Ok(Wrote::Blocked),
            Send::Enough => {
                self.take(outbound, 1);
                if outbound.has_flushed() {
                    return Ok(Wrote::Enough);
                }
            }
            Send::Broken => return Err(io::ErrorKind::BrokenPipe.into()),
        }
        Ok(Wrote::All)
    }

    fn shut_down_output(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// As if the driver had said so: everything may be tried again.
    fn look(&mut self) -> Ready {
        Ready::READ | Ready::WRITE
    }
}

carrier!(Scripted);

impl Drop for Scripted {
    fn drop(&mut self) {
        self.record.drops.set(self.record.drops.get() + 1);
    }
}

/// Sends everything back, and notes what happens.
struct Echo(Rc<Record>);

impl Echo {
    fn note(&self, event: &str) {
        self.0.events.borrow_mut().push(event.to_owned());
    }
}

impl Application for Echo {
    type Read = BytesMut;
    type Write = Outgoing;
    fn active(&mut self, _: &mut AppContext<'_, Self>) {
        self.note("active");
    }
    fn read(&mut self, cx: &mut AppContext<'_, Self>, bytes: BytesMut) {
        self.0.read.borrow_mut().extend_from_slice(&bytes);
        let written = cx.write_tracked(bytes.freeze());
        self.0.writes.borrow_mut().push(written);
    }
    fn read_complete(&mut self, cx: &mut AppContext<'_, Self>) {
        cx.flush();
    }
    fn inactive(&mut self, _: &mut AppContext<'_, Self>, cause: CloseCause) {
        self.note(match cause {
            CloseCause::PeerClosed => "inactive: end",
            CloseCause::Io(_) => "inactive: error",
            _ => "inactive: other",
        });
    }
    fn removed(&mut self) {
        self.note("removed");
    }
}

/// A channel over the script, on a loop of its own: what it records, the loop, and its place there.
fn begin(reads: &[Read], sends: &[Send]) -> (Rc<Record>, ManualLoop, Token) {
    let record = Rc::new(Record::default());
    let stream = Scripted {
        reads: reads.to_vec().into(),
        sends: sends.to_vec().into(),
        next_byte: 0,
        record: record.clone(),
    };
    let mut manual = ManualLoop::new();
    let echo = Echo(record.clone());
    let token = manual.enter(|| {
        let local = LocalLoop::current().unwrap();
        let host = Host::new(local.clone(), pipeline().app(echo).into_segment(), HostSettings::default());
        let place = local.place().unwrap();
        let (here, token) = (local.clone(), place.token());
        let mut channel =
            Box::new(StreamChannel::new(host, here, stream, token, &Arc::default(), Guard::default()));
        Scripted::begin(&mut *channel, None, None);
        place.fill(channel)
    });
    (record, manual, token) // the channel lives in the loop
}

fn call(manual: &mut ManualLoop, token: Token) {
    manual.enter(|| LocalLoop::current().unwrap().call(token));
    manual.run_until_idle();
}

/// Runs a channel over the script until nothing is left of it.
fn run(reads: &[Read], sends: &[Send]) -> (Rc<Record>, ManualLoop) {
    let (record, mut manual, token) = begin(reads, sends);
    (0..reads.len() + sends.len() + 2).for_each(|_| call(&mut manual, token));
    (record, manual)
}

fn check(reads: &[Read], sends: &[Send]) {
    let (record, _manual) = run(reads, sends);
    let case = || format!("reads {reads:?}, sends {sends:?}");
    let (given, read, taken) = (record.given.borrow(), record.read.borrow(), record.taken.borrow());
    assert_eq!(*read, *given, "everything that came is delivered, in order: {}", case());
    assert!(read.starts_with(&taken), "what is sent is what was written, in order: {}", case());

    let events = record.events.borrow();
    let ended = events.len() > 1;
    let expected: &[&str] = match events.get(1).map(String::as_str) {
        None => &["active"],
        Some("inactive: end") => &["active", "inactive: end", "removed"],
        Some(_) => &["active", "inactive: error", "removed"],
    };
    assert_eq!(*events, expected, "{}", case());
    assert_eq!(record.drops.get(), usize::from(ended), "closed once, if ever: {}", case());

    let broken = sends.contains(&Send::Broken);
    let reads_end = reads.contains(&Read::End) || reads.contains(&Read::Reset);
    if !ended {
        assert!(!reads_end, "an end is noticed: {}", case());
        assert_eq!(*taken, *read, "everything is sent in the end: {}", case());
    } else {
        assert!(broken || reads_end, "it ends for a reason: {}", case());
    }
    let done = record.writes.borrow().iter().filter(|written| written.is_done()).count();
    assert_eq!(done, record.writes.borrow().len(), "every write has an answer: {}", case());
}

/// Calls with every sequence of `length` steps.
fn every<T: Copy>(alphabet: &[T], length: u32, mut check: impl FnMut(&[T])) {
    let mut script = Vec::new();
    for number in 0..alphabet.len().pow(length) {
        script.clear();
        let mut rest = number;
        for _ in 0..length {
            script.push(alphabet[rest % alphabet.len()]);
            rest /= alphabet.len();
        }
        check(&script);
    }
}

#[test]
fn a_channel_reads_its_share_of_a_turn_and_goes_on_in_the_next_however_often_it_is_called() {
    for calls in 1..4 {
        let (record, mut manual, token) = begin(&[Read::More; 40], &[]);
        for bytes in [32, 64, 80] {
            manual.enter(|| (0..calls).for_each(|_| LocalLoop::current().unwrap().call(token)));
            manual.run_once();
            assert_eq!(record.read.borrow().len(), bytes, "two for each of 16 reads, with {calls} calls");
            assert_eq!(record.taken.borrow().len(), bytes, "and the answers have gone out");
        }
        manual.run_until_idle();
        assert_eq!(manual.handle().figures().tasks_pending, 0);
    }
}

#[test]
fn a_channel_that_goes_on_in_the_next_turn_needs_nobody_to_call_it() {
    let (record, mut manual, token) = begin(&[Read::More; 40], &[]);
    call(&mut manual, token);
    assert_eq!(record.read.borrow().len(), 80);
}

#[test]
fn every_way_of_reading_ends_well() {
    every(&READS, 4, |reads| check(reads, &[]));
}

#[test]
fn every_way_of_sending_ends_well() {
    every(&SENDS, 4, |sends| check(&[Read::More, Read::Some, Read::Nothing, Read::Some, Read::End], sends));
}

#[test]
fn every_way_of_reading_and_sending_together_ends_well() {
    every(&READS, 3, |reads| every(&SENDS, 2, |sends| check(reads, sends)));
}

#[test]
fn sixteen_reads_are_a_turn_and_the_rest_comes_in_the_next() {
    let (record, _manual) = run(&[Read::More; 40], &[]);
    assert_eq!(record.read.borrow().len(), 80);
    assert_eq!(*record.taken.borrow(), *record.read.borrow());
}

/// Has a stream of which nothing is taken at first take as `sends` say, a step each second; if it is cut, in which.
fn take_by_seconds(sends: &[Send]) -> (Rc<Record>, Option<usize>) {
    const SECONDS: usize = 200;
    let mut script = vec![Send::Blocked];
    script.extend(sends);
    script.extend([Send::Blocked; SECONDS]);
    let (record, mut manual, token) = begin(&[Read::Some], &script);
    call(&mut manual, token);
    assert_eq!(*record.read.borrow(), [0, 1]);
    let cut = (1..=SECONDS).find(|_| {
        manual.advance(Duration::from_secs(1));
        call(&mut manual, token);
        record.drops.get() > 0
    });
    (record, cut)
}

#[test]
fn a_peer_that_takes_nothing_is_cut_after_a_minute_and_not_before() {
    let (record, cut) = take_by_seconds(&[]);
    assert_eq!(cut, Some(60));
    assert_eq!(*record.events.borrow(), ["active", "inactive: other", "removed"]);
    assert!(record.writes.borrow().iter().all(|written| written.is_done()));
}

#[test]
fn a_peer_that_drips_below_the_least_rate_is_cut() {
    // One byte of two after 59 seconds: a 240th of a second more.
    let mut sends = [Send::Blocked; 59];
    sends[58] = Send::OneByte;
    let (record, cut) = take_by_seconds(&sends);
    assert_eq!(cut, Some(61));
    assert_eq!(record.taken.borrow().len(), 1);
}

#[test]
fn a_peer_that_takes_the_rest_in_time_stays() {
    let mut sends = [Send::Blocked; 59];
    sends[58] = Send::All;
    let (record, cut) = take_by_seconds(&sends);
    assert_eq!(cut, None);
    assert_eq!(record.taken.borrow().len(), 2);
    assert_eq!(*record.events.borrow(), ["active"]);
}

//! What a line of the table is, and what is tried with it.

use netwright::CloseCause;
use std::time::Duration;

/// One state that waits.
pub(crate) struct Row {
    pub(crate) state: &'static str,
    /// The variants that the sources have for it: `file Enum::Variant`.
    pub(crate) of: &'static [&'static str],
    pub(crate) enter: fn() -> Box<dyn Subject>,
    /// The setting that ends it, for whoever reads the table.
    pub(crate) setting: &'static str,
    pub(crate) limit: Limit,
    /// Whether it has ended as it should.
    pub(crate) end: fn(&Seen) -> bool,
    pub(crate) drip: Drip,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    /// It ends at `to` at the latest, and not before `from`. Nearly always these are the same.
    Within { from: Duration, to: Duration },
    /// It does not end: whose turn it is.
    Ours(&'static str),
}

pub(crate) const fn at(secs: u64) -> Limit {
    between(secs, secs)
}

pub(crate) const fn between(from: u64, to: u64) -> Limit {
    Limit::Within { from: Duration::from_secs(from), to: Duration::from_secs(to) }
}

/// What a peer can do that keeps the state as it is.
#[derive(Clone, Copy)]
pub(crate) enum Drip {
    /// Bytes that change nothing about the deadline.
    Byte(u8),
    /// Bytes that are a sign of life: the time counts from the last one.
    Alive(u8),
    /// It takes what waits for it byte by byte, which is as good as nothing.
    Takes,
    /// There is nothing: why.
    Nothing(#[allow(dead_code, reason = "for whoever reads the table")] &'static str),
}

/// What the peer, and whoever asked, have got so far.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What was sent to the peer since the state began.
    pub(crate) sent: Vec<u8>,
    /// Why the channel ended, if it has.
    pub(crate) cause: Option<CloseCause>,
    /// What was told to whoever asked us to do something, if they know already.
    pub(crate) told: Option<String>,
}

impl Seen {
    pub(crate) fn is_open(&self) -> bool {
        self.cause.is_none() && self.told.is_none()
    }
}

/// A connection in some state, with a clock that is moved by hand.
pub(crate) trait Subject {
    /// The peer sends a byte.
    fn send(&mut self, byte: u8);
    /// The peer takes a byte of what waits for it.
    fn take(&mut self) {}
    fn advance(&mut self, by: Duration);
    fn seen(&mut self) -> Seen;
    /// Whether nothing of the connection is left.
    fn is_gone(&mut self) -> bool;
}

const TICK: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
/// The longest that a peer that is told something may take to read it.
const LINGER: Duration = Duration::from_secs(2);
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Row {
    pub(crate) fn silence(&self) {
        let mut subject = (self.enter)();
        let Limit::Within { from, to } = self.limit else { return self.lasts(&mut *subject) };
        self.not_yet(&mut *subject, Duration::ZERO);
        subject.advance(from - TICK);
        self.not_yet(&mut *subject, from - TICK);
        subject.advance(to - from + TICK);
        self.ended(&mut *subject, to);
    }

    pub(crate) fn drips(&self) {
        let mut subject = (self.enter)();
        let Limit::Within { from, to } = self.limit else {
            for _ in 0..100 {
                self.drip(&mut *subject);
                subject.advance(SECOND);
            }
            return self.lasts(&mut *subject);
        };
        if let Drip::Alive(_) = self.drip {
            for step in 0..20 {
                subject.advance(from / 2);
                self.not_yet(&mut *subject, from / 2 * step);
                self.drip(&mut *subject);
            }
            subject.advance(from - TICK);
            self.not_yet(&mut *subject, from - TICK);
            subject.advance(to - from + TICK);
            return self.ended(&mut *subject, to);
        }
        let mut passed = Duration::ZERO;
        while passed + SECOND < from {
            self.drip(&mut *subject);
            self.not_yet(&mut *subject, passed);
            subject.advance(SECOND);
            passed += SECOND;
        }
        self.drip(&mut *subject);
        subject.advance(from - passed - TICK);
        self.not_yet(&mut *subject, from - TICK);
        subject.advance(to - from + TICK);
        self.ended(&mut *subject, to);
    }

    fn drip(&self, subject: &mut dyn Subject) {
        match self.drip {
            Drip::Byte(byte) | Drip::Alive(byte) => subject.send(byte),
            Drip::Takes => subject.take(),
            Drip::Nothing(_) => {}
        }
    }

    fn lasts(&self, subject: &mut dyn Subject) {
        subject.advance(DAY);
        let seen = subject.seen();
        let Limit::Ours(why) = self.limit else { return };
        assert!(seen.is_open(), "{}: ended, but {}: {why}: {seen:?}", self.state, self.setting);
    }

    fn not_yet(&self, subject: &mut dyn Subject, passed: Duration) {
        let seen = subject.seen();
        let ended = !seen.is_open() || (self.end)(&seen);
        assert!(!ended, "{}: ended after {passed:?}, before its {}: {seen:?}", self.state, self.setting);
    }

    fn ended(&self, subject: &mut dyn Subject, passed: Duration) {
        let seen = subject.seen();
        assert!((self.end)(&seen), "{}: {} is over, after {passed:?}: {seen:?}", self.state, self.setting);
        subject.advance(LINGER);
        assert!(subject.is_gone(), "{}: told, and still there: {:?}", self.state, subject.seen());
    }
}

/// The lines of one protocol.
pub(crate) type Table = (&'static str, &'static [Row]);

/// `state [variants] by enter: "setting" limit, end, drip;`
macro_rules! rows {
    ($($state:ident $of:tt by $enter:expr => $setting:literal $limit:expr, $end:expr, $drip:expr;)+) => {
        &[$(crate::row::Row {
            state: stringify!($state),
            of: &$of,
            enter: || $enter,
            setting: $setting,
            limit: $limit,
            end: $end,
            drip: $drip,
        }),+]
    };
}
pub(crate) use rows;

// ---- ends that several protocols have ----

/// For lines without a deadline.
pub(crate) fn never(_: &Seen) -> bool {
    false
}

/// Closed because nothing came for so long.
pub(crate) fn timed_out<const SECS: u64>(seen: &Seen) -> bool {
    matches!(seen.cause, Some(CloseCause::TimedOut(time)) if time == Duration::from_secs(SECS))
}

/// Closed by our side, with nothing more to tell.
pub(crate) fn closed(seen: &Seen) -> bool {
    matches!(seen.cause, Some(CloseCause::Requested))
}

/// Cut because the peer did not take what waited for it.
pub(crate) fn cut(seen: &Seen) -> bool {
    seen.cause.as_ref().is_some_and(|cause| {
        format!("{cause:?}") == "TooSlow(LeastRate { bytes_per_second: 240, grace: 60s })"
    })
}

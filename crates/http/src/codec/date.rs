//! The `date` line of replies, made once per second for each loop.

use crate::calendar::clock_text;
use netwright_core::{LocalLoop, world};
use std::{
    cell::RefCell,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// `date: Sun, 06 Nov 1994 08:49:37 GMT\r\n`
const LINE_LEN: usize = 37;

struct Cached {
    line: [u8; LINE_LEN],
    until: Option<Instant>,
}

thread_local! {
    static CACHED: RefCell<Cached> = const { RefCell::new(Cached { line: [0; LINE_LEN], until: None }) };
}

/// Has the line made anew if its second is over by the loop's clock. Asked once per batch of replies: reading a clock costs
/// as much as a header.
pub(crate) fn refresh() {
    let now = LocalLoop::current().map_or_else(world::now, |local| local.now());
    CACHED.with_borrow_mut(|cached| {
        let fresh = |until| now < until && until <= now + Duration::from_secs(1);
        // Machines of a world share the thread, and their clocks may differ.
        if world::is_active() || !cached.until.is_some_and(fresh) {
            cached.make(world::system_time(), now);
        }
    });
}

/// Appends the line.
#[inline]
pub(crate) fn append_to(out: &mut bytes::BytesMut) {
    CACHED.with_borrow(|cached| out.extend_from_slice(&cached.line));
}

/// Shows the date alone.
#[inline]
pub(crate) fn show<R>(show: impl FnOnce(&[u8]) -> R) -> R {
    CACHED.with_borrow(|cached| show(&cached.line[6..35]))
}

impl Cached {
    #[cold]
    fn make(&mut self, system: SystemTime, now: Instant) {
        self.line[..6].copy_from_slice(b"date: ");
        self.line[6..35].copy_from_slice(&clock_text(system));
        self.line[35..].copy_from_slice(b"\r\n");
        // To the end of the second that the line tells.
        let spent = system.duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        self.until = Some(now + Duration::from_nanos(u64::from(1_000_000_000 - spent)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_made_for_the_second_and_holds_to_its_end() {
        let mut cached = Cached { line: [0; LINE_LEN], until: None };
        let now = Instant::now();
        cached.make(UNIX_EPOCH + Duration::from_millis(784_111_777_250), now);
        assert_eq!(cached.line.escape_ascii().to_string(), "date: Sun, 06 Nov 1994 08:49:37 GMT\\r\\n");
        assert_eq!(cached.until, Some(now + Duration::from_millis(750)));
    }
}

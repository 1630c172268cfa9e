//! Dates as headers and logs write them. The calendar is that of `httpdate`, which panics at what HTTP's dates cannot name; so
//! nobody else asks it.

use httpdate::HttpDate;
use std::{
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

/// `Sun, 06 Nov 1994 08:49:37 GMT`
pub(crate) const DATE_LEN: usize = 29;

/// Seconds from 1970 to the year 10000.
pub(crate) const YEAR_10000: u64 = 253_402_300_800;

/// The second that a time is in; `None` before 1970 and from the year 10000 on, for which there are no dates.
pub(crate) fn date_of(time: SystemTime) -> Option<HttpDate> {
    let since = time.duration_since(UNIX_EPOCH).ok()?.as_secs();
    (since < YEAR_10000).then(|| time.into())
}

/// A date as headers have it.
pub(crate) fn text_of(date: HttpDate) -> [u8; DATE_LEN] {
    let mut text = [b' '; DATE_LEN];
    // All dates have the same length, so it fits.
    let _ = write!(&mut text[..], "{date}");
    text
}

/// A date for somebody's clock, however wrong that is.
pub(crate) fn clock_text(time: SystemTime) -> [u8; DATE_LEN] {
    text_of(date_of(time).unwrap_or_else(|| UNIX_EPOCH.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_has_no_date_in_http_gets_none_and_a_wrong_clock_the_first() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(&text_of(date_of(at(784_111_777)).unwrap()), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&clock_text(at(YEAR_10000 - 1)), b"Fri, 31 Dec 9999 23:59:59 GMT");
        for time in [at(YEAR_10000), UNIX_EPOCH - Duration::from_micros(1)] {
            assert_eq!(date_of(time), None);
            assert_eq!(&clock_text(time), b"Thu, 01 Jan 1970 00:00:00 GMT");
        }
    }
}

//! Flow control (RFC 9113, section 5.2): how much may be sent, and how much the other side was granted.
//!
//! ```text
//!   SendWindow    peer grants ──▶ [ left ] ──▶ DATA that we send
//!   RecvWindow    we grant    ──▶ [ left ] ──▶ DATA that comes ──▶ read by somebody ──▶ owed ──▶ granted again, by halves
//! ```

/// No window may be larger.
pub(crate) const WINDOW_MAX: u32 = (1 << 31) - 1;

/// More was granted than can be counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Overflow;

/// How many bytes may be sent. Less than nothing if a setting has taken back what was granted before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendWindow(i64);

impl SendWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self(size.into())
    }

    #[inline]
    pub(crate) fn available(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    #[inline]
    pub(crate) fn took(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.available());
        self.0 -= bytes as i64;
    }

    pub(crate) fn grant(&mut self, by: u32) -> Result<(), Overflow> {
        self.change(by.into())
    }

    /// The size of all windows was changed by a setting.
    pub(crate) fn change(&mut self, by: i64) -> Result<(), Overflow> {
        self.0 += by; // far from what 64 bits can hold, whatever is added
        if self.0 > WINDOW_MAX.into() { Err(Overflow) } else { Ok(()) }
    }
}

/// What the peer was granted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecvWindow {
    /// What it may still send. Less than nothing if it had sent more than our settings allow before it knew them.
    left: i64,
    /// What it may have sent without being granted more.
    size: u32,
    /// What is to be granted again.
    owed: u32,
}

impl RecvWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self { left: size.into(), size, owed: 0 }
    }

    pub(crate) fn left(self) -> u32 {
        u32::try_from(self.left).unwrap_or(0)
    }

    pub(crate) fn size(self) -> u32 {
        self.size
    }

    /// So many bytes have come. False: more than were granted.
    #[inline]
    #[must_use]
    pub(crate) fn received(&mut self, bytes: usize) -> bool {
        let left = self.left - bytes as i64; // a frame is not that long
        if left >= 0 {
            self.left = left;
        }
        left >= 0 || bytes == 0
    }

    /// So many of them need not be kept any more.
    #[inline]
    pub(crate) fn give_back(&mut self, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(WINDOW_MAX);
        let most = (i64::from(self.size) - self.left).clamp(0, WINDOW_MAX.into()) as u32;
        self.owed = self.owed.saturating_add(bytes).min(most);
    }

    /// What is to be granted now: in halves of the window, so that not each piece is answered.
    #[inline]
    pub(crate) fn take_due(&mut self) -> Option<u32> {
        self.is_due().then(|| self.take_owed())
    }

    #[inline]
    pub(crate) fn is_due(self) -> bool {
        self.owed > 0 && self.owed >= self.size / 2
    }

    fn take_owed(&mut self) -> u32 {
        self.left += i64::from(self.owed);
        std::mem::take(&mut self.owed)
    }

    /// The peer may send more than the window holds, until it has heard how much that is.
    pub(crate) fn widen(&mut self, by: u32) {
        self.left += i64::from(by);
    }

    /// It has heard that.
    pub(crate) fn shrink(&mut self, by: u32) {
        self.left -= i64::from(by);
    }

    /// Twice as much as before, up to `max`, because all of it is read as it comes. It is granted with the next due.
    pub(crate) fn grow(&mut self, max: u32) {
        let size = self.size.saturating_mul(2).min(max).max(self.size);
        self.owed += size - self.size;
        self.size = size;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_to_send_can_be_less_than_nothing_and_not_more_than_can_be_counted() {
        let mut window = SendWindow::new(10);
        window.took(10);
        window.change(-5).unwrap();
        assert_eq!(window.available(), 0);
        window.grant(6).unwrap();
        assert_eq!(window.available(), 1);
        assert_eq!(window.grant(WINDOW_MAX), Err(Overflow));
    }

    #[test]
    fn what_was_read_is_granted_again_by_halves() {
        let mut window = RecvWindow::new(100);
        assert!(window.received(60));
        assert!(!window.received(41));
        window.give_back(49);
        assert_eq!(window.take_due(), None);
        window.give_back(5);
        assert_eq!((window.take_due(), window.left()), (Some(54), 94));
    }

    #[test]
    fn more_is_never_granted_than_the_window_holds() {
        let mut window = RecvWindow::new(100);
        window.give_back(1000); // nothing has come
        assert_eq!(window.take_due(), None);
        assert!(window.received(100));
        window.give_back(1000);
        assert_eq!((window.take_due(), window.left()), (Some(100), 100));
    }

    #[test]
    fn a_window_grows_up_to_its_limit() {
        let mut window = RecvWindow::new(100);
        window.grow(150);
        assert_eq!((window.size(), window.take_due()), (150, None), "fifty are less than half");
        assert!(window.received(100));
        window.give_back(100);
        assert_eq!((window.take_due(), window.left()), (Some(150), 150));
        window.grow(150);
        assert_eq!(window.size(), 150);
    }
}

//! How many requests may be sent again: a part of those that are sent, so that retries do not add to the load of a server that fails.

/// A budget for retries of requests that may have reached the server: each request pays in, each retry takes out.
///
/// ```
/// use netwright_handler::RetryBudget;
///
/// let budget = RetryBudget::default().ratio(0.2).reserve(10).per_request(3);
/// assert_ne!(budget, RetryBudget::none());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// In thousandths of a retry, as everything here.
    paid_in: u64,
    reserve: u64,
    per_request: u32,
}

/// One retry.
const ONE: u64 = 1000;

impl RetryBudget {
    /// No request that may have been written is sent again.
    pub fn none() -> Self {
        Self { paid_in: 0, reserve: 0, per_request: 0 }
    }

    /// How many retries there may be for each request, in the long run. Default: 0.1, one for ten requests.
    pub fn ratio(mut self, retries: f64) -> Self {
        self.paid_in = if retries.is_nan() { 0 } else { (retries.clamp(0.0, 1_000.0) * ONE as f64) as u64 };
        self
    }

    /// How many retries there may be at once, of those that were saved up. A client begins with so many. Default: 10.
    pub fn reserve(mut self, retries: u32) -> Self {
        self.reserve = u64::from(retries) * ONE;
        self
    }

    /// How often one request is sent again. Default: 3.
    pub fn per_request(mut self, retries: u32) -> Self {
        self.per_request = retries;
        self
    }
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { paid_in: ONE / 10, reserve: 10 * ONE, per_request: 3 }
    }
}

/// What is left.
#[derive(Debug)]
pub(super) struct Account {
    budget: RetryBudget,
    saved: u64,
}

impl Account {
    pub(super) fn new(budget: RetryBudget) -> Self {
        Self { budget, saved: budget.reserve }
    }

    /// A request is sent for the first time.
    pub(super) fn pay_in(&mut self) {
        self.saved = self.saved.saturating_add(self.budget.paid_in).min(self.budget.reserve);
    }

    /// One that was sent again so often wants to be so once more.
    pub(super) fn take(&mut self, retries: u32) -> bool {
        let granted = retries < self.budget.per_request && self.saved >= ONE;
        if granted {
            self.saved -= ONE;
        }
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_part_of_the_requests_once_the_reserve_is_used_up() {
        let mut account = Account::new(RetryBudget::default().ratio(0.25).reserve(2));
        assert_eq!([0; 3].map(|retries| account.take(retries)), [true, true, false]);
        (0..3).for_each(|_| account.pay_in());
        assert!(!account.take(0));
        account.pay_in();
        assert!(account.take(0));
        (0..1_000).for_each(|_| account.pay_in());
        assert_eq!([0; 3].map(|retries| account.take(retries)), [true, true, false]);
    }

    #[test]
    fn one_request_gets_no_more_than_its_share_and_nothing_comes_of_none() {
        let mut account = Account::new(RetryBudget::default().per_request(1));
        assert!(account.take(0) && !account.take(1));
        let mut none = Account::new(RetryBudget::none());
        none.pay_in();
        assert!(!none.take(0));
        for ratio in [f64::NAN, f64::INFINITY, -1.0] {
            let mut account = Account::new(RetryBudget::default().ratio(ratio).reserve(u32::MAX));
            account.pay_in();
            assert!(account.take(0));
        }
    }
}

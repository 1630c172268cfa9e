//! Figures of many rounds: the middle value, and between which values half of them lie.

/// What the rounds of one server came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Spread {
    /// `None` without any value that is a number.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| Self {
            median: quantile(&sorted, 0.5),
            low: quantile(&sorted, 0.25),
            high: quantile(&sorted, 0.75),
        })
    }
}

/// The middle value; 0 for none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::of(values).map_or(0.0, |spread| spread.median)
}

/// The value below which that share of all values lies, between two values in proportion.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    below + (above - below) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_rounds_lie_between_low_and_high() {
        let spread = Spread::of([5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, low: 2.0, high: 4.0 });
    }

    #[test]
    fn an_even_number_of_rounds_has_its_median_in_between() {
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn what_is_no_number_is_no_round() {
        assert_eq!(median([f64::NAN, 7.0, f64::INFINITY]), 7.0);
        assert_eq!(Spread::of([f64::NAN]), None);
    }
}

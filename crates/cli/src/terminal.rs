//! Lines for people: one that refreshes itself, and output that may be piped to something that ends early.

use std::io::{IsTerminal, Write};

/// Prints a line. A reader that has gone is not an error: there is nobody left to tell.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}
pub(crate) use say;

/// A line that replaces itself, on a terminal; elsewhere nothing.
pub(crate) struct LiveLine<T: Write> {
    to: Option<T>,
}

impl<T: Write + IsTerminal> LiveLine<T> {
    pub(crate) fn on(to: T) -> Self {
        Self { to: to.is_terminal().then_some(to) }
    }
}

impl<T: Write> LiveLine<T> {
    /// Whether anybody sees it.
    pub(crate) fn is_shown(&self) -> bool {
        self.to.is_some()
    }

    /// Replaces the line; what does not fit is cut off, because a wrapped line cannot be replaced.
    pub(crate) fn show(&mut self, text: &str) {
        if let Some(to) = &mut self.to {
            let _ = write!(to, "\r\x1b[K{}", cut(text, width().saturating_sub(1)));
            let _ = to.flush();
        }
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        self.show("");
    }
}

fn cut(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// For terminals that do not say how wide they are.
const USUAL_WIDTH: usize = 80;

fn width() -> usize {
    terminal_size::terminal_size().map_or(USUAL_WIDTH, |(width, _)| usize::from(width.0))
}

/// A number in at most five characters: 950, 1.2k, 34k, 5.6M.
pub(crate) fn short(number: f64) -> String {
    let (scaled, unit) = match number {
        n if n < 999.5 => return format!("{n:.0}"),
        n if n < 999_500.0 => (n / 1e3, 'k'),
        n if n < 999_500_000.0 => (n / 1e6, 'M'),
        n => (n / 1e9, 'G'),
    };
    let decimals = if scaled < 9.95 { 1 } else { 0 };
    format!("{scaled:.decimals$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_short_and_round_into_the_next_unit() {
        let given = [0.0, 950.4, 999.6, 1_234.0, 9_960.0, 34_567.0, 999_900.0, 5_600_000.0, 7.1e9];
        let expected = ["0", "950", "1.0k", "1.2k", "10k", "35k", "1.0M", "5.6M", "7.1G"];
        assert_eq!(given.map(short), expected);
    }

    #[test]
    fn a_line_that_does_not_fit_is_cut_and_says_so() {
        assert_eq!(cut("12345", 5), "12345");
        assert_eq!(cut("123456", 5), "1234…");
        assert_eq!(cut("äöü", 2), "ä…");
    }
}

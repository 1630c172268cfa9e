//! Numbers as people read them, and pages that a benchmark writes its figures into.

use std::{fs, io, path::Path};

const BEGIN: &str = "<!-- figures: written by the benchmark -->";
const END: &str = "<!-- end of figures -->";

/// A whole number with commas.
///
/// ```
/// use netwright_benches::text::thousands;
///
/// assert_eq!(thousands(12_345.6), "12,346");
/// assert_eq!(thousands(123.0), "123");
/// ```
pub fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits that matter, with commas; a dash for what is no number.
///
/// ```
/// use netwright_benches::text::figure;
///
/// assert_eq!([0.5, 9.876, 9.999, 42.25, 9876.5].map(figure), ["0.50", "9.88", "10.0", "42.2", "9,876"]);
/// assert_eq!(figure(f64::NAN), "–");
/// ```
pub fn figure(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "–".to_owned(),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => thousands(value),
    }
}

/// Puts new figures between the two marks of a page.
///
/// # Errors
/// The page cannot be read or written, or has no place for figures.
pub fn rewrite(page: &Path, figures: &str) -> io::Result<()> {
    let text = fs::read_to_string(page)?;
    let lacks = |what| {
        let error = format!("{} has no {what}", page.display());
        move || io::Error::new(io::ErrorKind::InvalidData, error)
    };
    let (before, rest) = text.split_once(BEGIN).ok_or_else(lacks(BEGIN))?;
    let (_, behind) = rest.split_once(END).ok_or_else(lacks(END))?;
    fs::write(page, format!("{before}{BEGIN}\n\n{}\n\n{END}{behind}", figures.trim()))
}

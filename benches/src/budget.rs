//! The committed figures: a line for each operation, its name and its instructions, below a comment that says where they
//! come from.

use std::{fmt, fs, path::PathBuf};

const PLACE: &str = "# counted by ";

/// What operations may take.
#[derive(Debug, Default, PartialEq)]
pub struct Budget {
    /// Compiler, valgrind and processor.
    pub place: String,
    figures: Vec<(String, f64)>,
}

impl Budget {
    /// Where the figures are.
    pub fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("instructions/budget.txt")
    }

    /// What is committed; nothing, if there is no such file.
    pub fn read() -> Result<Self, String> {
        match fs::read_to_string(Self::path()) {
            Ok(text) => Self::parse(&text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", Self::path().display())),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut budget = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(place) = line.strip_prefix(PLACE) {
                place.clone_into(&mut budget.place);
            } else if !line.starts_with('#') {
                let figure = line
                    .rsplit_once(" = ")
                    .and_then(|(name, figure)| Some((name.trim_end(), figure.parse().ok()?)));
                let (name, figure) = figure.ok_or(format!("the budget has a line that is none: {line:?}"))?;
                budget.figures.push((name.to_owned(), figure));
            }
        }
        Ok(budget)
    }

    /// Makes these figures the budget.
    pub fn write(place: &str, figures: &[(&str, f64)]) -> Result<(), String> {
        fs::write(Self::path(), Self::text(place, figures))
            .map_err(|error| format!("{}: {error}", Self::path().display()))
    }

    fn text(place: &str, figures: &[(&str, f64)]) -> String {
        let mut text = format!(
            "# Instructions per operation; `cargo bench -p netwright-benches --bench instructions -- --update` writes this.\n\
            {PLACE}{place}\n"
        );
        figures.iter().for_each(|(name, figure)| text += &format!("{name} = {figure:.1}\n"));
        text
    }

    /// Whether there is a figure of that name.
    pub fn has(&self, name: &str) -> bool {
        self.figures.iter().any(|(known, _)| known == name)
    }

    /// How a figure stands against its budget, if so many percent are no difference.
    pub fn judge(&self, name: &str, figure: f64, tolerance: f64) -> Verdict {
        let Some((_, budget)) = self.figures.iter().find(|(known, _)| known == name) else {
            return Verdict::None;
        };
        let difference = Difference { budget: *budget, percent: (figure - budget) * 100.0 / budget };
        match difference.percent {
            more if more > tolerance => Verdict::Above(difference),
            less if less < -tolerance => Verdict::Below(difference),
            _ => Verdict::Kept(difference),
        }
    }
}

/// By how much a figure is not its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    budget: f64,
    percent: f64,
}

/// How a figure stands against its budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// There is none.
    None,
    /// As much as before.
    Kept(Difference),
    /// More than before.
    Above(Difference),
    /// Less than before: the budget can be lowered.
    Below(Difference),
}

impl Verdict {
    /// Whether somebody has to look at it.
    pub fn is_above(self) -> bool {
        matches!(self, Self::Above(_) | Self::None)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Difference { budget, percent }, what) = match *self {
            Self::None => return f.write_str("no budget"),
            Self::Kept(difference) => (difference, ""),
            Self::Above(difference) => (difference, "  ABOVE"),
            Self::Below(difference) => (difference, "  below: --update keeps it"),
        };
        write!(f, "{budget:>9.1}  {percent:>+6.1} %{what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let figures = [("a = b: c", 1.5), ("d", 20.0)];
        let budget = Budget::parse(&Budget::text("rustc 1, here", &figures)).unwrap();
        assert_eq!(budget.place, "rustc 1, here");
        assert_eq!(budget.figures, figures.map(|(name, figure)| (name.to_owned(), figure)));
        assert!(Budget::parse("a = many\n").unwrap_err().contains("\"a = many\""));
    }

    #[test]
    fn only_more_than_the_tolerance_is_above() {
        let budget = Budget::parse("a = 100.0\n").unwrap();
        let judged = |figure| budget.judge("a", figure, 3.0);
        assert!(!judged(103.0).is_above() && judged(103.1).is_above());
        assert!(matches!(judged(97.1), Verdict::Kept(_)) && matches!(judged(96.9), Verdict::Below(_)));
        assert!(budget.judge("b", 1.0, 3.0).is_above(), "what is new has to be given a budget");
    }
}

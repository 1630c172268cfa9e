//! One table for each scenario: the best first, ours marked, failures with their reason.

use super::{Ranking, figure, thousands};
use crate::{
    measure::{Entry, Outcome},
    roster::{Side, side},
    scenario::Key,
};
use std::fmt::Write as _;

/// Reasons are cut here, so that a table stays one.
const REASON_MAX: usize = 100;

struct Row {
    peer: &'static str,
    ours: bool,
    best: bool,
    cells: Result<Vec<String>, String>,
}

fn heads(outcome: &Outcome, ranking: &Ranking<'_>) -> Vec<String> {
    let times = ranking.reference.map_or("ratio".to_owned(), |reference| format!("× {}", reference.peer));
    let heads: &[&str] = match outcome.scenario.key() {
        Key::Memory => &["bytes/connection", &times, "middle half", "resident MiB"],
        Key::P99 => &[
            "p99 µs",
            &times,
            "middle half",
            "p50 µs",
            "p99.9 µs",
            "req/s",
            "CPU µs/req",
            "cores busy",
            "RSS MiB",
        ],
        Key::Cpu => &[
            "CPU µs/req",
            &times,
            "middle half",
            "cores busy",
            "req/s",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "RSS MiB",
        ],
    };
    heads.iter().map(|head| (*head).to_owned()).collect()
}

fn cells(entry: &Entry, ranking: &Ranking<'_>) -> Result<Vec<String>, String> {
    if entry.samples.is_empty() {
        let why = entry.failures.first().map_or("not measured", |why| why);
        return Err(why.chars().take(REASON_MAX).collect());
    }
    let ratio = ranking.ratio(entry);
    let times = ratio.map_or("–".to_owned(), |ratio| format!("{:.2}", ratio.median));
    let middle = ratio.map_or("–".to_owned(), |ratio| format!("{:.2} … {:.2}", ratio.low, ratio.high));
    let mib = figure(entry.median(|sample| sample.resident) / 1_048_576.0);
    let cpu = figure(entry.median(|sample| sample.cpu_us));
    let busy = format!("{:.2}", entry.median(|sample| sample.busy));
    let rate = thousands(entry.median(|sample| sample.rate));
    let [p50, p99, p999] = [
        figure(entry.median(|sample| sample.p50_us)),
        figure(entry.median(|sample| sample.p99_us)),
        figure(entry.median(|sample| sample.p999_us)),
    ];
    Ok(match ranking.key {
        Key::Memory => {
            let each = thousands(entry.median(|sample| sample.per_connection.unwrap_or(f64::NAN)));
            vec![each, times, middle, mib]
        }
        Key::P99 => vec![p99, times, middle, p50, p999, rate, cpu, busy, mib],
        Key::Cpu => vec![cpu, times, middle, busy, rate, p50, p99, p999, mib],
    })
}

fn rows(ranking: &Ranking<'_>) -> Vec<Row> {
    let row = |entry: &&Entry| Row {
        peer: entry.peer,
        ours: side(entry.peer) == Side::Ours,
        best: ranking.best == Some(entry.peer),
        cells: cells(entry, ranking),
    };
    ranking.entries.iter().map(row).collect()
}

fn title(outcome: &Outcome) -> String {
    let at = outcome.rate.map_or(String::new(), |rate| format!(", {} requests a second", thousands(rate)));
    format!("{}: {}{at}", outcome.scenario.name, outcome.scenario.title)
}

/// What to know about the runs behind a table.
fn note(outcome: &Outcome) -> Option<String> {
    let samples = || outcome.entries.iter().flat_map(|entry| &entry.samples);
    let disturbed = samples().filter(|sample| sample.disturbed).count();
    (disturbed > 0).then(|| {
        format!("{disturbed} of {} runs were disturbed by other work on the machine, and are left out where others exist.", samples().count())
    })
}

/// For people who watch: ours behind a ▶, the best framework before a ★.
pub(super) fn terminal(outcome: &Outcome) -> String {
    let ranking = Ranking::of(outcome);
    let (heads, rows) = (heads(outcome, &ranking), rows(&ranking));
    let name = |row: &Row| {
        format!("{} {}{}", if row.ours { '▶' } else { ' ' }, row.peer, if row.best { " ★" } else { "" })
    };
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.as_ref().ok()?.get(column));
        cells.chain(heads.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let first = rows.iter().map(|row| name(row).chars().count()).max().unwrap_or(0);
    let mut text = format!("\n{}\n\n{:first$}", title(outcome), "");
    for (column, head) in heads.iter().enumerate() {
        let _ = write!(text, "  {head:>0$}", width(column));
    }
    text.push('\n');
    for row in &rows {
        let _ = write!(text, "{:first$}", name(row));
        match &row.cells {
            Ok(cells) => {
                for (column, cell) in cells.iter().enumerate() {
                    let _ = write!(text, "  {cell:>0$}", width(column));
                }
            }
            Err(why) => {
                let _ = write!(text, "  failed: {why}");
            }
        }
        text.push('\n');
    }
    if let Some(note) = note(outcome) {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// The same for a page: ours bold, the best framework with a ★.
pub(super) fn markdown(outcome: &Outcome) -> String {
    let ranking = Ranking::of(outcome);
    let heads = heads(outcome, &ranking);
    let mut text = format!(
        "### {}\n\n| server | {} |\n| --- |{}\n",
        title(outcome),
        heads.join(" | "),
        " ---: |".repeat(heads.len())
    );
    for row in rows(&ranking) {
        let star = if row.best { " ★" } else { "" };
        let cells = match row.cells {
            Ok(cells) => cells,
            Err(why) => {
                let mut cells = vec![format!("failed: {}", why.replace('|', "/"))];
                cells.resize(heads.len(), String::new());
                cells
            }
        };
        let mark = if row.ours { "**" } else { "" };
        let cells: Vec<String> = cells
            .into_iter()
            .map(|cell| if cell.is_empty() { cell } else { format!("{mark}{cell}{mark}") })
            .collect();
        let _ = writeln!(text, "| {mark}{}{mark}{star} | {} |", row.peer, cells.join(" | "));
    }
    if let Some(note) = note(outcome) {
        let _ = write!(text, "\n{note}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcome;
    use super::*;

    #[test]
    fn ours_is_bold_the_best_has_a_star_and_failures_say_why() {
        let text = markdown(&outcome(
            1,
            &[("netwright", 5.0), ("tokio", 4.0), ("epoll-by-hand", 3.0), ("netty", f64::NAN)],
        ));
        assert!(text.contains("| **netwright** | **7.50** | **1.67** |"), "{text}");
        assert!(text.contains("| tokio ★ | 6.00 |"), "{text}");
        assert!(text.contains("| netty | failed: it & others <fail> |"), "{text}");
        let columns = |line: &str| line.matches('|').count();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert!(lines.iter().all(|line| columns(line) == columns(lines[0])), "{text}");
    }

    #[test]
    fn columns_of_the_terminal_stand_under_their_heads() {
        let text = terminal(&outcome(1, &[("netwright", 5.0), ("tokio", 4.0)]));
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("MiB") || line.contains('…')).collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() == lines[0].chars().count()), "{text}");
    }
}

//! Bars, as SVG that reads well on light and on dark pages: a plot for each group, a panel for each scenario.
//!
//! ```text
//!   title of the scenario
//!      netwright ████████ 1.01            ours in a colour of its own, loops by hand in grey
//!          tokio ███████████ 1.37         shorter is better
//!                       ┆ 1.00            what everybody is compared with
//! ```

use super::{Ranking, figure, thousands};
use crate::{
    measure::{Entry, Outcome},
    roster::{Side, side},
    scenario::Key,
};
use netwright_benches::svg::{self, text};
use std::fmt::Write as _;

const ACROSS: usize = 2;
const PANEL: usize = 460;
const LABELS: usize = 125;
const BAR: f64 = 235.0;
const ROW: usize = 19;
const HEAD: usize = 56;
const FOOT: usize = 14;
/// A bar that is longer than that many references ends there, with a gap and its figure: others stay readable.
const RATIO_MAX: f64 = 4.0;
/// Such a bar is cut so far before its end.
const CUT: f64 = 16.0;
/// Room for a figure.
const LABEL: f64 = 80.0;

const STYLE: &str = ".value{font-size:11px}.own{font-weight:600}rect{fill:#a9b4c2}.by-hand{fill:#d3d9e0}.ours{fill:#d9622b}\
    .line{stroke:#6b7480;stroke-dasharray:3 3}";
const STYLE_IN_THE_DARK: &str =
    "rect{fill:#56657a}.by-hand{fill:#3a4453}.ours{fill:#f0803c}.line{stroke:#8b949e}";

/// All groups that there are outcomes of, with their plots.
pub(super) fn all(outcomes: &[Outcome]) -> Vec<(&'static str, String)> {
    let mut groups: Vec<&'static str> = outcomes.iter().map(|outcome| outcome.scenario.group).collect();
    groups.dedup();
    let of = |group: &'static str| {
        let members: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| outcome.scenario.group == group).collect();
        (group, svg(&members))
    };
    groups.into_iter().map(of).collect()
}

fn svg(outcomes: &[&Outcome]) -> String {
    let rows = outcomes.chunks(ACROSS);
    let height_of = |row: &[&Outcome]| {
        let bars = row.iter().map(|outcome| outcome.entries.len()).max().unwrap_or(0);
        HEAD + ROW * bars + FOOT
    };
    let (width, height) = (PANEL * ACROSS.min(outcomes.len()), rows.clone().map(height_of).sum::<usize>());
    svg::picture(width as f64, height as f64, STYLE, STYLE_IN_THE_DARK, |svg| {
        let mut top = 0;
        for row in rows {
            for (column, outcome) in row.iter().enumerate() {
                panel(svg, outcome, PANEL * column, top);
            }
            top += height_of(row);
        }
    })
}

fn panel(svg: &mut String, outcome: &Outcome, left: usize, top: usize) {
    let ranking = Ranking::of(outcome);
    let reference = ranking.reference.map_or("", |reference| reference.peer);
    let what = match ranking.key {
        Key::Cpu => format!("CPU time per request, relative to {reference}; shorter is better"),
        Key::P99 => "99th percentile of latency, µs; shorter is better".to_owned(),
        Key::Memory => "resident bytes per connection; shorter is better".to_owned(),
    };
    text(svg, left + 8, top + 22, "class=\"title\"", outcome.scenario.title);
    text(svg, left + 8, top + 40, "class=\"note\"", &what);
    let x = left + LABELS;
    let longest = ranking.entries.iter().filter_map(|entry| value(entry, &ranking)).fold(0.0, f64::max);
    let longest = if ranking.key == Key::Cpu { longest.min(RATIO_MAX) } else { longest };
    let scale = BAR / longest.max(f64::MIN_POSITIVE);
    let line = (ranking.key == Key::Cpu && ranking.reference.is_some()).then_some(scale);
    for (row, entry) in ranking.entries.iter().enumerate() {
        let y = top + HEAD + ROW * row;
        let class = match side(entry.peer) {
            Side::Ours => " class=\"ours\"",
            Side::ByHand => " class=\"by-hand\"",
            Side::Other => "",
        };
        let own = if side(entry.peer) == Side::Ours { " class=\"own\"" } else { "" };
        text(svg, x - 8, y + 11, &format!("text-anchor=\"end\"{own}"), entry.peer);
        let Some(value) = value(entry, &ranking) else {
            text(svg, x + 4, y + 11, "class=\"note\"", "failed");
            continue;
        };
        let len = (value.min(longest) * scale).max(1.0);
        bar(svg, class, x as f64, y, if value > longest { len - CUT } else { len });
        if value > longest {
            bar(svg, class, x as f64 + len - CUT / 2.0, y, CUT / 2.0);
        }
        // No figure on the line that all are compared with.
        let from = line.filter(|line| (len..len + LABEL).contains(line)).unwrap_or(len);
        text(svg, x + from as usize + 5, y + 11, "class=\"value\"", &label(entry, value, &ranking));
    }
    if let Some(line) = line {
        let (line, from) = (x as f64 + line, top + HEAD - 4);
        let to = top + HEAD + ROW * ranking.entries.len();
        let _ = writeln!(
            svg,
            "<line class=\"line\" x1=\"{line:.1}\" y1=\"{from}\" x2=\"{line:.1}\" y2=\"{to}\"/>"
        );
    }
}

fn bar(svg: &mut String, class: &str, x: f64, y: usize, len: f64) {
    let _ = writeln!(svg, "<rect{class} x=\"{x:.1}\" y=\"{y}\" width=\"{len:.1}\" height=\"{}\"/>", ROW - 5);
}

/// How long a bar is.
fn value(entry: &Entry, ranking: &Ranking<'_>) -> Option<f64> {
    let value = match ranking.key {
        Key::Cpu => ranking.ratio(entry)?.median,
        Key::P99 => entry.spread(|sample| sample.p99_us)?.median,
        Key::Memory => entry.spread(|sample| sample.per_connection.unwrap_or(f64::NAN))?.median,
    };
    value.is_finite().then_some(value)
}

fn label(entry: &Entry, value: f64, ranking: &Ranking<'_>) -> String {
    match ranking.key {
        Key::Cpu => format!("{value:.2}  ({} µs)", figure(entry.median(|sample| sample.cpu_us))),
        Key::P99 => figure(value),
        Key::Memory => thousands(value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::outcome;
    use super::*;

    #[test]
    fn a_plot_has_a_bar_for_everybody_who_was_measured_and_a_word_for_who_failed() {
        let outcome =
            outcome(1, &[("netwright", 4.4), ("epoll-by-hand", 4.0), ("tokio", 40.0), ("netty", f64::NAN)]);
        let svg = svg(&[&outcome]);
        assert_eq!(svg.matches("<rect").count(), 4, "one is cut in two: {svg}");
        assert!(
            svg.contains("class=\"ours\"") && svg.contains(">failed<") && svg.contains("1.10  (6.60 µs)"),
            "{svg}"
        );
        // The bar of who is ten times as slow ends where four times would.
        assert!(svg.contains("width=\"219.0\"") && svg.contains("10.00  (60.0 µs)"), "{svg}");
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn groups_have_a_plot_each_in_order() {
        let outcomes: Vec<Outcome> = [1, 2, 4].map(|at| outcome(at, &[("tokio", 1.0)])).into();
        let names: Vec<&str> = all(&outcomes).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["echo", "http"]);
    }
}

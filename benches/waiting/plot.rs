//! Lines over a logarithmic grid, as an SVG that reads well on light and on dark pages.
//!
//! ```text
//!   100 ┤             ╱ poll        both axes by powers of ten: a straight rise is a cost by socket,
//!    10 ┤────────────────  epoll    a flat line is none
//!       └┬────┬────┬────
//!        1    10   100
//! ```

use netwright_benches::{
    svg::{self, text},
    text::{figure, thousands},
};
use std::fmt::Write as _;

/// One line, with its name at its right end.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// Both above 0.
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 140.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 48.0;
/// Names of lines that end closer to each other than that are moved apart.
const NAME_HEIGHT: f64 = 15.0;

const STYLE: &str = ".grid{stroke:#d3d9e0}.line{fill:none;stroke-width:2}.l0{stroke:#7a5195}.l1{stroke:#2f6fb0}.l2{stroke:#d9622b}\
    .d0{fill:#7a5195}.d1{fill:#2f6fb0}.d2{fill:#d9622b}.name{font-weight:600}";
const STYLE_IN_THE_DARK: &str = ".grid{stroke:#3a4453}.l0{stroke:#b58bd0}.l1{stroke:#6fa8e0}.l2{stroke:#f0803c}\
    .d0{fill:#b58bd0}.d1{fill:#6fa8e0}.d2{fill:#f0803c}";

/// Where a value lies between two powers of ten.
struct Axis {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    fn around(values: impl Iterator<Item = f64> + Clone, from: f64, to: f64) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).log10().floor();
        let high = values.fold(f64::NEG_INFINITY, f64::max).log10().ceil();
        Self { low, high: high.max(low + 1.0), from, to }
    }

    fn at(&self, value: f64) -> f64 {
        self.from + (value.log10() - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.low as i32..=self.high as i32).map(|power| 10_f64.powi(power))
    }
}

pub(crate) fn svg(lines: &[Line]) -> String {
    svg::picture(WIDTH, HEIGHT, STYLE, STYLE_IN_THE_DARK, |svg| draw(svg, lines))
}

fn draw(svg: &mut String, lines: &[Line]) {
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let across = Axis::around(points().map(|(x, _)| x), LEFT, WIDTH - RIGHT);
    let up = Axis::around(points().map(|(_, y)| y), HEIGHT - BOTTOM, TOP);
    text(svg, 8.0, 22.0, "class=\"title\"", "What a message costs beside silent sockets");
    let note = "µs of the server's CPU time, 4 busy connections of 64 bytes, one loop; lower is better";
    text(svg, 8.0, 40.0, "class=\"note\"", note);
    for power in across.powers() {
        let x = across.at(power);
        rule(svg, (x, TOP), (x, HEIGHT - BOTTOM));
        text(svg, x, HEIGHT - BOTTOM + 18.0, "text-anchor=\"middle\"", &thousands(power));
    }
    for power in up.powers() {
        let y = up.at(power);
        rule(svg, (LEFT, y), (WIDTH - RIGHT, y));
        text(svg, LEFT - 8.0, y + 4.0, "text-anchor=\"end\"", &thousands(power));
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    text(svg, middle, HEIGHT - 10.0, "class=\"note\" text-anchor=\"middle\"", "silent sockets");
    let names = apart(lines.iter().map(|line| line.points.last().map_or(TOP, |&(_, y)| up.at(y))).collect());
    for (number, line) in lines.iter().enumerate() {
        let places = line.points.iter().map(|&(x, y)| (across.at(x), up.at(y)));
        let path: Vec<String> = places.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(svg, "<polyline class=\"line l{number}\" points=\"{}\"/>", path.join(" "));
        for (x, y) in places {
            let _ = writeln!(svg, "<circle class=\"d{number}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>");
        }
        let (&(x, y), Some(name)) = (line.points.last().unwrap_or(&(1.0, 1.0)), names.get(number)) else {
            continue;
        };
        let label = format!("{} {} µs", line.name, figure(y));
        let class = format!("class=\"name d{number}\"");
        text(svg, across.at(x) + 8.0, name + 4.0, &class, &label);
    }
}

/// Moves heights that are too close to each other apart, and keeps their order.
fn apart(mut heights: Vec<f64>) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|a, b| heights[*a].total_cmp(&heights[*b]));
    for pair in order.windows(2) {
        heights[pair[1]] = heights[pair[1]].max(heights[pair[0]] + NAME_HEIGHT);
    }
    heights
}

fn rule(svg: &mut String, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ =
        writeln!(svg, "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

//! Bars, as an SVG that reads well on light and on dark pages.

use netwright_benches::text::thousands;
use std::fmt::Write;

/// One group of bars: a row for each format.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) unit: &'static str,
    pub(crate) bars: Vec<f64>,
}

const LABELS: usize = 150;
const PANEL: usize = 270;
const BAR: usize = 130;
const ROW: usize = 18;
const HEAD: usize = 44;

/// Panels in rows of `across`; the names of the bars stand at the left of each row.
pub(crate) fn svg(names: &[&str], across: usize, panels: &[Panel]) -> String {
    let height_of_row = HEAD + ROW * names.len() + 12;
    let (width, height) = (LABELS + PANEL * across, height_of_row * panels.len().div_ceil(across));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<style>\
         text{{fill:#3d444d}}.title{{font-weight:600}}.value{{font-size:11px}}rect{{fill:#4c78a8}}\
         @media(prefers-color-scheme:dark){{text{{fill:#c9d1d9}}rect{{fill:#6f9fd0}}}}</style>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        let (x, y) = (LABELS + PANEL * (index % across), height_of_row * (index / across));
        let most = panel.bars.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        line(&mut svg, x, y + 24, "class=\"title\"", &panel.title);
        for (row, (name, bar)) in names.iter().zip(&panel.bars).enumerate() {
            let (top, len) = (y + HEAD + ROW * row, (bar / most * BAR as f64).max(1.0));
            if index % across == 0 {
                line(&mut svg, x - 8, top + 11, "text-anchor=\"end\"", name);
            }
            let _ = writeln!(svg, "<rect x=\"{x}\" y=\"{top}\" width=\"{len:.1}\" height=\"{}\"/>", ROW - 5);
            let value = format!("{} {}", thousands(*bar), panel.unit);
            line(&mut svg, x + len as usize + 5, top + 11, "class=\"value\"", &value);
        }
    }
    svg + "</svg>\n"
}

fn line(svg: &mut String, x: usize, y: usize, how: &str, text: &str) {
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" {how}>{text}</text>");
}

//! What the plots share: a frame that reads well on light and on dark pages, and text.

use std::fmt::{Display, Write as _};

const STYLE: &str =
    "text{fill:#3d444d}.title{font-weight:600;font-size:13px}.note{font-size:11px;fill:#6b7480}";
const STYLE_IN_THE_DARK: &str = "text{fill:#c9d1d9}.note{fill:#8b949e}";

/// A picture with `draw`'s content. Its own classes are told twice: by day, and where they differ in the dark.
///
/// ```
/// use netwright_benches::svg;
///
/// let picture = svg::picture(100.0, 50.0, "rect{fill:#a9b4c2}", "rect{fill:#56657a}", |svg| {
///     svg::text(svg, 8, 22, "class=\"title\"", "Nothing yet");
/// });
/// assert!(picture.contains("viewBox=\"0 0 100 50\"") && picture.ends_with("</svg>\n"));
/// ```
pub fn picture(
    width: f64,
    height: f64,
    style: &str,
    in_the_dark: &str,
    draw: impl FnOnce(&mut String),
) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<style>{STYLE}{style}\
         @media(prefers-color-scheme:dark){{{STYLE_IN_THE_DARK}{in_the_dark}}}</style>\n"
    );
    draw(&mut svg);
    svg + "</svg>\n"
}

/// A line of text; `how` are further attributes.
pub fn text(svg: &mut String, x: impl Display, y: impl Display, how: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {how}>{text}</text>");
}

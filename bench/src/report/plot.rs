//! A plot of horizontal bars, as SVG.

use std::fmt::Write as _;

/// Bars with their labels, drawn from above.
#[derive(Debug)]
pub(crate) struct Bars {
    pub(crate) title: String,
    /// A step of the axis is ten times as much as the one before.
    pub(crate) logarithmic: bool,
    pub(crate) rows: Vec<Row>,
}

/// One bar.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// What stands behind the bar.
    pub(crate) text: String,
    /// A line across it: what had to be reached.
    pub(crate) mark: Option<f64>,
    /// Of ours, or of another to compare with.
    pub(crate) ours: bool,
}

const WIDTH: f64 = 860.0;
/// Where bars begin, and how long the longest is.
const LEFT: f64 = 270.0;
const LONGEST: f64 = 440.0;
const ROW: f64 = 22.0;
const TOP: f64 = 44.0;

impl Bars {
    pub(crate) fn svg(&self) -> String {
        let height = TOP + ROW * self.rows.len() as f64 + 14.0;
        let values = || self.rows.iter().flat_map(|row| [Some(row.value), row.mark]).flatten().filter(|value| *value > 0.0);
        let most = values().fold(f64::MIN_POSITIVE, f64::max);
        // The shortest bar of a logarithmic plot is still to be seen.
        let least = values().fold(f64::INFINITY, f64::min) / 3.0;
        let length = |value: f64| match self.logarithmic {
            true => ((value / least).ln() / (most / least).ln()).max(0.0) * LONGEST,
            false => value / most * LONGEST,
        };
        let mut svg = format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="13">
<rect width="100%" height="100%" fill="#ffffff"/>
<text x="16" y="26" font-size="15" font-weight="bold" fill="#1f2328">{}</text>
"##,
            escaped(&self.title)
        );
        for (number, row) in self.rows.iter().enumerate() {
            let y = TOP + ROW * number as f64;
            let colour = if row.ours { "#2f6fb3" } else { "#a8b3bf" };
            let (width, text) = (length(row.value).max(1.0), y + 14.0);
            let behind = LEFT + row.mark.map_or(width, |mark| width.max(length(mark))) + 8.0;
            let _ = writeln!(
                svg,
                r##"<text x="{:.0}" y="{text:.0}" text-anchor="end" fill="#1f2328">{}</text>
<rect x="{LEFT:.0}" y="{:.0}" width="{width:.1}" height="16" fill="{colour}"/>
<text x="{behind:.1}" y="{text:.0}" fill="#57606a">{}</text>"##,
                LEFT - 8.0,
                escaped(&row.label),
                y + 1.0,
                escaped(&row.text),
            );
            if let Some(mark) = row.mark {
                let x = LEFT + length(mark);
                let _ = writeln!(
                    svg,
                    r##"<line x1="{x:.1}" y1="{:.0}" x2="{x:.1}" y2="{:.0}" stroke="#c4432b" stroke-width="2"/>"##,
                    y - 2.0,
                    y + 20.0
                );
            }
        }
        svg + "</svg>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_value_and_texts_are_escaped() {
        let row = |value: f64| Row { label: "a < b".to_owned(), value, text: "t".to_owned(), mark: Some(2.0), ours: true };
        let svg = Bars { title: "T & U".to_owned(), logarithmic: false, rows: vec![row(4.0), row(1.0)] }.svg();
        assert!(svg.contains("width=\"440.0\"") && svg.contains("width=\"110.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("T &amp; U"));
        assert_eq!(svg.matches("<line").count(), 2);
    }
}

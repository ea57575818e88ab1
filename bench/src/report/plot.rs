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
    /// A red line across it: what had to be reached.
    pub(crate) mark: Option<f64>,
    pub(crate) kind: Kind,
}

/// Whose it is. A heading stands above the bars of each kind, where there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Ours,
    Peer,
    Design,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Ours, Kind::Peer, Kind::Design];

    pub(crate) fn heading(self) -> &'static str {
        match self {
            Kind::Ours => "Ours",
            Kind::Peer => "Other projects",
            Kind::Design => "Designs",
        }
    }

    fn colour(self) -> &'static str {
        match self {
            Kind::Ours => "#2f6fb3",
            Kind::Peer => "#8c959f",
            Kind::Design => "#c5ccd3",
        }
    }
}

const WIDTH: f64 = 860.0;
/// Where bars begin, and how long the longest is.
const LEFT: f64 = 270.0;
const LONGEST: f64 = 440.0;
const ROW: f64 = 22.0;
const TOP: f64 = 44.0;

impl Bars {
    pub(crate) fn svg(&self) -> String {
        let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| self.rows.iter().any(|row| row.kind == *kind)).collect();
        let headings = if kinds.len() > 1 { kinds.len() } else { 0 };
        let is_marked = self.rows.iter().any(|row| row.mark.is_some());
        let places = self.rows.len() + headings + usize::from(is_marked);
        let height = TOP + ROW * places as f64 + 14.0;
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
        let mut places = (0..places).map(|place| TOP + ROW * place as f64);
        let mut place = || places.next().expect("places were counted");
        let mut last = None;
        for row in &self.rows {
            if headings > 0 && last.replace(row.kind) != Some(row.kind) {
                let (heading, y) = (row.kind.heading(), place() + 15.0);
                let _ = writeln!(svg, r##"<text x="16" y="{y:.0}" font-weight="bold" fill="#57606a">{heading}</text>"##);
            }
            let y = place();
            let colour = row.kind.colour();
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
        if is_marked {
            let y = place() + 15.0;
            let _ = writeln!(svg, r##"<text x="{LEFT:.0}" y="{y:.0}" font-size="12" fill="#c4432b">red line: the bar</text>"##);
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

    fn row(value: f64, mark: Option<f64>, kind: Kind) -> Row {
        Row { label: "a < b".to_owned(), value, text: "t".to_owned(), mark, kind }
    }

    #[test]
    fn a_bar_is_as_long_as_its_value_and_texts_are_escaped() {
        let rows = vec![row(4.0, Some(2.0), Kind::Ours), row(1.0, Some(2.0), Kind::Ours)];
        let svg = Bars { title: "T & U".to_owned(), logarithmic: false, rows }.svg();
        assert!(svg.contains("width=\"440.0\"") && svg.contains("width=\"110.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && svg.contains("T &amp; U"));
        assert_eq!(svg.matches("<line").count(), 2);
        assert_eq!(svg.matches("red line").count(), 1);
    }

    #[test]
    fn a_heading_stands_above_each_kind_where_there_are_several() {
        let rows = vec![row(4.0, None, Kind::Ours), row(2.0, None, Kind::Design), row(1.0, None, Kind::Design)];
        let svg = Bars { title: String::new(), logarithmic: false, rows }.svg();
        assert_eq!([">Ours<", ">Designs<", ">Other projects<", "red line"].map(|text| svg.matches(text).count()), [1, 1, 0, 0]);
    }
}

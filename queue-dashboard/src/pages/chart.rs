//! Bars of done and failed jobs, as coordinates in a picture.

use crate::format::{Moment, rate, short};

/// The size of the chart in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
const GAP: f64 = 1.5;

/// The done and failed jobs in a part of the time that a chart shows.
pub(crate) struct Part {
    /// Its start and end: 0 is the left end of the chart, 1 the right one.
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) done: f64,
    pub(crate) failed: f64,
}

/// A chart.
#[derive(Default)]
pub(crate) struct Chart {
    pub(crate) bars: Vec<Bar>,
    /// Events at a point in time, as lines.
    pub(crate) marks: Vec<Mark>,
    /// The upper end of its scale.
    pub(crate) top: String,
    /// The text of the chart.
    pub(crate) label: String,
}

/// A line, with a name.
pub(crate) struct Mark {
    pub(crate) x: String,
    pub(crate) name: String,
    pub(crate) at: Moment,
}

pub(crate) struct Bar {
    pub(crate) x: String,
    pub(crate) width: String,
    pub(crate) done_y: String,
    pub(crate) done_height: String,
    pub(crate) failed_y: String,
    pub(crate) failed_height: String,
}

impl Chart {
    /// A chart of these parts. `label` gets the largest value and the last one.
    pub(crate) fn of(parts: &[Part], label: impl FnOnce(f64, f64) -> String) -> Self {
        let Some(most) = parts.iter().map(|part| part.done + part.failed).reduce(f64::max) else { return Chart::default() };
        // A round number, so that the scale does not change with every sample.
        let scale = (-2..12).flat_map(|power| [1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0].map(|n| n * 10_f64.powi(power)));
        let top = scale.into_iter().find(|top| *top >= most).unwrap_or(most);
        let text = |n: f64| format!("{n:.1}");
        let bars = parts.iter().map(|part| {
            let (from, to) = (WIDTH * part.from.clamp(0.0, 1.0), WIDTH * part.to.clamp(0.0, 1.0));
            let (done, failed) = (part.done / top * HEIGHT, part.failed / top * HEIGHT);
            Bar {
                x: text(from),
                width: text((to - from - GAP).max(1.0)),
                done_y: text(HEIGHT - done),
                done_height: text(done),
                failed_y: text(HEIGHT - done - failed),
                failed_height: text(failed),
            }
        });
        let last = parts.last().map_or(0.0, |part| part.done);
        Chart { bars: bars.collect(), marks: Vec::new(), top: rate(top), label: label(most, last) }
    }

    /// Adds a line at this place, from 0 to 1.
    pub(crate) fn mark(&mut self, place: f64, name: &str, at: Moment) {
        self.marks.push(Mark { x: format!("{:.1}", WIDTH * place.clamp(0.0, 1.0)), name: short(name, 40), at });
    }
}

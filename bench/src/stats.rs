//! Numbers of many numbers.

/// The `p`-th percentile of some numbers, which are sorted on the way.
pub(crate) fn percentile(values: &mut [f64], p: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    values.get(((last as f64) * p / 100.0).round() as usize).copied().unwrap_or(f64::NAN)
}

/// The middle of some numbers.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    percentile(&mut values.collect::<Vec<_>>(), 50.0)
}

//! The report as a page of the documentation.

use std::fmt::Write;

use crate::report::{Line, Report};

/// The page of these runs of the suite, one section each, the totals in front.
pub fn of(reports: &[Report]) -> String {
    let mut page = String::from("# Report of the fault suite\n\n");
    page += "Written by `cargo xtask faults --report`. [The fault suite](faults.md) describes how the suite works, and what it checks.\n\n";
    totals(&mut page, reports);
    page += LEGEND;
    for report in reports {
        section(&mut page, report);
    }
    page
}

const LEGEND: &str =
    "*Faults* counts the injected faults. *Ran twice* counts starts that no handler asked for, each with its cause. *Fenced off* counts
endings of lost leases, which were refused. *Recovery* is the time from a fault to the next start of a job that the fault interrupted.
*Resume* is the time from the end of all faults to the first record of a worker. Both are in milliseconds, as p50 and p99. The seed
replays a run of a row.\n\n";

fn totals(page: &mut String, reports: &[Report]) {
    *page += "| broker | runs | jobs | faults | ran twice | lost | stuck | early | unexplained duplicates |\n|---|---|---|---|---|---|---|---|---|\n";
    let lines = || reports.iter().flat_map(|report| &report.rows);
    let mut brokers: Vec<&str> = lines().map(|line| line.broker.as_str()).collect();
    brokers.sort_unstable();
    brokers.dedup();
    for broker in brokers {
        let sum = |what: fn(&Line) -> usize| grouped(lines().filter(|line| line.broker == broker).map(what).sum());
        row(
            page,
            &[
                broker.to_owned(),
                sum(|line| line.runs),
                sum(|line| line.jobs),
                sum(|line| line.faults),
                sum(|line| line.duplicates.values().sum()),
                sum(|line| line.lost),
                sum(|line| line.stuck),
                sum(|line| line.early),
                sum(|line| line.unexplained_duplicates),
            ],
        );
    }
    let broken: usize = reports.iter().map(|report| report.violations).sum();
    let failed: usize = reports.iter().map(|report| report.failed_runs).sum();
    let _ = writeln!(page, "\nPromises broken: {broken}. Runs that failed: {failed}.");
    let (inconclusive, undecided) = (sum_of(reports, |report| report.inconclusive), sum_of(reports, |report| report.undecided));
    let _ = writeln!(page, "Inconclusive runs, repeated with the next seed: {inconclusive}. Rows that stayed inconclusive: {undecided}.\n");
}

fn sum_of(reports: &[Report], what: fn(&Report) -> usize) -> usize {
    reports.iter().map(what).sum()
}

fn section(page: &mut String, report: &Report) {
    let _ = writeln!(page, "## `{}`\n", report.command);
    let _ = writeln!(page, "Began {}, ran for {}. {}.\n", report.began, time(report.seconds), report.versions.join(", "));
    *page += "| row | broker | runs | jobs | faults | ran twice, by cause | fenced off | recovery | resume | seeds | what fails |\n";
    *page += "|---|---|---|---|---|---|---|---|---|---|---|\n";
    for line in &report.rows {
        let causes: Vec<String> = line.duplicates.iter().map(|(cause, n)| format!("{} {cause}", grouped(*n))).collect();
        let times = |p50: Option<u64>, p99: Option<u64>| match (p50, p99) {
            (Some(p50), Some(p99)) => format!("{}, {}", grouped_ms(p50), grouped_ms(p99)),
            _ => "-".to_owned(),
        };
        let (first, last) = line.from_to;
        row(
            page,
            &[
                line.row.clone(),
                line.broker.clone(),
                grouped(line.runs),
                grouped(line.jobs),
                grouped(line.faults),
                if causes.is_empty() { "0".to_owned() } else { causes.join(", ") },
                grouped(line.fenced_off),
                times(line.recovery_p50_ms, line.recovery_p99_ms),
                times(line.resume_p50_ms, line.resume_p99_ms),
                if first == last { first.to_string() } else { format!("{first} to {last}") },
                line.name.clone(),
            ],
        );
    }
    *page += "\n";
    for line in &report.rows {
        for (what, ms) in &line.figures {
            let _ = writeln!(page, "- {} on {}: {what}: {ms:.1} ms", line.row, line.broker);
        }
        for (why, n) in &line.inconclusive {
            let _ = writeln!(page, "- {} on {} was inconclusive {n} times: {why}", line.row, line.broker);
        }
        for (problem, n) in &line.problems {
            let _ = writeln!(page, "- **{} on {} did not hold** {n} times: {problem} (seeds {:?})", line.row, line.broker, line.seeds);
        }
    }
    *page += "\n";
}

fn row(page: &mut String, cells: &[String]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn grouped_ms(ms: u64) -> String {
    usize::try_from(ms).map_or_else(|_| ms.to_string(), grouped)
}

/// `1,234,567`.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let from_end = |position: usize| digits.len() - position;
    let separated = digits.char_indices().flat_map(|(position, digit)| {
        let comma = (position > 0 && from_end(position) % 3 == 0).then_some(',');
        comma.into_iter().chain([digit])
    });
    separated.collect()
}

fn time(seconds: u64) -> String {
    humantime::format_duration(std::time::Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_come_in_threes() {
        assert_eq!([0, 12, 999, 1_000, 1_234_567].map(grouped), ["0", "12", "999", "1,000", "1,234,567"]);
    }
}

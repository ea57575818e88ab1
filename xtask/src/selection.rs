//! The tests that a run of the fast tier leaves out, by date, and those that the change adds.

use std::{
    collections::BTreeSet,
    process::Command,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::run::{output, root};

/// A rotated test runs on one day out of this many.
const PARTS: u64 = 4;

/// There are many damaged states, so each runs on one day out of this many: on Redis, and four days
/// later on Valkey.
const DAMAGED_PARTS: u64 = 8;

/// Without `--base`, the change starts at the newest commit older than this, because a clean clone
/// has no other base.
const AGE: Duration = Duration::from_secs(48 * 3600);

/// Tests that rotate: the end of a program's name, and the beginning of a test's name within it.
const ROTATED: [(&str, &str); 12] = [
    ("conformance", "on_valkey::"),
    ("conformance", "on_redis_sentinel::"),
    ("conformance", "on_valkey_sentinel::"),
    ("conformance", "on_redis_cluster::"),
    ("conformance", "on_valkey_cluster::"),
    ("conformance", "on_sqlite_memory::"),
    ("conformance", "on_a_wrapped_broker::"),
    ("conformance", "access::on_redis_with_roles::"),
    ("conformance", "access::on_valkey_with_roles::"),
    ("rows", "on_"),
    ("dashboard", "chromium::in_chromium_on_redis::"),
    ("dashboard", "chromium::in_chromium_on_sqlite::"),
];

/// Sources that only rotated tests run, and these tests: `program: part of a test's name`. A change
/// of the sources adds all of them.
///
/// Code that each storage runs, such as a script, is tested by suites that are never left out: on
/// one Redis, also with its full scripts, and on one SQLite file.
const ADDED: [(&str, &[&str]); 11] = [
    ("queue-core/src/redis/connection/cluster.rs", &["conformance: on_redis_cluster::", "conformance: on_valkey_cluster::"]),
    ("queue-core/src/redis/connection/sentinel.rs", &["conformance: on_redis_sentinel::", "conformance: on_valkey_sentinel::"]),
    ("queue-core/src/redis/connection/probe.rs", &["conformance: on_valkey::"]),
    ("queue-core/src/redis/keys/names.rs", &["conformance: on_redis_cluster::"]),
    ("queue-core/src/sqlite/connection/", &["conformance: on_sqlite_memory::"]),
    ("queue-core/src/broker/wrapper.rs", &["conformance: on_a_wrapped_broker::"]),
    ("queue-core/src/observe/", &["conformance: on_a_wrapped_broker::"]),
    ("queue-conformance/src/failing/", &["conformance: on_a_wrapped_broker::"]),
    ("docs/acl/", &["conformance: on_redis_with_roles::", "conformance: on_valkey_with_roles::"]),
    ("queue-dashboard/assets/", &["dashboard: chromium::in_chromium_on_sqlite::"]),
    ("tests/src/browser.rs", &["dashboard: chromium::in_chromium_on_sqlite::"]),
];

/// A change of more cases than this would run nearly the whole suite on each storage. Such cases
/// rotate as all others.
const MANY: usize = 100;

/// The tests that a run leaves out and adds.
pub(crate) struct Selection {
    /// The days since 1970 determine the rotated tests.
    date: String,
    day: u64,
    pub(crate) base: Option<String>,
    pub(crate) changed: BTreeSet<String>,
    /// The conformance cases in which a line has changed.
    cases: BTreeSet<String>,
    /// Whether no test is left out.
    everything: bool,
}

impl Selection {
    /// `date`: `YYYY-MM-DD`, today if `None`; `base`: a commit.
    pub(crate) fn new(date: Option<&str>, base: Option<&str>, everything: bool) -> Result<Selection, String> {
        let today = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() / 86_400);
        let day = match date {
            None => today,
            Some(date) => days_of(date).ok_or_else(|| format!("--date `{date}`: not a date; write it like 2026-11-27"))?,
        };
        let base = match base {
            Some(base) => {
                let commit = git(&["rev-parse", "--verify", "--quiet", &format!("{base}^{{commit}}")]);
                Some(commit.ok_or_else(|| format!("--base `{base}`: not a commit of this repository"))?)
            }
            None => {
                git(&["rev-list", "-1", &format!("--before={} seconds ago", AGE.as_secs()), "HEAD"]).filter(|commit| !commit.is_empty())
            }
        };
        let changed = base.as_ref().and_then(|base| git(&["diff", "--unified=0", base])).unwrap_or_default();
        let cases = base.as_ref().and_then(|base| git(&["diff", "--unified=0", base, "--", "queue-conformance/src/conformance"]));
        let cases = cases.map(|diff| cases_of(&diff)).filter(|cases| cases.len() <= MANY).unwrap_or_default();
        let added = git(&["ls-files", "--others", "--exclude-standard"]).unwrap_or_default();
        let changed = files_of(&changed).into_iter().chain(added.lines().map(str::to_owned)).collect();
        Ok(Selection { date: date_of(day), day, base, changed, cases, everything })
    }

    /// The base, and the command that runs the same tests again.
    pub(crate) fn describe(&self) -> String {
        let base = self.base.as_deref().unwrap_or("none: no commit is older than 48 hours");
        let base = base.get(..12).unwrap_or(base);
        let again = if self.everything {
            "cargo xtask test --all".to_owned()
        } else {
            format!("cargo xtask test --date {} --base {base}", self.date)
        };
        let added: Vec<_> = ROTATED
            .iter()
            .filter(|(program, test)| self.is_added(program, test))
            .map(|(program, test)| format!("{program} {test}"))
            .collect();
        let added = if added.is_empty() { "nothing".to_owned() } else { added.join(", ") };
        format!(
            "base of the change: {base} ({} files)\nin full because of the change: {added}\nthe same selection again: {again}",
            self.changed.len()
        )
    }

    /// The part of the damaged states to try, in the format of `QUEUE_TEST_PART`: part `k` of `n`
    /// is `k/n`. The whole tier tries all of them.
    pub(crate) fn part(&self) -> String {
        if self.everything { "0/1".to_owned() } else { format!("{}/{DAMAGED_PARTS}", self.day % DAMAGED_PARTS) }
    }

    /// Whether tests of this program rotate.
    pub(crate) fn rotates(program: &str) -> bool {
        ROTATED.iter().any(|(rotated, _)| program.ends_with(rotated))
    }

    /// Whether a test runs in this run.
    pub(crate) fn chooses(&self, program: &str, test: &str) -> bool {
        let rotated = ROTATED.iter().any(|(rotated, start)| program.ends_with(rotated) && test.starts_with(start));
        !rotated
            || self.everything
            || self.is_added(program, test)
            || self.changes_case(test)
            || ((hash(test.as_bytes()) >> 32) + self.day).is_multiple_of(PARTS)
    }

    fn is_added(&self, program: &str, test: &str) -> bool {
        let mut suites =
            ADDED.iter().filter(|(folder, _)| self.changed.iter().any(|file| file.starts_with(folder))).flat_map(|(_, suites)| *suites);
        suites.any(|suite| suite.split_once(": ").is_some_and(|(of, part)| program.ends_with(of) && test.contains(part)))
    }

    /// Whether the change touches a conformance case.
    fn changes_case(&self, test: &str) -> bool {
        test.rsplit("::").next().is_some_and(|case| self.cases.contains(case))
    }

    /// Whether the change touches the file of a test of this program, whose sources begin at
    /// `source`.
    pub(crate) fn touches(&self, source: &std::path::Path, test: &str) -> bool {
        let folder = source.parent().map(|folder| folder.display().to_string()).unwrap_or_default();
        let modules: Vec<&str> = test.split("::").collect();
        let stem = |file: &str| file.rsplit('/').next().and_then(|name| name.strip_suffix(".rs")).map(str::to_owned);
        let named = |file: &str| stem(file).is_some_and(|stem| modules.contains(&&*stem));
        let near = |file: &str| file.starts_with(&folder) || file.starts_with("queue-conformance/src/conformance/");
        self.changed.iter().any(|file| *file == source.display().to_string() || near(file) && named(file))
    }
}

/// The files with changed code in a diff without context.
fn files_of(diff: &str) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    let mut file = "";
    for line in diff.lines() {
        if let Some(names) = line.strip_prefix("diff --git a/") {
            file = names.split_once(" b/").map_or(names, |(before, _)| before);
        } else if changes_code(line) {
            files.insert(file.to_owned());
        }
    }
    files
}

/// The cases in a diff without context: `async fn` before the lines of a change, and in added
/// lines.
fn cases_of(diff: &str) -> BTreeSet<String> {
    let named = |text: &str| {
        let name: String =
            text.split_once("async fn ")?.1.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect();
        Some(name)
    };
    let mut cases = BTreeSet::new();
    let mut case = None;
    for line in diff.lines() {
        if let Some((_, before)) = line.strip_prefix("@@ ").and_then(|place| place.split_once("@@")) {
            case = named(before);
        } else if changes_code(line) {
            cases.extend(line.strip_prefix('+').and_then(named).or(case.clone()));
        }
    }
    cases
}

/// Whether a line of a diff changes more than comments, imports and blank lines.
fn changes_code(line: &str) -> bool {
    let is_header = line.starts_with("+++ ") || line.starts_with("--- ");
    let text = line.strip_prefix(['+', '-']).unwrap_or_default().trim_start();
    !is_header && !text.is_empty() && !["//", "--", "use ", "pub use "].iter().any(|start| text.starts_with(start))
}

fn git(arguments: &[&str]) -> Option<String> {
    output(Command::new("git").args(arguments).current_dir(root())).map(|said| said.trim_end().to_owned())
}

/// FNV-1a, the same on every machine.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Days since 1970 of `YYYY-MM-DD`.
fn days_of(date: &str) -> Option<u64> {
    let midnight = humantime::parse_rfc3339(&format!("{date}T00:00:00Z")).ok()?;
    midnight.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs() / 86_400)
}

fn date_of(day: u64) -> String {
    let midnight = UNIX_EPOCH + Duration::from_secs(day * 86_400);
    humantime::format_rfc3339_seconds(midnight).to_string().chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selection(day: u64, changed: &[&str]) -> Selection {
        let changed = changed.iter().map(|file| (*file).to_owned()).collect();
        Selection { date: date_of(day), day, base: None, changed, cases: BTreeSet::new(), everything: false }
    }

    #[test]
    fn dates_are_days() {
        for (date, day) in [("1970-01-01", 0), ("2000-02-29", 11_016), ("2026-11-27", 20_784)] {
            assert_eq!((days_of(date), date_of(day)), (Some(day), date.to_owned()));
        }
        for wrong in ["2026-13-01", "27.11.2026", "2026-11", "2026-11-27-1"] {
            assert_eq!(days_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn each_rotated_test_runs_once_in_four_days_and_all_others_run_each_day() {
        let days = |program, test: &str| (100..104).filter(|day| selection(*day, &[]).chooses(program, test)).count();
        for case in ["turns::a", "turns::b", "groups::c", "limits::d"] {
            assert_eq!(days("tests/conformance", &format!("on_valkey_cluster::{case}")), 1);
            assert_eq!(days("tests/conformance", &format!("on_redis::{case}")), 4);
            assert_eq!(days("tests/features", &format!("on_valkey::{case}")), 4);
        }
    }

    #[test]
    fn a_change_adds_the_suites_of_its_folder_and_the_cases_that_it_edits() {
        let days =
            |changed: &str, test: &str| (100..104).filter(|day| selection(*day, &[changed]).chooses("tests/conformance", test)).count();
        assert_eq!(days("queue-core/src/redis/connection/cluster.rs", "on_valkey_cluster::turns::a"), 4);
        assert_eq!(days("queue-core/src/redis/connection/cluster.rs", "on_valkey::turns::a"), 1);
        let diff =
            "@@ -1 +1 @@ pub async fn edited(bed: Bed) {\n-a\n+b\n@@ -9,0 +10,2 @@ fn helper() {\n+pub async fn added(bed: Bed) {\n+}";
        let chosen = |day, case| {
            Selection { cases: cases_of(diff), ..selection(day, &[]) }.chooses("tests/conformance", &format!("on_valkey::turns::{case}"))
        };
        for (case, days) in [("edited", 4), ("added", 4), ("another", 1)] {
            assert_eq!((100..104).filter(|day| chosen(*day, case)).count(), days, "{case}");
        }
        let touched = selection(0, &["tests/tests/features/groups.rs"]);
        assert!(touched.touches("tests/tests/features/main.rs".as_ref(), "groups::on_redis::a_test"));
        assert!(!touched.touches("tests/tests/features/main.rs".as_ref(), "limits::on_redis::a_test"));
        assert!(!touched.touches("tests/tests/cli/main.rs".as_ref(), "groups::a_test"));
    }

    #[test]
    fn a_file_counts_as_changed_if_code_has_changed() {
        let changed = |lines: &str| files_of(&format!("diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n{lines}")).len();
        for (lines, files) in
            [("+    // a comment", 0), ("-use a;\n+pub use b;\n+", 0), ("--- of Lua", 0), ("-a();", 1), ("+    a(); // b", 1)]
        {
            assert_eq!(changed(lines), files, "{lines}");
        }
    }

    #[test]
    fn the_map_names_folders_that_exist_and_tests_that_rotate() {
        for (folder, suites) in ADDED {
            assert!(root().join(folder).exists(), "{folder}");
            for suite in suites {
                let (program, part) = suite.split_once(": ").unwrap();
                assert!(ROTATED.iter().any(|(rotated, start)| *rotated == program && (start.contains(part) || *start == "on_")), "{suite}");
            }
        }
        // Each rotated suite is added by at least one change.
        for (program, start) in ROTATED {
            let adds =
                |suite: &&str| suite.split_once(": ").is_some_and(|(of, part)| of == program && (start.contains(part) || start == "on_"));
            // Rows only rotate, and the pages in a browser are the same on each broker. The whole
            // tier runs all of them.
            assert!(
                program == "rows" || start.contains("in_chromium_on_redis") || ADDED.iter().flat_map(|(_, suites)| *suites).any(adds),
                "{program} {start}"
            );
        }
    }
}

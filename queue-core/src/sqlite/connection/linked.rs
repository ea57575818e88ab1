//! Checks the version of the linked SQLite. Cargo links one version into the whole application, and
//! another library may require an old one.

use crate::error::{Error, Result};

/// Refuses to open a file with a SQLite that has the [WAL-reset
/// bug](https://sqlite.org/wal.html#walresetbug).
pub(crate) fn check() -> Result<()> {
    check_version(rusqlite::version_number(), rusqlite::version())
}

fn check_version(number: i32, version: &str) -> Result<()> {
    // Versions with the fix. Never lower them: a corrupted file loses jobs.
    if matches!(number, 3_044_006..3_045_000 | 3_050_007..3_051_000 | 3_051_003..) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "SQLite {version} is linked in: its WAL-reset bug can corrupt a file that several connections write to; `cargo tree -i libsqlite3-sys` \
         shows which dependency keeps this version; update to sqlx 0.9 or SeaORM 2 and run `cargo update rusqlite \
         libsqlite3-sys`, or use `redis://` (`sqlite://:memory:` works with any version)"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_without_the_fix_are_refused_for_files() {
        for number in [3_007_000, 3_043_002, 3_044_005, 3_045_000, 3_046_000, 3_050_006, 3_051_000, 3_051_002] {
            assert!(check_version(number, "old").is_err(), "{number}");
        }
        for number in [3_044_006, 3_044_999, 3_050_007, 3_050_999, 3_051_003, 3_053_000, 3_054_001, 4_000_000] {
            assert!(check_version(number, "fixed").is_ok(), "{number}");
        }
    }

    #[test]
    fn the_refusal_names_the_version_the_harm_and_the_ways_out() {
        let problem = check_version(3_046_000, "3.46.0").unwrap_err().to_string();
        for part in [
            "3.46.0",
            "corrupt",
            "`cargo tree -i libsqlite3-sys`",
            "sqlx 0.9",
            "SeaORM 2",
            "`cargo update rusqlite libsqlite3-sys`",
            "`redis://`",
        ] {
            assert!(problem.contains(part), "{part}: {problem}");
        }
    }
}

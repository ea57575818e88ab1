//! The commands of the worker binary.

use std::process::Command;

use queue_conformance::{folder::folder, patience};

struct Shell(tempfile::TempDir);

impl Shell {
    /// Exit code, standard output and standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let url = format!("sqlite://{}", self.0.path().join("queue.db").display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_reports"));
        let output = patience::output(command.args(arguments).env("QUEUE_URL", url)).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let (code, stdout, stderr) = self.run(arguments);
        assert_eq!(code, 0, "{arguments:?}: {stderr}");
        stdout
    }
}

#[test]
fn a_schedule_is_added_shown_paused_run_backfilled_and_removed() {
    let shell = Shell(folder());
    let args =
        ["schedules", "add", "nightly-7", "--cron", "0 2 * * *", "--tz", "Europe/Berlin", "--task", "report", "--args", "{\"customer\":7}"];
    let (code, stdout, stderr) = shell.run(&args);
    assert_eq!((code, stdout.as_str()), (0, "reports/nightly-7\n"), "{stderr}");
    assert!(stderr.contains("no live worker serves `reports`: it ticks when one is started"), "{stderr}");
    assert_eq!(shell.ok(&args), "reports/nightly-7\n", "again, and nothing changes");
    let list = shell.ok(&["schedules", "list"]);
    assert!(list.contains("reports/nightly-7") && list.contains("at 02:00") && list.contains("Europe/Berlin"), "{list}");
    let show = shell.ok(&["schedules", "show", "reports/nightly-7"]);
    assert!(show.contains("0 2 * * *: at 02:00 (Europe/Berlin)") && show.contains("report {\"customer\":7}"), "{show}");
    assert_eq!(shell.ok(&["schedules", "next", "reports/nightly-7", "-n", "3"]).lines().count(), 3);
    assert_eq!(shell.ok(&["schedules", "pause", "reports/nightly-7"]), "reports/nightly-7 is paused\n");
    assert!(shell.ok(&["schedules", "list"]).contains("paused"));
    let job = shell.ok(&["schedules", "run", "reports/nightly-7"]);
    assert!(shell.ok(&["jobs", "show", job.trim()]).contains("report"), "{job}");
    let filled =
        shell.ok(&["schedules", "backfill", "reports/nightly-7", "--from", "2026-03-01T00:00:00Z", "--to", "2026-03-07T23:59:59Z"]);
    assert_eq!(filled, "7 ticks, 7 jobs made\n");
    let backfill = |from, to| shell.run(&["schedules", "backfill", "reports/nightly-7", "--from", from, "--to", to]);
    for (from, to, code, words) in [
        ("2026-03-01T00:00:00Z", "2026-03-01T23:59:59Z", 0, "the others exist, or were created by a backfill within the last 24 hours"),
        ("2026-03-01T04:00:00Z", "2026-03-01T05:00:00Z", 0, "reports/nightly-7 has no tick in this time range"),
        ("2026-03-07T00:00:00Z", "2026-03-01T00:00:00Z", 2, "ends before it begins; give the earlier time first"),
        ("2016-03-01T00:00:00Z", "2026-03-01T00:00:00Z", 2, "more than 1000 ticks; choose a shorter span"),
        ("2026-03-01T00:00:00Z", "2126-03-01T00:00:00Z", 2, "ends in the future"),
    ] {
        let (exit, _, stderr) = backfill(from, to);
        assert!(exit == code && stderr.contains(words), "{from} {to}: {exit} {stderr}");
    }
    let paused = shell.ok(&["schedules", "pause", "reports/nightly-7", "--json"]);
    assert_eq!(paused.split_whitespace().collect::<String>(), "{\"schedules\":[{\"changed\":false,\"schedule\":\"reports/nightly-7\"}]}");
    for n in ["0", "1001"] {
        let (code, _, stderr) = shell.run(&["schedules", "next", "reports/nightly-7", "-n", n]);
        assert!(code == 2 && stderr.contains("1..=1000"), "{stderr}");
    }
    assert_eq!(shell.ok(&["schedules", "resume", "reports/nightly-7"]), "reports/nightly-7 ticks again\n");
    let json = shell.ok(&["schedules", "show", "reports/nightly-7", "--json"]);
    assert!(json.contains("\"schedule\": \"reports/nightly-7\"") && json.contains("\"words\": \"at 02:00\""), "{json}");
    assert_eq!(shell.ok(&["schedules", "remove", "reports/nightly-7"]), "reports/nightly-7 is removed\n");
    let (code, _, stderr) = shell.run(&["schedules", "show", "reports/nightly-7"]);
    assert!(code == 3 && stderr.contains("there is no schedule `reports/nightly-7`"), "{code} {stderr}");
}

#[test]
fn an_error_reports_what_is_wrong_where_in_the_expression() {
    let shell = Shell(folder());
    let add = |more: &[&str]| shell.run(&[&["schedules", "add", "n", "--task", "report", "--args", "{\"customer\":7}"], more].concat());
    for (more, words) in [
        (&["--cron", "0 25 * * *"][..], "at column 3: an hour is 0 to 23"),
        (&["--cron", "0 0 30 2 *"], "never"),
        (&["--cron", "0 9 * * *", "--tz", "Europe/Bonn"], "time zone `Europe/Bonn` is not a time zone; write an IANA name"),
        (&["--cron", "0 9 * * *", "--tz", "berlin"], "time zone `berlin` is not a time zone; did you mean `Europe/Berlin`?"),
        (&["--cron", "daily"], "write `@daily`"),
        (&["--cron", "0 9 * * *", "--overlap", "queue"], "buffer_one"),
        (&["--cron", "0 9 * * *", "--catch-up", "all"], "all(100)"),
        (&["--cron", "0 9 * * *", "--every", "5s"], "cannot be used with"),
        (&[], "--cron"),
    ] {
        let (code, _, stderr) = add(more);
        assert!(code == 2 && stderr.contains(words), "{more:?}: {code} {stderr}");
    }
    let (code, _, stderr) = shell.run(&["schedules", "add", "n", "--cron", "@daily", "--task", "report"]);
    assert!(code == 2 && stderr.contains("customer"), "a parameter is missing: {stderr}");
    let (code, _, stderr) = shell.run(&["schedules", "pause", "nightly"]);
    assert!(code == 2 && stderr.contains("QUEUE/NAME"), "{stderr}");
}

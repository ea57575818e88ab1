//! `--dashboard` in a real Chromium.
#![cfg(feature = "dashboard")]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use queue_tests::{browser::Browser, folder::folder, patience::wait_for, process::Process};

/// The text in the output after `before`, up to the next space or quote.
fn said(log: &Path, before: &str) -> String {
    wait_for(&format!("`{before}` in the output"), || {
        let text = fs::read_to_string(log).unwrap();
        let rest = &text[text.find(before)? + before.len()..];
        let end = rest.find([' ', '`', '\n'])?;
        Some(rest[..end].to_owned())
    })
}

fn kill(process: &str) {
    assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
}

#[test]
fn a_run_is_watched_in_chromium_and_a_killed_worker_is_seen() {
    let (folder, cache) = (folder(), folder());
    // One second each, in eight slots: half a minute.
    for number in 0..200 {
        fs::write(folder.path().join(format!("{number:03}")), format!("content {}", number % 150)).unwrap();
    }
    let (log, report) = (cache.path().join("log"), cache.path().join("report"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
    command.args(["--dashboard", "--json"]).arg(folder.path()).env("XDG_CACHE_HOME", cache.path()).env_remove("QUEUE_URL");
    command.stdin(Stdio::null()).stdout(fs::File::create(&report).unwrap()).stderr(fs::File::create(&log).unwrap());
    let mut program = Process::start(&mut command);

    let address = said(&log, "watch it at ");
    let browser = Browser::start();
    browser.open(&address);
    // The run continues while the page is open.
    browser.wait("document.body.innerText.includes('quickstart-')");
    let base = browser.url().trim_end_matches('/').to_owned();
    browser.open(&format!("{base}/jobs?state=retry"));
    // In one read, because the page is updated, and the job runs again soon.
    let link = "return document.body.innerText.includes('the disk hiccups') && \
                [...document.querySelectorAll('a[href*=\"/jobs/\"]')].map(a => a.href)[0] || ''";
    let first = browser.wait_for("a job that waits for another attempt").block_some(|| {
        let link = browser.script(link);
        link.as_str().filter(|link| !link.is_empty()).map(str::to_owned)
    });

    let dead = said(&log, "`kill -9 ");
    browser.open(&format!("{base}/workers"));
    browser.wait(&format!("document.body.innerText.includes('{dead}')"));
    kill(&dead);
    said(&log, &format!("worker {dead} has ended "));
    // The page is updated automatically: the worker is off the list when another one has reclaimed
    // its jobs.
    browser.wait(&format!("!document.body.innerText.includes('{dead}')"));

    browser.open(&first);
    browser.wait("document.body.innerText.includes('done')");
    let timeline = browser.text();
    assert!(timeline.matches("the disk hiccups").count() >= 3, "{timeline}");
    // The report does not depend on the killed worker.
    let written: serde_json::Value = wait_for("the report", || serde_json::from_str(&fs::read_to_string(&report).ok()?).ok());
    assert_eq!(written["files"], 200);
    assert_eq!(written["groups"].as_array().map(Vec::len), Some(50));
    assert!(program.ended().is_none(), "the dashboard stays after the run");
    program.signal("-INT");
    let ended = wait_for("the end of the program", || program.ended());
    assert!(ended.success(), "{ended}: {}", fs::read_to_string(&log).unwrap());
}

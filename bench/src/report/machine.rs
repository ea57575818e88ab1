//! Where it was measured, without a name of anything.

use std::{fs, path::Path, process::Command, thread::available_parallelism};

/// What and how, row by row.
pub(crate) fn facts(server: &Path) -> Vec<(&'static str, String)> {
    let unknown = || "unknown".to_owned();
    let first = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let processor = first("/proc/cpuinfo")
        .and_then(|text| Some(text.lines().find(|line| line.starts_with("model name"))?.split_once(':')?.1.trim().to_owned()));
    let memory = first("/proc/meminfo").and_then(|text| {
        let kib: f64 = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim().trim_end_matches(" kB").parse().ok()?;
        Some(format!("{:.0} GiB", kib / 1024.0 / 1024.0))
    });
    vec![
        ("processor", processor.unwrap_or_else(unknown)),
        ("cores", available_parallelism().map_or_else(|_| unknown(), |cores| cores.to_string())),
        ("memory", memory.unwrap_or_else(unknown)),
        ("kernel", first("/proc/sys/kernel/osrelease").map_or_else(unknown, |release| format!("Linux {release}"))),
        ("Redis", version(server).unwrap_or_else(unknown)),
        ("SQLite", rusqlite::version().to_owned()),
        ("this project", env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

fn version(server: &Path) -> Option<String> {
    let output = Command::new(server).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split_whitespace().find_map(|word| word.strip_prefix("v=")).map(str::to_owned)
}

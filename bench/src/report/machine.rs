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
        (
            "kernel",
            first("/proc/sys/kernel/osrelease").map_or_else(unknown, |release| {
                // What a distributor or a cloud calls its build tells nothing.
                format!("Linux {}", release.split('-').next().unwrap_or(&release))
            }),
        ),
        ("Redis", version(server).unwrap_or_else(unknown)),
        ("SQLite", rusqlite::version().to_owned()),
        ("this project", env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// Whether the machine had much else to do in the last quarter of an hour: what we measure keeps
/// some four threads busy on two cores.
pub(crate) fn is_busy() -> bool {
    let cores = available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let load = fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').nth(2)?.parse::<f64>().ok());
    load.is_some_and(|load| load > 4.0 * cores)
}

fn version(server: &Path) -> Option<String> {
    let output = Command::new(server).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.split_whitespace().find_map(|word| word.strip_prefix("v=")).map(str::to_owned)
}

//! The output for the user.

use std::{
    io::{self, Write},
    path::Path,
    time::Duration,
};

use serde::Serialize;

use crate::store::Group;

/// The report of a run.
pub(crate) struct Report {
    groups: Vec<Group>,
    files: usize,
    jobs_per_second: f64,
}

#[derive(Serialize)]
struct Json {
    groups: Vec<Vec<String>>,
    files: usize,
    bytes_wasted: u64,
    jobs_per_second: f64,
}

impl Report {
    pub(crate) fn new(groups: Vec<Group>, files: usize, elapsed: Duration) -> Self {
        let jobs_per_second = (files as f64 / elapsed.as_secs_f64().max(0.001)).round();
        Report { groups, files, jobs_per_second }
    }

    fn bytes_wasted(&self) -> u64 {
        self.groups.iter().map(|group| group.size * (group.paths.len() as u64 - 1)).sum()
    }

    pub(crate) fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let shown = |group: &Group| group.paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
        let json = Json {
            groups: self.groups.iter().map(shown).collect(),
            files: self.files,
            bytes_wasted: self.bytes_wasted(),
            jobs_per_second: self.jobs_per_second,
        };
        writeln!(out, "{}", serde_json::to_string(&json)?)
    }

    pub(crate) fn write(&self, out: &mut impl Write, folder: &Path, queue: &str) -> io::Result<()> {
        for group in &self.groups {
            writeln!(out, "{} times {} bytes:", group.paths.len(), group.size)?;
            for path in &group.paths {
                writeln!(out, "  {}", path.strip_prefix(folder).unwrap_or(path).display())?;
            }
        }
        let duplicates: usize = self.groups.iter().map(|group| group.paths.len() - 1).sum();
        writeln!(
            out,
            "{} files, {duplicates} duplicates in {} groups, {} bytes wasted, {} jobs per second",
            self.files,
            self.groups.len(),
            self.bytes_wasted(),
            self.jobs_per_second
        )?;
        writeln!(out, "the queue was {queue}")
    }
}

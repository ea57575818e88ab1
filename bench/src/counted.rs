//! The cost of a server's scripts, for each request: in processor time, or in instructions.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use tempfile::TempDir;

use crate::{Error, server::Server, stats::percentile};

/// The function that runs each request for a script, including those by digest and read-only ones.
const RUNS_A_SCRIPT: &str = "evalGenericCommand";

/// The work of a server for scripts.
#[derive(Debug)]
pub(crate) enum Meter<'a> {
    /// A server that measures by processor time: the sum, in microseconds.
    Time(&'a Server),
    /// A server in Valgrind, which writes a file into this folder after each request.
    Instructions(&'a Server, PathBuf),
}

/// The requests for scripts of one part of a figure.
#[derive(Debug)]
pub(crate) struct Lap {
    pub(crate) name: &'static str,
    /// Microseconds, or instructions.
    pub(crate) total: f64,
    /// Instructions of each, where they are counted.
    pub(crate) each: Vec<f64>,
}

impl Lap {
    /// Millions of instructions of the `p`-th percentile.
    pub(crate) fn millions(&self, p: f64) -> f64 {
        percentile(&mut self.each.clone(), p) / 1e6
    }
}

/// Starts a server in Valgrind on the saved data of another one. It counts the instructions of its
/// scripts, and is about fifty times slower.
pub(crate) fn server(program: &Path, saved: &Path) -> Result<(Server, PathBuf), Error> {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return Err("instructions cannot be counted here: this figure needs valgrind".into());
    }
    let folder = TempDir::new()?;
    std::fs::copy(saved, folder.path().join("dump.rdb"))?;
    let counts = folder.path().join("counts");
    std::fs::create_dir(&counts)?;
    let mut command = Command::new("valgrind");
    command
        .args(["--quiet", "--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={RUNS_A_SCRIPT}"))
        .arg(format!("--dump-after={RUNS_A_SCRIPT}"))
        .arg(format!("--callgrind-out-file={}", counts.join("count").display()))
        .arg(program);
    Ok((Server::run(command, folder)?, counts))
}

impl Meter<'_> {
    /// Discards the work up to now.
    pub(crate) fn start(&self) -> Result<(), Error> {
        self.lap("").map(|_| ())
    }

    /// The work since the last call.
    pub(crate) fn lap(&self, name: &'static str) -> Result<Lap, Error> {
        let (Meter::Time(server) | Meter::Instructions(server, _)) = self;
        let (calls, us) = server.scripts()?;
        let Meter::Instructions(_, folder) = self else { return Ok(Lap { name, total: us, each: Vec::new() }) };
        let mut each = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            // The file without a number is written at the end.
            if path.extension().and_then(OsStr::to_str).is_some_and(|number| number.parse::<u64>().is_ok()) {
                each.push(total(&path)?);
                std::fs::remove_file(path)?;
            }
        }
        if each.len() as f64 != calls {
            return Err(
                format!("{calls} scripts were called, and {} counted: has the server no symbol {RUNS_A_SCRIPT}?", each.len()).into()
            );
        }
        Ok(Lap { name, total: each.iter().sum(), each })
    }
}

/// The number of instructions in a file of Valgrind.
fn total(path: &Path) -> Result<f64, Error> {
    let text = std::fs::read_to_string(path)?;
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    Ok(line.ok_or_else(|| format!("{} has no totals", path.display()))?.trim().parse()?)
}

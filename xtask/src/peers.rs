//! Building other projects' queues for `cargo xtask bench peers`. Each is a separate package in
//! `bench/peers`, with its own lock file. None of them is in the workspace, and their builds go to
//! `target/peers`.

use std::{
    fs,
    path::PathBuf,
    process::{Command, Stdio},
};

use crate::run::{cargo, output, root, target};

/// Written in Rust.
const RUST: [&str; 7] = ["apalis-redis", "bullmq-rust", "rusty-sidekiq", "apalis-sqlite", "effectum", "river-sqlite", "river-postgres"];
/// Written for Node.
const NODE: [&str; 1] = ["bullmq-node"];

/// Builds the named peers, or all if none is named. Returns `NAME=PROGRAM` of each that can run,
/// and removes the names of the others. Other names, such as figures, are ignored.
pub(crate) fn build(names: &mut Vec<String>) -> Vec<String> {
    let any = RUST.iter().chain(&NODE).any(|peer| names.iter().any(|name| name == peer));
    let mut programs = Vec::new();
    for peer in RUST.into_iter().chain(NODE) {
        if any && !names.iter().any(|name| name == peer) {
            continue;
        }
        let built = if NODE.contains(&peer) { build_node(peer) } else { build_rust(peer) };
        match built {
            Ok(program) => programs.push(format!("{peer}={}", program.display())),
            Err(why) => {
                eprintln!("NOT RUN: {peer}: {why}");
                names.retain(|name| name != peer);
            }
        }
    }
    programs
}

fn build_rust(peer: &str) -> Result<PathBuf, String> {
    eprintln!("building {peer}");
    let target = folder();
    let mut command = cargo();
    command.args(["build", "--quiet", "--release", "--locked", "--target-dir"]).arg(&target);
    // One program for both of its stores.
    let package = if peer.starts_with("river-") { "river" } else { peer };
    command.arg("--manifest-path").arg(sources(package).join("Cargo.toml"));
    match command.status() {
        Ok(status) if status.success() => Ok(target.join("release").join(format!("peer-{package}"))),
        Ok(_) => Err("it could not be built; the first time, crates.io must be in reach".to_owned()),
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}

fn build_node(peer: &str) -> Result<PathBuf, String> {
    for program in ["node", "npm"] {
        output(Command::new(program).arg("--version")).ok_or_else(|| format!("there is no {program} on PATH"))?;
    }
    eprintln!("installing {peer}");
    let folder = folder().join(peer);
    let copied = fs::create_dir_all(&folder).and_then(|()| {
        ["package.json", "package-lock.json", "peer.mjs"]
            .into_iter()
            .try_for_each(|file| fs::copy(sources(peer).join(file), folder.join(file)).map(|_| ()))
    });
    copied.map_err(|error| format!("cannot copy it to {}: {error}", folder.display()))?;
    // Not `npm ci`: it refuses a lock without packages for other systems, and all locks that were
    // made behind a mirror lack them.
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    match install.current_dir(&folder).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(folder.join("peer.mjs")),
        Ok(_) => Err("npm could not install it; the first time, its registry must be in reach".to_owned()),
        Err(error) => Err(format!("cannot run npm: {error}")),
    }
}

fn sources(peer: &str) -> PathBuf {
    root().join("bench").join("peers").join(peer)
}

fn folder() -> PathBuf {
    target().join("peers")
}

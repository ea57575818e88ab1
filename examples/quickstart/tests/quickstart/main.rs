//! The quickstart as a real process in a real folder.

mod dashboard;

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

use queue_tests::{
    folder::folder,
    patience::{exit, output, wait_for},
    server::{Kind, Server},
};

/// The files and the cache of one test.
struct Desk {
    folder: tempfile::TempDir,
    cache: tempfile::TempDir,
    queue: Option<String>,
}

impl Desk {
    fn new() -> Self {
        Desk { folder: folder(), cache: folder(), queue: None }
    }

    fn file(&self, name: &str, content: &[u8]) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
        command.arg(self.folder.path()).env("XDG_CACHE_HOME", self.cache.path()).env_remove("QUEUE_URL");
        if let Some(queue) = &self.queue {
            command.env("QUEUE_URL", queue);
        }
        command
    }

    fn json(&self) -> serde_json::Value {
        let output = output(self.command().arg("--json")).unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stdout)))
    }
}

fn groups(report: &serde_json::Value) -> BTreeSet<BTreeSet<String>> {
    let paths = |group: &serde_json::Value| group.as_array().unwrap().iter().map(|path| path.as_str().unwrap().to_owned()).collect();
    report["groups"].as_array().unwrap().iter().map(paths).collect()
}

/// The groups, found by comparing bytes.
fn expected(folder: &Path) -> BTreeSet<BTreeSet<String>> {
    fn walk(folder: &Path, files: &mut Vec<(String, Vec<u8>)>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            if kind.is_dir() && entry.file_name() != "target" {
                walk(&path, files);
            } else if kind.is_file() && entry.metadata().unwrap().len() > 0 {
                files.push((path.to_str().unwrap().to_owned(), fs::read(path).unwrap()));
            }
        }
    }
    let mut files = Vec::new();
    walk(&folder.canonicalize().unwrap(), &mut files);
    let same = |content: &Vec<u8>| files.iter().filter(|file| file.1 == *content).map(|file| file.0.clone()).collect::<BTreeSet<_>>();
    files.iter().map(|file| same(&file.1)).filter(|group| group.len() > 1).collect()
}

fn mixed(desk: &Desk, files: usize) {
    for number in 0..files {
        desk.file(&format!("{}/{number}", number % 7), format!("content {}", number % (files * 4 / 5)).as_bytes());
    }
    desk.file("target/hidden", b"content 1");
    desk.file("empty one", b"");
    desk.file("empty two", b"");
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn its_groups_are_those_of_a_comparison_byte_by_byte() {
    let desk = Desk::new();
    mixed(&desk, 200);
    #[cfg(unix)]
    std::os::unix::fs::symlink(desk.folder.path().join("1"), desk.folder.path().join("a link")).unwrap();
    let report = desk.json();
    assert_eq!(groups(&report), expected(desk.folder.path()));
    assert_eq!(report["files"], 200);
    assert_eq!(
        report["bytes_wasted"].as_u64().unwrap(),
        groups(&report).iter().map(|group| { fs::metadata(group.first().unwrap()).unwrap().len() * (group.len() as u64 - 1) }).sum::<u64>()
    );
    assert!(report["jobs_per_second"].as_f64().unwrap() > 0.0);
    // A second run after a change.
    desk.file("new", b"content 3");
    assert_eq!(groups(&desk.json()), expected(desk.folder.path()));
}

#[test]
fn a_retry_with_backoff_is_seen_and_the_queue_is_named() {
    let desk = Desk::new();
    mixed(&desk, 10);
    let output = output(&mut desk.command()).unwrap();
    assert!(output.status.success());
    assert!(text(&output).contains("tried again"), "{}", text(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains(desk.cache.path().to_str().unwrap()));
}

#[test]
fn an_empty_folder_has_no_duplicates() {
    let report = Desk::new().json();
    assert_eq!((&report["files"], &report["groups"]), (&0.into(), &serde_json::json!([])));
}

#[test]
fn a_folder_that_is_missing_or_a_file_is_refused() {
    let desk = Desk::new();
    desk.file("file", b"x");
    for (name, problem) in [("missing", "cannot be read"), ("file", "is a file")] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quickstart"));
        let output = output(command.arg(desk.folder.path().join(name)).env("XDG_CACHE_HOME", desk.cache.path())).unwrap();
        assert!(!output.status.success() && text(&output).contains(problem), "{}", text(&output));
    }
}

/// Kills the process when it has done a part of the work.
fn kill_in_the_middle(mut child: Child, desk: &Desk) {
    let done = || {
        let store = walk_for(desk.cache.path(), "digests")?;
        let store = rusqlite::Connection::open(store).ok()?;
        store.query_row("SELECT count(*) FROM files WHERE done", [], |row| row.get::<_, u32>(0)).ok()
    };
    wait_for("some of the work to be done", || {
        assert!(child.try_wait().unwrap().is_none(), "it was too fast to be killed");
        done().filter(|done| *done >= 300)
    });
    child.kill().unwrap();
    exit(&mut child);
}

fn walk_for(folder: &Path, prefix: &str) -> Option<std::path::PathBuf> {
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if let Some(found) = walk_for(&path, prefix) {
                return Some(found);
            }
        } else if path.file_name()?.to_str()?.starts_with(prefix) && path.extension()? == "db" {
            return Some(path);
        }
    }
    None
}

fn goes_on_after_a_kill(desk: &Desk) {
    mixed(desk, 5000);
    let child = desk.command().arg("--json").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    kill_in_the_middle(child, desk);
    let report = desk.json();
    assert_eq!(report["files"], 5000);
    assert_eq!(groups(&report), expected(desk.folder.path()));
}

#[test]
fn it_goes_on_where_it_was_after_a_kill() {
    goes_on_after_a_kill(&Desk::new());
}

#[test]
fn it_goes_on_where_it_was_after_a_kill_on_redis() {
    let server = Server::durable(Kind::Redis);
    let mut desk = Desk::new();
    desk.queue = Some(server.url());
    goes_on_after_a_kill(&desk);
}

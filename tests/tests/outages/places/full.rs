//! A broker without room: the worker, `/health`, `status` and `doctor` say so, with figures.

use std::process::Command;

use queue_tests::{
    apart::may_mount,
    on_servers,
    patience::wait_for,
    server::{Kind, Server},
};

use super::scene::Place;

on_servers! {
    a_server_whose_memory_is_used_up_is_reported_everywhere
    a_server_that_refuses_every_write_is_reported_with_its_reason
    a_server_that_begins_to_evict_is_reported_and_can_be_inspected
}

/// Everybody says that it is full, a job at hand is done nevertheless, and when there is room
/// again, everybody says that.
fn is_told_everywhere(place: &Place, fill: impl FnOnce(), free: impl FnOnce(), figures: &str) {
    let worker = place.work();
    assert!(worker.ready().unwrap().contains(r#""full":false"#));
    assert!(!place.ok(&["status"]).contains("FULL"));
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#, "--id", "bo", "--delay", "8s"]);
    fill();
    worker.until_ready("200 OK", r#""full":true"#);
    worker.until_ready("200 OK", figures);
    let (code, _, stderr) = place.run(&["enqueue", "greet", "--args", r#"{"name":"Cy"}"#]);
    assert!(code == 5 && stderr.contains("is full"), "{code}: {stderr}");
    let status = place.ok(&["status"]);
    assert!(status.contains("FULL: new jobs are refused") && status.contains("make room"), "{status}");
    let status: serde_json::Value = serde_json::from_str(&place.ok(&["status", "--json"])).unwrap();
    assert!(status["full"] == true && status["trouble"].is_string() && figures.contains("_bytes"), "{status}");
    let (code, doctor, stderr) = place.run(&["doctor"]);
    assert!(code == 9 && doctor.contains("full: new jobs are refused"), "{code}: {doctor}{stderr}");
    wait_for("the job at hand to be done", || place.is_done("greetings/bo").then_some(()));
    let told = worker.told("the broker is full");
    assert!(told.len() == 1 && told[0].contains("WARN"), "{told:#?}");

    free();
    worker.until_ready("200 OK", r#""full":false"#);
    // It answers a moment before it writes.
    wait_for("the worker to say so", || worker.told("the broker accepts new jobs again").first().map(drop));
    assert_eq!(worker.told("the broker accepts new jobs again").len(), 1);
    assert_eq!(place.run(&["doctor"]).0, 0);
    place.greet("after");
}

async fn a_server_whose_memory_is_used_up_is_reported_everywhere(kind: Kind) {
    let server = Server::start(kind);
    let mut place = Place::new();
    place.url = Some(server.url());
    let limit = |limit: &str| drop(server.command(&["CONFIG", "SET", "maxmemory", limit]));
    is_told_everywhere(&place, || limit("1mb"), || limit("0"), r#""limit_bytes":1048576"#);
}

async fn a_server_that_refuses_every_write_is_reported_with_its_reason(kind: Kind) {
    let server = Server::start(kind);
    let mut place = Place::new();
    place.url = Some(server.url());
    place.greet("bo");
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let status = place.ok(&["status"]);
    assert!(status.contains("READ-ONLY: every write is refused: it has 0 of the 1"), "{status}");
    server.command(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    assert!(!place.ok(&["status"]).contains("READ-ONLY"));
}

async fn a_server_that_begins_to_evict_is_reported_and_can_be_inspected(kind: Kind) {
    let server = Server::start(kind);
    let mut place = Place::new();
    place.url = Some(server.url());
    let worker = place.work();
    server.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    wait_for("the worker to say so", || worker.told("the broker is evicting").first().map(drop));
    let told = worker.told("the broker is evicting");
    assert!(told[0].contains("WARN") && told[0].contains("`allkeys-lru`") && told[0].contains("`noeviction`"), "{told:#?}");
    worker.until_ready("200 OK", "allkeys-lru");
    let status = place.ok(&["status"]);
    assert!(status.contains("EVICTING: it drops jobs when its memory is full") && status.contains("noeviction"), "{status}");
    let (code, doctor, stderr) = place.run(&["doctor"]);
    assert!(code == 9 && doctor.contains("evicting: it drops jobs"), "{code}: {doctor}{stderr}");
    // Who relies on it is refused.
    let (code, _, stderr) = place.run(&["enqueue", "greet", "--args", r#"{"name":"Cy"}"#]);
    assert!(code == 6 && stderr.contains("allkeys-lru"), "{code}: {stderr}");
    server.command(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    wait_for("the end to be told", || worker.told("no longer evicts jobs").first().map(drop));
    assert_eq!(place.run(&["doctor"]).0, 0);
}

/// A worker on a full disk waits until there is room, whether there is a database already or none
/// yet.
#[test]
fn a_full_disk_at_the_start_is_waited_for() {
    if !may_mount(&a_full_disk_at_the_start_is_waited_for) {
        return;
    }
    for has_database in [false, true] {
        let (place, disk, _mount) = small_disk();
        if has_database {
            place.greet("before");
            std::fs::remove_file(disk.join("queue.db-ballast")).unwrap();
        }
        fill(&disk.join("films"));
        let worker = place.begin_to_work();
        wait_for("the worker to say that it waits", || worker.told("the broker does not answer").first().map(drop));
        let told = worker.told("the broker does not answer");
        assert!(told.len() == 1 && told[0].contains("the disk is full"), "{:#?}", worker.told(""));
        std::fs::remove_file(disk.join("films")).unwrap();
        worker.until_ready("200 OK", r#""status":"ok""#);
        wait_for("the end to be told", || worker.told("the broker answers again").first().map(drop));
        assert_eq!(worker.told("the broker answers again").len(), 1);
        place.greet("after");
        wait_for("the job to be done", || place.is_done("greetings/after").then_some(()));
    }
}

/// A small file system in memory.
fn small_disk() -> (Place, std::path::PathBuf, Mount) {
    let mut place = Place::new();
    let disk = place.folder.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=40m", "tmpfs"]).arg(&disk).status().unwrap();
    assert!(mounted.success());
    let mount = Mount(disk.clone());
    place.file = disk.join("queue.db");
    (place, disk, mount)
}

#[test]
fn a_full_disk_is_reported_everywhere() {
    if !may_mount(&a_full_disk_is_reported_everywhere) {
        return;
    }
    let (place, disk, _mount) = small_disk();
    let films = disk.join("films");
    let fill = || {
        fill(&films);
        // The first that finds no room gives the ballast up.
        let payload = format!(r#"{{"name":"{}"}}"#, "x".repeat(60_000));
        wait_for("an enqueue to be refused", || (place.run(&["enqueue", "greet", "--args", &payload]).0 == 5).then_some(()));
        // That is filled, too: by other files.
        self::fill(&disk.join("series"));
    };
    let free = || ["films", "series"].iter().for_each(|name| std::fs::remove_file(disk.join(name)).unwrap());
    is_told_everywhere(&place, fill, free, r#""free_bytes":"#);
}

/// Takes what is left of a disk of 40 MB.
fn fill(path: &std::path::Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(path).unwrap();
    let mut left = 40 << 20;
    for size in [64 * 1024, 4096] {
        while left >= size && file.write(&vec![1; size]).is_ok_and(|written| written > 0) {
            left -= size;
        }
    }
}

struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

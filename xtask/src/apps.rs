//! `cargo xtask apps`: builds and runs the applications in `tests/apps`, which are separate
//! workspaces, and tests the adapters of the outbox in `adapters`. Their dependencies are
//! downloaded the first time.

use std::process::{Command, ExitCode};

use crate::{
    run::{cargo, root, target},
    servers,
};

pub(crate) fn main() -> ExitCode {
    let checked = web()
        .and_then(|()| actix())
        .and_then(|()| oldest_rusqlite())
        .and_then(|()| adapters())
        .and_then(|()| outboxes())
        .and_then(|()| pages());
    match checked {
        Ok(()) => {
            println!("9 passed, 0 failed");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// axum, sqlx 0.8 with its default features, and Redis.
fn web() -> Result<(), String> {
    let port = free_port()?;
    let redis = servers::redis(false)?;
    let mut server = Command::new(redis.program);
    server.args(["--port", &port.to_string(), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]);
    let mut server = server.stdout(std::process::Stdio::null()).spawn().map_err(|error| format!("redis-server: {error}"))?;
    let run = |url: Option<&str>| {
        let mut command = app("axum-sqlx08");
        said(command.args(["run", "--quiet"]).env_remove("QUEUE_URL").envs(url.map(|url| ("QUEUE_URL", url))))
    };
    let ran = || {
        // Without a URL the error has the fix: the application has not enabled SQLite.
        let (succeeded, text) = run(None)?;
        let ways_out = ["set QUEUE_URL", "`cargo add queue-core --features sqlite`"];
        if succeeded || !ways_out.iter().all(|way| text.contains(way)) {
            return Err(format!("axum-sqlx08 without QUEUE_URL does not name both ways out: {text}"));
        }
        let (succeeded, text) = run(Some(&format!("redis://127.0.0.1:{port}")))?;
        if succeeded && text.contains("closed 18") { Ok(()) } else { Err(format!("axum-sqlx08: {text}")) }
    };
    let ran = ran();
    let _ = server.kill();
    let _ = server.wait();
    ran
}

/// actix-web, with SQLite in memory.
fn actix() -> Result<(), String> {
    let (succeeded, text) = said(app("actix").args(["run", "--quiet"]))?;
    if succeeded && text.contains("closed 18") && !text.contains("warning:") { Ok(()) } else { Err(format!("actix: {text}")) }
}

/// The conformance suite on SQLite in memory, and the tests of the test kit, with rusqlite 0.32.1.
fn oldest_rusqlite() -> Result<(), String> {
    let (succeeded, text) = said(app("rusqlite-0.32").args(["test", "--quiet"]))?;
    let results: Vec<&str> = text.lines().filter(|line| line.starts_with("test result: ok") && !line.contains(" 0 passed")).collect();
    println!("{}", results.join("\n"));
    if succeeded && !text.contains("warning:") && !results.is_empty() { Ok(()) } else { Err(format!("rusqlite-0.32: {text}")) }
}

/// The adapters of the outbox for sqlx, with both databases.
fn adapters() -> Result<(), String> {
    let postgres = servers::postgres(false)?;
    for name in ["sqlx-0.8", "sqlx-0.9"] {
        let mut command = in_folder(&["adapters", name]);
        let (succeeded, text) =
            said(command.args(["test", "--quiet", "--all-features"]).env("QUEUE_TEST_POSTGRES_SERVER", &postgres.program))?;
        let passed = text.lines().filter(|line| line.starts_with("test result: ok") && !line.contains(" 0 passed")).count();
        println!("{name}: {passed} test programs passed");
        if !succeeded || text.contains("warning:") || passed == 0 {
            return Err(format!("adapters/{name}: {text}"));
        }
    }
    Ok(())
}

/// An outbox with libraries that have no adapter, through the layer `prepare`.
fn outboxes() -> Result<(), String> {
    for name in ["outbox-sea-orm", "outbox-diesel"] {
        let (succeeded, text) = said(app(name).args(["run", "--quiet"]))?;
        let is_right = text.contains("1 row, then Err(") && text.contains("full for queue `default`");
        if !succeeded || !is_right || text.contains("warning:") {
            return Err(format!("{name}: {text}"));
        }
    }
    Ok(())
}

/// Code blocks of pages with libraries that no other package has: they compile.
fn pages() -> Result<(), String> {
    for name in ["coming-from", "loco"] {
        let (succeeded, text) = said(app(name).args(["check", "--quiet", "--locked"]))?;
        if !succeeded || text.contains("warning:") {
            return Err(format!("{name}: {text}"));
        }
    }
    Ok(())
}

/// Cargo in the folder of an application. It builds into our target folder, which already has most
/// dependencies.
fn app(name: &str) -> Command {
    in_folder(&["tests", "apps", name])
}

fn in_folder(path: &[&str]) -> Command {
    let mut command = cargo();
    command.current_dir(path.iter().fold(root(), |folder, name| folder.join(name))).env("CARGO_TARGET_DIR", target());
    command
}

/// Whether a command succeeded, and its output.
fn said(command: &mut Command) -> Result<(bool, String), String> {
    let output = command.output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok((output.status.success(), text))
}

fn free_port() -> Result<u16, String> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    listener.map(|address| address.port()).map_err(|error| format!("no free port: {error}"))
}

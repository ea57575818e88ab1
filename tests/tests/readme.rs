//! The first lines of the README, word for word, as somebody follows them who has nothing but Rust
//! and a clone.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use queue_tests::{patience::wait_for, process::Process};

/// The folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace").to_owned()
}

/// The first block of code of a language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let fence = format!("\n```{language}\n");
    let start = page.find(&fence).unwrap_or_else(|| panic!("there is no {fence}")) + fence.len();
    let length = page[start..].find("\n```\n").expect("a block ends") + 1;
    &page[start..start + length]
}

/// A folder outside of the workspace with the clone in it, as `queue`. It has the same name in each
/// run, so that a second run builds little.
fn folder() -> PathBuf {
    let mut hasher = DefaultHasher::new();
    root().hash(&mut hasher);
    let folder = std::env::temp_dir().join(format!("queue-readme-{:016x}", hasher.finish()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(root(), folder.join("queue")).unwrap();
    fs::create_dir(folder.join(".cargo")).unwrap();
    fs::write(folder.join(".cargo/config.toml"), profile()).unwrap();
    folder
}

/// The profile of the workspace, so that most dependencies are not built a second time.
fn profile() -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let start = manifest.find("[profile.dev]").expect("the workspace has a profile");
    let end = manifest.find("[profile.release]").expect("the profile of releases is the last one");
    manifest[start..end].to_owned()
}

/// A command of a person who has set nothing up. The versions and the build are those of the
/// workspace: nothing is downloaded.
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("CARGO_NET_OFFLINE", "true").env_remove("QUEUE_URL").env_remove("RUSTFLAGS");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    command.env("CARGO_TARGET_DIR", target);
    command
}

#[test]
fn the_first_lines_of_the_readme_build_and_print_what_it_says() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (commands, program, printed) = (block(&readme, "sh"), block(&readme, "rust,no_run"), block(&readme, "text"));
    assert!(program.lines().count() <= 25, "a main.rs that fits onto a screen");
    let folder = folder();
    let status = command("sh", &folder).args(["-e", "-c", commands]).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{commands}");
    let project = folder.join("hello");
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let dependencies = manifest.split_once("[dependencies]\n").expect("it has dependencies").1;
    assert_eq!(dependencies.lines().count(), 4, "{manifest}");
    fs::write(project.join("src/main.rs"), program).unwrap();
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();

    let built = command("cargo", &project).arg("build").output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success() && !said.contains("warning"), "{said}");
    let out = folder.join("printed");
    let mut run = command("cargo", &project);
    let run = Process::start(run.args(["run", "--quiet"]).stdout(fs::File::create(&out).unwrap()));
    wait_for("what the README says", || (fs::read_to_string(&out).unwrap() == printed).then_some(()));
    let stopped = tokio::runtime::Runtime::new().unwrap().block_on(run.stop());
    assert_eq!(stopped, Some(0), "a signal ends it well");
    fs::remove_dir_all(&folder).unwrap();
}

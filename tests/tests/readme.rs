//! The first lines of the README, and the tutorial, word for word, as somebody follows them who has
//! nothing but Rust and a clone, and for the last step of the tutorial a Redis server.

use std::{
    collections::VecDeque,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use queue_tests::{
    patience::wait_for,
    process::Process,
    server::{Kind, free_port},
};

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

/// A folder outside of the workspace with the clone in it, as `queue`. It has the same name for each
/// test and in each run, so that a second one builds little: one test at a time has it.
struct Folder {
    path: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Folder {
    fn new() -> Folder {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hasher = DefaultHasher::new();
        root().hash(&mut hasher);
        let path = std::env::temp_dir().join(format!("queue-readme-{:016x}", hasher.finish()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        std::os::unix::fs::symlink(root(), path.join("queue")).unwrap();
        fs::create_dir(path.join(".cargo")).unwrap();
        fs::write(path.join(".cargo/config.toml"), profile()).unwrap();
        Folder { path, _alone: alone }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// The profile of the workspace, so that most dependencies are not built a second time.
fn profile() -> String {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let start = manifest.find("[profile.dev]").expect("the workspace has a profile");
    let end = manifest.find("[profile.release]").expect("the profile of releases is the last one");
    manifest[start..end].to_owned()
}

/// A command of a person who has set nothing up. The versions and what is built for other crates are
/// those of the workspace: nothing is downloaded. The programs are in the folder of their project,
/// since an example of ours has the names of those of the tutorial.
fn command(program: &str, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("CARGO_NET_OFFLINE", "true").env("NO_PROXY", "*");
    for variable in ["CARGO_TARGET_DIR", "QUEUE_URL", "RUSTFLAGS", "RUST_LOG"] {
        command.env_remove(variable);
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target folder");
    command.env("CARGO_BUILD_BUILD_DIR", target);
    command
}

#[test]
fn the_first_lines_of_the_readme_build_and_print_what_it_says() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (commands, program, printed) = (block(&readme, "sh"), block(&readme, "rust,no_run"), block(&readme, "text"));
    assert!(program.lines().count() <= 25, "a main.rs that fits onto a screen");
    let folder = Folder::new();
    let status = command("sh", &folder.path).args(["-e", "-c", commands]).stderr(Stdio::null()).status().unwrap();
    assert!(status.success(), "{commands}");
    let project = folder.path.join("hello");
    let manifest = fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let dependencies = manifest.split_once("[dependencies]\n").expect("it has dependencies").1;
    assert_eq!(dependencies.lines().count(), 4, "{manifest}");
    fs::write(project.join("src/main.rs"), program).unwrap();
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();

    let built = command("cargo", &project).arg("build").output().unwrap();
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success() && !said.contains("warning"), "{said}");
    let out = folder.path.join("printed");
    let mut run = command("cargo", &project);
    let run = Process::start(run.args(["run", "--quiet"]).stdout(fs::File::create(&out).unwrap()));
    wait_for("what the README says", || (fs::read_to_string(&out).unwrap() == printed).then_some(()));
    let stopped = tokio::runtime::Runtime::new().unwrap().block_on(run.stop());
    assert_eq!(stopped, Some(0), "a signal ends it well");
}

/// A block of code of a page: its language, or for Rust the file that the text before it names.
#[derive(Debug)]
struct Block {
    place: String,
    text: String,
}

fn blocks(page: &str) -> VecDeque<Block> {
    let (mut blocks, mut open, mut file) = (VecDeque::new(), None::<Block>, String::new());
    for line in page.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                let place = if language.starts_with("rust") { file.as_str() } else { language };
                open = Some(Block { place: place.to_owned(), text: String::new() });
            }
            (None, Some(block)) => block.text = format!("{}{line}\n", block.text),
            (None, None) => {
                let code = line.split('`').skip(1).step_by(2);
                file = code.filter(|code| code.contains("src/") && code.ends_with(".rs")).last().map_or(file, str::to_owned);
            }
        }
    }
    blocks
}

/// Somebody who follows a page, with a terminal for each program that runs on.
struct Reader {
    /// These end before their folder is removed.
    running: Vec<(String, Process)>,
    folder: Folder,
    page: String,
    blocks: VecDeque<Block>,
    /// What each new terminal begins with.
    setup: String,
    /// How much of what these programs printed was seen.
    seen: usize,
}

impl Reader {
    fn new(page: &str) -> Reader {
        let blocks = blocks(page);
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        Reader { running: Vec::new(), folder: Folder::new(), page, blocks, setup: String::new(), seen: 0 }
    }

    fn printed(&self) -> PathBuf {
        self.folder.path.join("printed")
    }

    fn shell(&self, line: &str) -> Command {
        let mut shell = command("sh", &self.folder.path);
        shell.args(["-e", "-c", &format!("{}{line}", self.setup)]);
        shell
    }

    /// The output of a command that has to succeed.
    fn run(&self, line: &str) -> String {
        let output = self.shell(line).output().unwrap();
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{line}: {said}");
        said
    }

    /// The first commands, which make the project.
    fn begin(&mut self) {
        self.type_in();
        fs::copy(root().join("Cargo.lock"), self.folder.path.join("shop/Cargo.lock")).unwrap();
    }

    /// Writes the file of the next block.
    fn write(&mut self) {
        let Block { place, text } = self.blocks.pop_front().expect("there is a block");
        assert!(place.ends_with(".rs"), "no file: {place}");
        let path = self.folder.path.join("shop").join(place);
        fs::create_dir_all(path.parent().expect("it is in a folder")).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Types the next block: what its commands print, but for programs that run on.
    fn type_in(&mut self) -> String {
        let Block { place, text } = self.blocks.pop_front().expect("there is a block");
        assert_eq!(place, "sh", "no commands: {text}");
        let mut said = String::new();
        for line in text.lines() {
            let runs_on = ["cargo run ", "shop-worker dashboard ", "shop-worker work ", " --appendonly "];
            if line.starts_with("cd ") || line.starts_with("export ") {
                self.setup = format!("{}{line}\n", self.setup);
            } else if line == "shop-worker" || runs_on.iter().any(|part| line.contains(part)) {
                if line.starts_with("cargo run ") {
                    // It takes its time, which nothing that waits for the program has to allow for.
                    self.run("cargo build");
                }
                let open = || fs::OpenOptions::new().create(true).append(true).open(self.printed()).unwrap();
                let mut shell = self.shell(&format!("exec {line}"));
                self.running.push((line.to_owned(), Process::start(shell.stdout(open()).stderr(open()))));
            } else {
                said.push_str(&self.run(line));
            }
        }
        said
    }

    /// Waits until a program prints what the page says, after what was seen before.
    fn sees(&mut self, text: &str) {
        assert!(self.page.contains(text), "the page does not say that this is printed: {text}");
        let (printed, seen) = (self.printed(), self.seen);
        let wait = queue_tests::patience::wait(text).seeing(move || fs::read_to_string(&printed).unwrap_or_default());
        let printed = self.printed();
        self.seen += wait.block_some(|| {
            let printed = fs::read_to_string(&printed).unwrap();
            printed[seen..].find(text).map(|at| at + text.len())
        });
    }

    /// Waits until a program prints a word that contains this.
    fn sees_word(&self, part: &str) -> String {
        let word = || {
            let printed = fs::read_to_string(self.printed()).unwrap();
            printed.split_whitespace().find(|word| word.contains(part)).map(str::to_owned)
        };
        wait_for(part, word)
    }

    /// Stops the program of this command.
    fn stop(&mut self, line: &str) {
        let at = self.running.iter().position(|(running, _)| running == line).unwrap_or_else(|| panic!("{line} does not run"));
        let (_, process) = self.running.remove(at);
        let stopped = tokio::runtime::Runtime::new().unwrap().block_on(process.stop());
        assert!(stopped == Some(0) || line == "cargo run --bin shop", "{line}: {stopped:?}");
    }
}

/// Waits until something accepts connections.
fn connects(port: u16) {
    wait_for("a server", || TcpStream::connect(("127.0.0.1", port)).ok());
}

#[test]
fn tasks_in_a_crate_of_their_own_are_those_of_the_worker() {
    let page = fs::read_to_string(root().join("docs/task-crate.md")).unwrap();
    // For a SQLite broker, as the page says.
    let page = ["../queue/queue-core ", "../queue/queue-worker "]
        .iter()
        .fold(page, |page, path| page.replace(path, &format!("{path}--features sqlite ")));
    let mut reader = Reader::new(&page);
    let tree = reader.blocks.pop_front();
    assert!(tree.is_some_and(|tree| tree.place == "text"), "the page begins with the tree of folders");
    reader.begin();
    reader.write();
    reader.write();
    reader.run("cargo build");
    reader.run(r#"target/debug/shop-worker enqueue send_receipt --args '{"order_id":17}'"#);
}

#[test]
fn the_tutorial_does_what_it_says_step_by_step() {
    let [web, probe, dashboard, redis] = [(); 4].map(|()| free_port());
    let server = Kind::Redis.program();
    let page = fs::read_to_string(root().join("docs/tutorial.md")).unwrap();
    // What differs from the page: ports that are free, and a server that ends with the test.
    let page = [
        ("localhost:3000", format!("localhost:{web}")),
        ("127.0.0.1:3000", format!("127.0.0.1:{web}")),
        ("localhost:7080", format!("localhost:{probe}")),
        ("127.0.0.1:7080", format!("127.0.0.1:{probe}")),
        ("127.0.0.1:6379", format!("127.0.0.1:{redis}")),
        ("dashboard --allow-actions", format!("dashboard --allow-actions --bind 127.0.0.1:{dashboard}")),
        ("redis-server --appendonly yes --daemonize yes", format!("{} --appendonly yes --port {redis}", server.display())),
    ]
    .into_iter()
    .fold(page, |page, (theirs, ours)| {
        assert!(page.contains(theirs), "the page lacks {theirs}");
        page.replace(theirs, &ours)
    });
    let mut reader = Reader::new(&page);

    // Step 1.
    reader.begin();
    reader.write();
    reader.write();
    let said = reader.type_in();
    assert!(said.contains("no worker has ever served queue `orders`"), "{said}");
    reader.sees("receipt for order 17 sent to ada@example.com");
    reader.stop("shop-worker");

    // Step 2.
    reader.write();
    reader.type_in();
    reader.sees("the job has failed and will run again");
    reader.sees("the job has failed and will run again");
    reader.sees("the job is a dead letter and will not run again");
    reader.stop("shop-worker");
    let said = reader.type_in();
    assert!(said.contains("`bob` is not an address"), "{said}");
    reader.type_in();
    reader.sees("receipt for order 18 sent to bob@example.com");
    reader.stop("shop-worker");

    // Step 3.
    reader.write();
    reader.type_in();
    reader.type_in();
    connects(web);
    let order = reader.blocks[0].text.clone();
    let answer = reader.type_in();
    assert!(answer.contains("202 Accepted"), "{answer}");
    reader.sees("receipt for order 19 sent to eve@example.com");
    for (order, status) in [(order.clone(), "202 Accepted"), (order.replace("eve@", "adam@"), "409 Conflict")] {
        let answer = reader.run(&order);
        assert!(answer.contains(status), "{answer}");
    }

    // Step 4.
    reader.type_in();
    let address = reader.sees_word("?token=");
    let overview = reader.run(&format!("curl -sSfL -c cookies '{address}'"));
    assert!(overview.contains("Overview"), "{overview}");

    // Step 5.
    reader.stop("cargo run --bin shop-worker");
    reader.write();
    reader.type_in();
    wait_for("the schedule", || reader.run("shop-worker schedules list").contains("daily_report").then_some(()));
    reader.type_in();
    let Block { text: reason, .. } = reader.blocks.pop_front().expect("the page has the answer of `why`");
    let (reason, _) = reason.split_once("until ").expect("the reason ends");
    wait_for(reason, || reader.run("shop-worker jobs why orders/receipt-21").contains(reason).then_some(()));
    // Each of these once, and the last one not yet.
    let lines = ["report of 1 days, for ", "receipt for order 19 ", "receipt for order 20 ", "receipt for order 21 "];
    let counts = || lines.map(|line| fs::read_to_string(reader.printed()).unwrap().matches(line).count());
    wait_for("the receipt and the report", || (counts() == [1, 1, 1, 0]).then_some(()));

    // Step 6.
    for program in ["shop-worker", "cargo run --bin shop"] {
        reader.stop(program);
    }
    reader.type_in();
    reader.type_in();
    connects(web);
    connects(probe);
    let question = reader.blocks[0].text.clone();
    wait_for("the worker to be ready", || reader.run(&question).contains(r#""status":"ok""#).then_some(()));
    reader.type_in();
    reader.run(&order);
    let twice = || fs::read_to_string(reader.printed()).unwrap().matches("receipt for order 19 ").count() == 2;
    wait_for("the receipt", || twice().then_some(()));
    assert!(reader.blocks.is_empty(), "{:?}", reader.blocks);
}

//! The command line of a worker binary in a shell.

use std::{
    io::{Read, Write},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

use queue_tests::{
    folder::folder,
    patience::{Lines, WatchBroker, finished, output, wait_for},
    server::{Kind, Server, free_port},
};
use serde_json::Value;
use tempfile::TempDir;

/// A folder with a separate queue.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Place { folder: folder() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("queue.db")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop_worker"));
        command.args(arguments).current_dir(self.folder.path()).env_remove("SHOP_NAME").env_remove("RUST_LOG");
        command.env("QUEUE_URL", format!("sqlite://{}", self.file().display()));
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&output(&mut self.command(arguments)).unwrap())
    }

    /// The output of a command, which must succeed.
    fn ok(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, 0, "{arguments:?}: {}", ended.stderr);
        ended.stdout.trim_end().to_owned()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.ok(arguments)).unwrap()
    }

    fn state(&self, job: &str) -> String {
        let ended = self.run(&["jobs", "show", job, "--json"]);
        match ended.code {
            0 => serde_json::from_str::<Value>(&ended.stdout).unwrap()["state"].as_str().unwrap().to_owned(),
            3 => "gone".to_owned(),
            code => panic!("{code}: {}", ended.stderr),
        }
    }

    /// Runs a worker until a job is in this state.
    fn work_until(&self, job: &str, state: &str) {
        let worker = Working(self.command(&["work"]).env("SHOP_NAME", "Ada").stderr(Stdio::null()).spawn().unwrap());
        wait_for(&format!("`{job}` to be {state}"), || (self.state(job) == state).then_some(()));
        assert_eq!(worker.stop(), 0);
    }
}

struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ended { code: output.status.code().unwrap(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }
}

/// A worker process that ends with the test.
struct Working(Child);

impl Working {
    fn signal(&self) {
        let status = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    fn stop(mut self) -> i32 {
        self.signal();
        wait_for("the worker to stop", || self.0.try_wait().unwrap()).code().unwrap()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn help_has_examples_with_the_name_of_the_program() {
    let place = Place::new();
    for command in [
        &["--help"][..],
        &["enqueue", "--help"],
        &["jobs", "requeue", "--help"],
        &["jobs", "promote", "--help"],
        &["queues", "pause", "--help"],
        &["tasks", "pause", "--help"],
        &["status", "--help"],
        &["workers", "--help"],
        &["failures", "--help"],
        &["jobs", "wait", "--help"],
    ] {
        let help = place.ok(command);
        assert!(help.contains("Examples:") && help.contains("shop_worker "), "{help}");
        assert!(!help.contains("{bin}"), "{help}");
    }
    assert!(place.ok(&["--help"]).contains("Exit codes:"));
    assert!(!place.file().exists(), "help opens no queue");
}

/// The completions of bash for a line, like after the tab key.
fn completed(place: &Place, url: &str, line: &str) -> String {
    let script = place.folder.path().join("completions");
    std::fs::write(&script, place.ok(&["completions", "bash"])).unwrap();
    // An interactive bash reports why it has no completions. The script must not.
    let asks = r#"source "$1"; COMP_LINE=$2; COMP_POINT=${#2}
        "$(complete -p shop_worker | sed 's/.*-F \([^ ]*\).*/\1/')" "$3"
        echo "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    bash.args(["-c", asks, "bash"]).arg(&script).args([line, env!("CARGO_BIN_EXE_shop_worker")]);
    let output = output(bash.current_dir(place.folder.path()).env("QUEUE_URL", url)).expect("bash can be started");
    let Ended { stdout, stderr, .. } = Ended::of(&output);
    assert_eq!(stderr, "", "behind `{line}`");
    stdout.trim().to_owned()
}

#[test]
fn a_shell_completes_commands_and_options() {
    let place = Place::new();
    let completed = |line: &str| completed(&place, &format!("sqlite://{}", place.file().display()), line);
    assert_eq!(completed("shop_worker sche"), "schedules");
    assert_eq!(completed("shop_worker --url sqlite://other.db jobs sea"), "search");
    assert_eq!(completed("shop_worker jobs cancel --dry"), "--dry-run");
    assert_eq!(completed("shop_worker limits --qu"), "--queue", "a noun without a verb lists");
    assert_eq!(completed("shop_worker jobs list --state de"), "dead");
    assert_eq!(completed("shop_worker completions "), "bash zsh fish");
    assert_eq!(completed("shop_worker enqueue gre"), "greet", "tasks of the program need no broker");
    assert_eq!(completed("shop_worker queues pause "), "");
    assert!(!place.file().exists() && !place.folder.path().join("other.db").exists(), "a completion makes no database");
    for shell in ["zsh", "fish"] {
        let script = place.ok(&["completions", shell]);
        assert!(script.contains("shop_worker") && !script.contains("{bin}") && !script.contains("{function}"), "{script}");
    }
    let unknown = place.run(&["completions", "tcsh"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("bash"), "{}", unknown.stderr);
}

#[test]
fn a_shell_completes_names_that_the_broker_has() {
    let redis = Server::start(Kind::Redis);
    let place = Place::new();
    for url in [format!("sqlite://{}", place.file().display()), redis.url()] {
        let ok = |arguments: &[&str]| place.ok(&[&["--url", &url], arguments].concat());
        ok(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#, "--queue", "mail", "--id", "bo-1", "--group", "acme", "--unique-key", "bo"]);
        ok(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#, "--queue", "orders"]);
        ok(&["limits", "set", "mail/smtp", "--concurrency", "4", "--new"]);
        ok(&["schedules", "add", "nightly", "--cron", "0 3 * * *", "--task", "greet", "--args", r#"{"name":"Bo"}"#, "--queue", "mail"]);
        ok(&["tasks", "pause", "mail/send_all"]);
        ok(&["topics", "subscribe", "billing@paid", "--from", "start"]);
        ok(&["queues", "drain", "orders", "--yes", "--detach"]);
        let completed = |line: &str| completed(&place, &url, &format!("shop_worker {line}"));
        assert_eq!(completed("queues pause o"), "orders");
        assert_eq!(completed("queues pause orders ma"), "mail", "a repeated argument");
        assert_eq!(completed("status --queue or"), "orders");
        assert_eq!(completed("status --queue=or"), "orders", "bash keeps the part before `=`");
        assert_eq!(completed("groups show m"), "mail/", "the queue comes first");
        assert_eq!(completed("groups pause mail/"), "mail/acme");
        assert_eq!(completed("limits set mail/s"), "mail/smtp");
        assert_eq!(completed("schedules run mail/"), "mail/nightly");
        assert_eq!(completed("tasks resume mail/send"), "mail/send_all");
        assert_eq!(completed("jobs show mail/bo"), "mail/bo-1");
        assert!(completed("keys release mail/").starts_with("mail/"));
        assert!(completed("operations show orders/").starts_with("orders/"));
        assert_eq!(completed("topics show pa"), "paid");
        assert_eq!(completed("topics rewind billing@"), "paid", "bash keeps the part before `@`");
        assert_eq!(completed(&format!("--url {url} queues pause o")), "orders");
    }
    // A broker that does not answer, and one that does not exist.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    assert_eq!(completed(&place, &format!("redis://{}", silent.local_addr().unwrap()), "shop_worker queues pause "), "");
    assert_eq!(completed(&place, &format!("redis://127.0.0.1:{}", free_port()), "shop_worker queues pause "), "");
    assert_eq!(completed(&place, "nonsense://", "shop_worker queues pause "), "");
}

/// Runs a command in a terminal of 80 columns and 24 rows.
#[cfg(target_os = "linux")]
fn in_terminal(place: &Place, arguments: &str) -> Command {
    let mut script = Command::new("script");
    let command = format!("stty cols 80 rows 24; exec {} {arguments}", env!("CARGO_BIN_EXE_shop_worker"));
    script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).current_dir(place.folder.path());
    script
        .env("QUEUE_URL", format!("sqlite://{}", place.file().display()))
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .env_remove("NO_COLOR");
    script.stdin(Stdio::null());
    script
}

#[cfg(target_os = "linux")]
#[test]
fn no_color_turns_the_colors_of_a_terminal_off() {
    let place = Place::new();
    let help = |command: &mut Command| Ended::of(&output(command).expect("a terminal can be opened")).stdout;
    let escape = "\u{1b}[";
    assert!(help(&mut in_terminal(&place, "--help")).contains(escape));
    let plain = help(in_terminal(&place, "--help").env("NO_COLOR", "1"));
    assert!(plain.contains("Examples:") && !plain.contains(escape), "{plain}");
    assert!(!place.ok(&["--help"]).contains(escape), "a pipe is no terminal");
}

#[cfg(target_os = "linux")]
#[test]
fn answers_fit_a_terminal_of_80_columns() {
    let place = Place::new();
    let queue = "a-queue-with-a-long-name".repeat(3);
    let enqueue = |queue: &str| place.ok(&["enqueue", "greet", "--args", r#"{"name":"Bo"}"#, "--queue", queue]);
    enqueue("mail");
    enqueue(&queue);
    let fits = |said: &str| {
        let lines = said.lines().map(|line| {
            ["\u{1b}[2J", "\u{1b}[H", "\u{1b}[K", "\u{1b}[J", "\r"].iter().fold(line.to_owned(), |line, code| line.replace(code, ""))
        });
        let lines: Vec<String> = lines.collect();
        assert!(lines.len() <= 24 && lines.iter().all(|line| line.chars().count() <= 80), "{}", lines.join("\n"));
        lines.join("\n")
    };
    // The numbers of all columns are shown. Names are shortened to the available space.
    let status = fits(&Ended::of(&output(&mut in_terminal(&place, "status")).expect("a terminal can be opened")).stdout);
    assert!(
        ["a-queue-with-a-long-name", "mail", "ready", "cancelled", "workers", "lanes"].iter().all(|word| status.contains(word)),
        "{status}"
    );

    let mut again = Working(in_terminal(&place, "status --watch").stdout(Stdio::piped()).spawn().unwrap());
    let (mut said, mut stdout) = (Vec::new(), again.0.stdout.take().unwrap());
    while !said.ends_with(b"\x1b[J") {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap();
        said.extend(byte);
    }
    let shown = fits(&String::from_utf8(said).unwrap());
    assert!(shown.contains("lanes") && shown.contains("mail"), "{shown}");

    let mut watch = in_terminal(&place, "watch --limit 1").stdout(Stdio::piped()).spawn().unwrap();
    wait_for("a transition", || {
        enqueue(&queue);
        watch.try_wait().unwrap()
    });
    let mut said = String::new();
    watch.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(fits(&said).contains("new -> ready"), "{said}");
}

#[test]
fn the_tables_of_an_outbox_are_printed() {
    let place = Place::new();
    let postgres = place.ok(&["outbox", "init", "--dialect", "postgres", "--schema", "tenant_7"]);
    assert!(postgres.contains("CREATE TABLE \"tenant_7\".queue_outbox ("), "{postgres}");
    assert!(place.ok(&["outbox", "init", "--dialect", "sqlite"]).contains("CREATE TABLE main.queue_outbox ("));
    for wrong in [&["--dialect", "mysql"][..], &["--dialect", "postgres", "--schema", "a b"]] {
        let ended = place.run(&[&["outbox", "init"], wrong].concat());
        assert_eq!(ended.code, 2, "{}", ended.stderr);
    }
}

/// It needs only the database: no broker is reachable here.
#[test]
fn rows_of_an_outbox_are_listed_and_repaired() {
    use queue_outbox::sqlite::EnqueueAllIn;

    let place = Place::new();
    let path = place.folder.path().join("app.db");
    let mut connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(&queue_outbox::Dialect::Sqlite.migration("main").unwrap()).unwrap();
    let outbox = queue_outbox::Outbox::sqlite(&connection).unwrap();
    let tx = connection.transaction().unwrap();
    let job = || queue_core::RawJob::new("greet", vec![0x80]).queue("mail");
    let ids = vec![job(), job(), job()].enqueue_all_in(&outbox, &tx).unwrap();
    tx.commit().unwrap();
    connection.execute("UPDATE queue_outbox SET refused = 'another job has its id' WHERE seq = 1", ()).unwrap();
    let run = |arguments: &[&str]| {
        let (verb, rest) = arguments.split_first().unwrap();
        let arguments = [&["outbox", verb, "--database", path.to_str().unwrap()], rest].concat();
        Ended::of(&output(place.command(&arguments).env("QUEUE_URL", "redis://127.0.0.1:1")).unwrap())
    };
    let json = |arguments: &[&str]| -> Value {
        let ended = run(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let queue = &json(&["list"])["queues"][0];
    assert_eq!((&queue["queue"], &queue["waiting"], &queue["refused"]), (&"mail".into(), &2.into(), &1.into()));
    assert!(queue["oldest_ms"].is_u64() && queue["leased"] == false && queue["broker"].is_null(), "{queue}");
    let table = run(&["list", "--queue", "mail", "--refused"]).stdout;
    assert!(
        table.contains(&ids[0].id.to_string()) && table.contains("refused: another job has its id") && table.lines().count() == 2,
        "{table}"
    );
    assert_eq!(json(&["list", "--queue", "mail", "--limit", "1"])["rows"][0]["task"], "greet");
    let row = |seq: usize| format!("{seq}/{}", ids[seq - 1].id);
    assert_eq!(json(&["retry", "mail"])["rows"], serde_json::json!([row(1)]));
    assert_eq!(json(&["list", "--queue", "mail"])["rows"][1]["row"], row(2).as_str());
    let ended = run(&["drop", "mail", "2", "--yes"]);
    assert!(ended.code == 2 && ended.stderr.contains("write its number, `/` and the id of its job"), "{}", ended.stderr);
    let ended = run(&["drop", "mail", &row(2)]);
    assert!(ended.code == 2 && ended.stderr.contains("add --yes to confirm"), "{}", ended.stderr);
    let ended = run(&["drop", "mail", &row(2), "3/other", "--yes"]);
    assert!(
        ended.code == 3 && ended.stdout.contains("1 row dropped") && ended.stderr.contains("already sent: 3/other"),
        "{}",
        ended.stderr
    );
    let in_flight =
        "INSERT INTO queue_relay (queue, broker, producer, number, seqs, digest) VALUES ('mail', 'redis://gone', 'p', 7, '1,3', x'00')";
    connection.execute(in_flight, ()).unwrap();
    let ended = run(&["drop", "mail", &row(3), "--yes"]);
    assert!(ended.code == 4 && ended.stderr.contains(&format!("row `{}` is in flight", row(3))), "{}", ended.stderr);
    assert_eq!(run(&["release", "mail"]).code, 2);
    assert_eq!(json(&["release", "mail", "--yes"])["rows"], serde_json::json!([row(1), row(3)]));
    assert_eq!(json(&["list"])["queues"][0]["in_flight"], 0);
    connection.execute_batch("DROP TABLE queue_outbox").unwrap();
    let ended = run(&["list"]);
    assert!(ended.code == 6 && ended.stderr.contains("queue outbox init --dialect sqlite"), "{}", ended.stderr);
}

/// A server that refuses connections without TLS, with a self-signed certificate, and with one of
/// an authority.
#[tokio::test]
async fn an_outbox_in_postgresql_is_reached_with_tls() {
    let place = Place::new();
    let server = queue_tests::postgres::Postgres::start();
    let url = server.database().await;
    let admin = queue_tests::postgres::connect(&url).await;
    admin.batch_execute(&queue_outbox::Dialect::Postgres.migration("public").unwrap()).await.unwrap();
    // The server writes the files, so that they belong to its user.
    let write = async |name: &str, text: &str| {
        let sql = format!("COPY (SELECT unnest(string_to_array('{}', E'\n'))) TO PROGRAM 'umask 077; cat > {name}'", text.trim());
        admin.batch_execute(&sql).await.unwrap();
    };
    let loaded = async || admin.query_one("SELECT pg_conf_load_time()::text", &[]).await.unwrap().get::<_, String>(0);
    let reload = async || {
        let before = loaded().await;
        admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        queue_tests::patience::until("the server to read its settings again", async || loaded().await != before).await;
    };
    let names = || rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let own = names().self_signed(&key).unwrap().pem();
    write("server.key", &key.serialize_pem()).await;
    write("server.crt", &own).await;
    admin.batch_execute("ALTER SYSTEM SET ssl = on").await.unwrap();
    write("pg_hba.conf", "hostssl all all all trust").await;
    reload().await;
    let file = |name: &str, pem: &str| {
        let path = place.folder.path().join(name);
        std::fs::write(&path, pem).unwrap();
        path.display().to_string()
    };
    let own = file("own.pem", &own);
    let by_name = url.replace("127.0.0.1", "localhost");
    let list = |url: &str, parameters: &str| place.run(&["outbox", "list", "--database", &format!("{url}?{parameters}")]);
    let is_reached = |url: &str, parameters: &str| {
        let ended = list(url, parameters);
        assert_eq!(ended.code, 0, "{parameters}: {}", ended.stderr);
    };
    let is_refused = |url: &str, parameters: &str, fix: &str| {
        let ended = list(url, parameters);
        assert!(ended.code != 0 && ended.stderr.contains(fix), "{parameters}: {}", ended.stderr);
    };
    is_refused(&url, "sslmode=disable", "no encryption");
    is_reached(&url, "sslmode=require");
    is_reached(&url, "application_name=x&sslmode=prefer");
    is_refused(&by_name, "sslmode=verify-full", "`sslrootcert=FILE`");
    is_reached(&url, &format!("sslmode=verify-ca&sslrootcert={own}"));
    is_reached(&by_name, &format!("sslmode=verify-full&sslrootcert={own}"));
    is_refused(&url, &format!("sslmode=verify-full&sslrootcert={own}"), "use `sslmode=verify-ca`");
    is_refused(&url, "sslmode=verify-ca&sslrootcert=none.pem", "sslrootcert `none.pem` cannot be read");
    is_refused(&url, "sslmode=always", "sslmode `always` is unknown; use disable");

    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let authority = file("authority.pem", &ca.self_signed(&ca_key).unwrap().pem());
    let signed = names().signed_by(&key, &rcgen::Issuer::new(ca, ca_key)).unwrap().pem();
    write("server.crt", &signed).await;
    reload().await;
    is_reached(&url, &format!("sslmode=verify-ca&sslrootcert={authority}"));
    is_reached(&by_name, &format!("sslmode=verify-full&sslrootcert={authority}"));
    is_refused(&url, &format!("sslmode=verify-full&sslrootcert={authority}"), "use `sslmode=verify-ca`");
    is_refused(&by_name, &format!("sslmode=verify-ca&sslrootcert={own}"), "`sslrootcert=FILE`");
}

#[test]
fn tasks_are_listed_with_their_parameters() {
    let place = Place::new();
    let table = place.ok(&["tasks"]);
    assert!(table.contains("greet") && table.contains("name: String, times: Option<u32>"), "{table}");
    let tasks = place.json(&["tasks", "--json"]);
    let greet = tasks["tasks"].as_array().unwrap().iter().find(|task| task["name"] == "greet").unwrap();
    assert_eq!(greet["queue"], "greetings");
    assert_eq!(greet["params"][0], serde_json::json!({"name": "name", "type": "String", "required": true}));
    assert_eq!(greet["timeout_ms"], 30_000);
    assert!(!place.file().exists(), "`tasks` opens no queue");
}

#[test]
fn a_job_goes_from_the_command_line_to_its_result() {
    let place = Place::new();
    let job = place.ok(&["enqueue", "greet", "--args", r#"{"name":"Bo","times":2}"#, "--id", "bo"]);
    assert_eq!(job, "greetings/bo");
    let shown = place.json(&["jobs", "show", &job, "--json"]);
    assert_eq!((&shown["state"], &shown["payload"]["name"]), (&"ready".into(), &"Bo".into()));
    assert!(shown["enqueued_at"].as_str().is_some_and(|at| at.starts_with("20")), "{shown}");
    place.work_until(&job, "done");
    let shown = place.json(&["jobs", "show", "bo", "--json"]);
    assert_eq!(shown["result"], "Ada greets Bo, Ada greets Bo");
    let status = place.json(&["status", "--json"]);
    assert_eq!(status["broker"], "sqlite");
    let greetings = status["queues"].as_array().unwrap().iter().find(|queue| queue["queue"] == "greetings").unwrap();
    assert_eq!(greetings["jobs"]["done"], 1);
    assert!(place.ok(&["status"]).contains("greetings"));
}

#[test]
fn parameters_may_come_from_standard_input() {
    let place = Place::new();
    let mut child = place.command(&["enqueue", "greet", "--args", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(br#"{"name":"Cy"}"#).unwrap();
    let ended = Ended::of(&finished(child));
    assert_eq!(ended.code, 0);
    assert!(ended.stdout.starts_with("greetings/"));
}

#[test]
fn a_queue_that_no_worker_has_ever_served_is_reported_and_refused_with_strict() {
    let place = Place::new();
    let enqueue = |further: &[&str]| place.run(&[&["enqueue", "greet", "--args", r#"{"name":"a"}"#], further].concat());
    let refused = enqueue(&["--strict", "--queue", "greetins"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (3, ""), "{}", refused.stderr);
    assert_eq!(place.json(&["queues", "list", "--json"]), serde_json::json!({ "queues": [] }), "nobody has listed it");
    let first = enqueue(&[]);
    assert!(first.code == 0 && first.stderr.contains("no worker has ever served queue `greetings`"), "{}", first.stderr);
    place.work_until(first.stdout.trim(), "done");
    let second = enqueue(&["--strict"]);
    assert_eq!((second.code, second.stderr.as_str()), (0, ""));
    let slip = enqueue(&["--queue", "greetins"]);
    assert!(slip.code == 0 && slip.stderr.contains("Did you mean `greetings`?"), "{}", slip.stderr);
    let refused = enqueue(&["--queue", "greetins", "--strict"]);
    let says = "no worker has ever served queue `greetins`: did you mean `greetings`?; nothing was stored";
    assert!(refused.code == 3 && refused.stderr.contains(says), "{}", refused.stderr);
}

#[test]
fn an_id_may_be_a_mail_address_and_what_was_percent_encoded() {
    let place = Place::new();
    for id in ["ada+news@example.org", "tenant:7:invoice-3", "a%2Fb%20c"] {
        let job = place.ok(&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--id", id]);
        assert_eq!(job, format!("greetings/{id}"));
        assert_eq!(place.state(&job), "ready");
        assert_eq!(place.ok(&["jobs", "cancel", &job]), format!("{job} cancelled"));
    }
}

#[test]
fn a_given_id_makes_one_job_and_another_payload_under_it_is_refused() {
    let place = Place::new();
    let enqueue = |args: &str| place.run(&["enqueue", "close_order", "--args", args, "--id", "o-1", "--json"]);
    let existing = |ended: Ended| serde_json::from_str::<Value>(&ended.stdout).unwrap()["existing"].clone();
    assert_eq!(existing(enqueue(r#"{"order_id":1}"#)), false);
    assert_eq!(existing(enqueue(r#"{"order_id":1}"#)), true);
    let conflict = enqueue(r#"{"order_id":2}"#);
    assert_eq!(conflict.code, 4);
    assert!(conflict.stderr.contains("use another id"), "{}", conflict.stderr);
}

#[test]
fn a_delayed_job_waits_and_reports_for_how_long() {
    let place = Place::new();
    let job = place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#, "--delay", "1h 30m", "--queue", "later"]);
    assert!(job.starts_with("later/"));
    let list = place.ok(&["jobs", "list", "--state", "scheduled"]);
    assert!(list.contains(&job) && list.contains("in 1h 29m") || list.contains("in 1h 30m"), "{list}");
    let listed = place.json(&["jobs", "list", "--state", "scheduled", "--queue", "later", "--json"]);
    assert_eq!(listed["jobs"][0]["job"], job.as_str());
    assert_eq!(listed["jobs"][0]["task"], "close_order");
}

#[test]
fn a_filter_reports_which_jobs_are_listed_and_changed() {
    let place = Place::new();
    for name in ["Ada", "Bob", "Cy"] {
        place.ok(&["enqueue", "greet", "--args", &format!(r#"{{"name":"{name}"}}"#), "--id", name]);
    }
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#, "--delay", "1h"]);
    let listed = |filter: &str| {
        let rows = place.json(&["jobs", "list", filter, "--json"]);
        rows["jobs"].as_array().unwrap().iter().map(|row| row["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed("payload~bob"), ["greetings/Bob"]);
    // Both forms are one filter.
    for command in ["list", "search"] {
        let found = place.ok(&["jobs", command, "task=greet", "--where", "id!=Bob", "--where", "payload~c"]);
        assert!(found.contains("greetings/Cy") && !found.contains("greetings/Ada"), "{found}");
    }
    assert_eq!(listed("task=greet id!=Bob newer=1h"), ["greetings/Ada", "greetings/Cy"]);
    assert_eq!((listed("state=scheduled").len(), listed("task=greet older=1h").len()), (1, 0));
    let cancelled = place.ok(&["jobs", "cancel", "--all", "--state", "ready", "--where", "id~b"]);
    assert_eq!(cancelled, "greetings: 1 ready job cancelled");
    assert_eq!(listed("state=cancelled"), ["greetings/Bob"]);
    // The state does not matter: a job that moves in the meantime is also found.
    let both = place.ok(&["jobs", "cancel", "--all", "--where", "id!=Ada", "--where", "task!=other"]);
    assert_eq!(both, "greetings: 1 job cancelled\norders: 1 job cancelled");
    let again = place.ok(&["jobs", "requeue", "--all", "--where", "state=cancelled", "--where", "id=Bob"]);
    assert_eq!(again, "greetings: 1 cancelled job requeued");
    let none = place.run(&["jobs", "cancel", "--all", "--state", "scheduled,retry"]);
    assert_eq!((none.code, none.stderr.trim_end()), (0, "no job can be cancelled"));
}

#[test]
fn a_search_goes_through_all_queues_and_goes_on_with_its_cursor() {
    let place = Place::new();
    for name in ["Ada", "Bob", "Cy"] {
        place.ok(&["enqueue", "greet", "--args", &format!(r#"{{"name":"{name}"}}"#), "--id", name]);
    }
    place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#, "--delay", "1h"]);
    let search = |arguments: &[&str]| place.json(&[&["jobs", "search"], arguments, &["--json"]].concat());
    let names = |found: &Value| {
        let jobs = found["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["job"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = search(&["attempts=0"]);
    assert_eq!((all["jobs"].as_array().unwrap().len(), &all["examined"], &all["total"]), (4, &4.into(), &4.into()));
    assert_eq!((&all["cursor"], &all["unreadable"]), (&Value::Null, &serde_json::json!([])));
    let first = search(&["task=greet", "--limit", "2"]);
    assert_eq!(names(&first), ["greetings/Ada", "greetings/Bob"]);
    let cursor = first["cursor"].as_str().expect("it goes on");
    // The listed jobs are removed, and another one is added.
    place.ok(&["jobs", "cancel", "greetings/Ada", "greetings/Bob"]);
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"Di"}"#, "--id", "Di"]);
    let rest = search(&["task=greet state=ready", "--queue", "greetings", "--limit", "9"]);
    assert_eq!(names(&rest), ["greetings/Cy", "greetings/Di"]);
    let rest = search(&["task=greet", "--limit", "2", "--after", cursor]);
    assert_eq!(names(&rest)[..2], ["greetings/Cy", "greetings/Di"], "none is passed over, none comes again");
    let bounded = place.run(&["jobs", "search", "id~cy", "--examine", "1"]);
    assert_eq!(bounded.code, 0);
    assert!(bounded.stderr.contains("examined 1 of 5 jobs; continue with --after "), "{}", bounded.stderr);
    let late = place.run(&["jobs", "search", "id~cy", "--timeout", "1ns"]);
    assert_eq!((late.code, late.stderr.contains("examined 5 of 5 jobs")), (0, false), "one page is always examined: {}", late.stderr);
    let late = place.run(&["jobs", "list", "task=none", "--timeout", "1ns"]);
    assert_eq!(late.code, 4, "{}", late.stderr);
    assert!(late.stderr.contains(" of 5 jobs within 1ns; raise --timeout"), "{}", late.stderr);
    assert_eq!(names(&search(&["id=Cy"])), ["greetings/Cy"]);
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"Ed"}"#, "--id", "Ed", "--tag", "order=17", "--tag", "line=a b"]);
    let tagged = search(&["tag.order=17"]);
    assert_eq!(
        (names(&tagged), &tagged["jobs"][0]["tags"]),
        (vec!["greetings/Ed".to_owned()], &serde_json::json!({"order": "17", "line": "a b"}))
    );
    assert_eq!((&tagged["examined"], &tagged["total"]), (&1.into(), &1.into()), "no other job is looked at");
    assert!(place.ok(&["jobs", "show", "greetings/Ed"]).contains("order=17"));
    for limit in ["greetings/mail", "greetings/all"] {
        place.ok(&["limits", "set", limit, "--rate", "9/1s", "--burst", "9", "--new"]);
    }
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"Fi"}"#, "--id", "Fi", "--limit", "mail=a=b", "--limit", "all", "--cost", "3"]);
    let limited: serde_json::Value = serde_json::from_str(&place.ok(&["jobs", "show", "greetings/Fi", "--json"])).unwrap();
    assert_eq!(limited["limits"], serde_json::json!({"mail": "a=b", "all": ""}));
    let nothing = place.run(&["jobs", "search", "state=dead"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""));
    assert!(nothing.stderr.contains("no such job"), "{}", nothing.stderr);
    for (arguments, says) in [
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--tag", "a b=1"][..], "contains ' '"),
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--limit", "mail="], "no key after"),
        (&["jobs", "search", "attemps>3"], "did you mean `attempts`?"),
        (&["jobs", "search", "task=other", "--after", cursor], "belongs to another filter"),
        (&["jobs", "search", "--after", "nothing"], "is not a valid cursor"),
    ] {
        let ended = place.run(arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn mistakes_are_reported_with_advice_and_nothing_is_stored() {
    let place = Place::new();
    for (task, says) in [("gret", "did you mean `greet`?"), ("something_else_entirely", "there are `close_order`, `greet`")] {
        let ended = place.run(&["enqueue", task]);
        assert!(ended.code == 3 && ended.stderr.contains(says), "{}", ended.stderr);
    }
    for (arguments, says) in [
        (&["enqueue", "greet", "--args", "{\"name\":"][..], "is not JSON"),
        (&["enqueue", "greet", "--args", "[1]"], "`name`, `times`"),
        (&["enqueue", "greet"], "parameter `name` is missing"),
        (&["enqueue", "greet", "--args", r#"{"name":"a","tims":1}"#], "parameter `tims` is unknown"),
        (&["enqueue", "greet", "--args", r#"{"name":"a","times":"x"}"#], "parameter `times` does not fit `Option<u32>`"),
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--delay", "10"], "`10s`"),
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--delay", "200years"], "a hundred years"),
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--queue", "a b"], "contains ' '"),
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--max-attempts", "0"], "must be at least 1"),
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--header", "x"], "NAME=VALUE"),
        (&["jobs", "list", "--state", "ded"], "'dead'"),
        (&["jobs", "list", "taks=greet"], "did you mean `task`?"),
        (&["jobs", "list", "send_mail"], "`task=send_mail`"),
        (&["jobs", "cancel", "--all", "--state", "ready", "--where", "older=2"], "`older=2d`"),
        (
            &["jobs", "cancel", "--all", "--state", "dead"],
            "jobs that are dead cannot be cancelled; `jobs cancel --all` takes --state scheduled,",
        ),
        (&["jobs", "cancel", "--all"], "--state"),
        (&["jobs", "promote", "--all"], "--state"),
        (&["jobs", "promote", "--all", "--state", "dead"], "takes --state scheduled, retry"),
        (&["jobs", "delete", "--all", "--state", "active"], "jobs that are active cannot be deleted"),
        (&["jobs", "requeue", "--all", "--where", "task=greet", "--where", "older=2"], "`older=2d`"),
        (&["jobs", "delete", "orders/one", "--yes"], "--all"),
        (&["queues", "pause", "orders", "--until", "25:00"], "a time of day as `09:00` (UTC)"),
        (&["jobs", "requeue", "--all", "--state", "ready"], "takes --state dead, cancelled, expired"),
        (&["jobs", "cancel", "--all", "--where", "state=dead"], "the filter `state=dead` leaves no job that can be cancelled"),
        (&["jobs", "cancel", "--all", "--state", "ready,retry", "--where", "state=held"], "leaves no job that can be cancelled"),
        (&["jobs", "cancel"], "`jobs cancel` needs jobs, as `cancel QUEUE/ID`, or `--all --state STATE`"),
        (&["jobs", "requeue"], "`--all` for all dead jobs, `--all --queue QUEUE` for those of one queue"),
        (&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--id", "a/b"], "percent-encode the rest, as `%2F` for a slash"),
        (&["jbos"], "jobs"),
        (&["status", "--url", "reddis://localhost"], "did you mean `redis://`?"),
    ] {
        let ended = place.run(arguments);
        assert_eq!(ended.code, 2, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{arguments:?}");
    }
    assert_eq!(place.json(&["status", "--json"])["queues"], serde_json::json!([]));
}

/// The queue and the jobs must exist before the confirmation is requested.
#[test]
fn a_preview_reports_how_many_jobs_would_be_removed() {
    let place = Place::new();
    for n in 1..=2 {
        place.ok(&["enqueue", "close_order", "--args", &format!(r#"{{"order_id":{n}}}"#), "--id", &format!("o-{n}")]);
    }
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"a"}"#, "--id", "g"]);
    let delete = |arguments: &[&str]| place.run(&[&["jobs", "delete", "--all"], arguments].concat());
    for (arguments, code, says) in [
        (&["--state", "ready"][..], 2, "error: 3 ready jobs of greetings, orders will be removed permanently; add --yes to confirm\n"),
        (
            &["--state", "ready", "--queue", "orders", "--where", "task=close_order", "--where", "id=o-1"],
            2,
            "error: at most 2 ready jobs of orders that match `task=close_order id=o-1` (--dry-run counts them) will be removed permanently; add --yes to confirm\n",
        ),
        (
            &["--state", "ready", "--where", "queue=greetings"],
            2,
            "error: at most 1 ready job of greetings that matches `queue=greetings` (--dry-run",
        ),
        (&["--state", "ready", "--queue", "ordres"], 3, "error: there is no queue `ordres`: did you mean `orders`?\n"),
        (&["--state", "dead"], 0, "no job is dead\n"),
        (&["--state", "dead", "--where", "task=greet"], 0, "no job is dead and matches the filter\n"),
        (&["--state", "dead", "--json"], 0, ""),
    ] {
        let ended = delete(arguments);
        assert_eq!(ended.code, code, "{arguments:?}: {}", ended.stderr);
        let is_said = if says.is_empty() || says.ends_with('\n') { ended.stderr == says } else { ended.stderr.starts_with(says) };
        assert!(is_said, "{arguments:?}: {}", ended.stderr);
        let nothing = if arguments.contains(&"--json") { "{\"queues\":[]}" } else { "" };
        assert_eq!(ended.stdout.split_whitespace().collect::<String>(), nothing, "{arguments:?}");
    }
    assert_eq!(["orders/o-1", "orders/o-2", "greetings/g"].map(|job| place.state(job)), ["ready", "ready", "ready"]);
    let ended = delete(&["--state", "ready", "--where", "task=close_order", "--where", "id=o-1", "--yes"]);
    assert_eq!((ended.code, ended.stdout.trim_end()), (0, "orders: 1 ready job deleted"), "{}", ended.stderr);
    assert_eq!(["orders/o-1", "orders/o-2", "greetings/g"].map(|job| place.state(job)), ["gone", "ready", "ready"]);
}

#[test]
fn a_job_or_queue_that_is_not_there_has_a_code_of_its_own() {
    let place = Place::new();
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"a"}"#]);
    for (arguments, says) in [
        (&["jobs", "show", "greetings/none"][..], "there is no job `greetings/none`"),
        (&["jobs", "show", "none"], "there is no job `none`"),
        (&["jobs", "cancel", "greetings/none"], "there is no job"),
        (&["jobs", "list", "--queue", "greeting"], "did you mean `greetings`?"),
        (&["queues", "pause", "greetins"], "did you mean `greetings`?"),
    ] {
        let ended = place.run(arguments);
        assert_eq!(ended.code, 3, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(says), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_dead_job_reports_why_and_is_put_back() {
    let place = Place::new();
    let job = place.ok(&["enqueue", "close_order", "--args", r#"{"order_id":7}"#]);
    let wrong = place.run(&["jobs", "requeue", &job]);
    assert_eq!(wrong.code, 4, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("cannot requeue") && wrong.stderr.contains("it is ready"), "{}", wrong.stderr);
    place.work_until(&job, "dead");
    let shown = place.ok(&["jobs", "show", &job]);
    assert!(shown.contains("order 7 is") && shown.contains("failed"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "a terminal must not obey what a job says");
    assert_eq!(place.ok(&["jobs", "requeue", &job]), format!("{job} requeued"));
    assert_eq!(place.state(&job), "ready");
}

#[test]
fn several_jobs_are_repaired_at_once_and_a_missing_one_does_not_stop_the_others() {
    let place = Place::new();
    let jobs: Vec<String> = (0..3).map(|n| place.ok(&["enqueue", "close_order", "--args", &format!(r#"{{"order_id":{n}}}"#)])).collect();
    let ended = place.run(&["jobs", "cancel", &jobs[0], "orders/none", &jobs[1], "--json"]);
    assert_eq!(ended.code, 3);
    let answers = &serde_json::from_str::<Value>(&ended.stdout).unwrap()["jobs"];
    assert_eq!((&answers[0]["done"], &answers[1]["done"], &answers[2]["done"]), (&true.into(), &false.into(), &true.into()));
    assert_eq!(place.state(&jobs[0]), "cancelled");
    assert_eq!(place.state(&jobs[2]), "ready");
    assert_eq!(place.ok(&["jobs", "delete", &jobs[0]]), format!("{} deleted", jobs[0]));
    assert_eq!(place.state(&jobs[0]), "gone");
}

#[test]
fn all_jobs_of_a_state_are_repaired_over_several_pages() {
    let place = Place::new();
    all_of_a_state(&place, &format!("sqlite://{}", place.file().display()));
    let server = Server::start(Kind::Redis);
    all_of_a_state(&place, &server.url());
}

/// Cancels and deletes more jobs than a page of any list.
fn all_of_a_state(place: &Place, url: &str) {
    const JOBS: usize = 20_000;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = queue_core::Client::connect(url).await.unwrap().watched();
        let job = |n| queue_core::RawJob::new("close_order", vec![0x80]).queue("orders").id(format!("o-{n}"));
        let jobs: Vec<_> = (0..JOBS).map(job).collect();
        for jobs in jobs.chunks(500) {
            futures_util::future::try_join_all(jobs.iter().map(|job| client.enqueue_raw(job.clone()))).await.unwrap();
        }
    });
    let at = |arguments: &[&str]| place.ok(&[arguments, &["--url", url]].concat());
    let listed: Value = serde_json::from_str(&at(&["jobs", "list", "--state", "ready", "--limit", "1200", "--json"])).unwrap();
    assert_eq!(listed["jobs"].as_array().unwrap().len(), 1200);
    let part = place.run(&["jobs", "list", "--state", "ready", "--url", url]);
    assert_eq!(part.stdout.lines().count(), 51, "a heading and fifty jobs");
    assert!(part.stderr.contains("--limit"));
    assert_eq!(at(&["jobs", "cancel", "--all", "--state", "ready"]), format!("orders: {JOBS} ready jobs cancelled"));
    assert_eq!(at(&["jobs", "cancel", "--all", "--state", "ready"]), "");
    assert_eq!(
        at(&["jobs", "delete", "--all", "--state", "cancelled", "--queue", "orders", "--yes"]),
        format!("orders: {JOBS} cancelled jobs deleted")
    );
    assert_eq!(at(&["jobs", "list", "--json"]), "{\"jobs\": []}");
}

#[test]
fn jobs_that_wait_for_a_time_are_promoted_on_every_broker() {
    let place = Place::new();
    promotes(&place, &format!("sqlite://{}", place.file().display()));
    for kind in [Kind::Redis, Kind::Valkey] {
        let server = Server::start(kind);
        promotes(&place, &server.url());
    }
}

fn promotes(place: &Place, url: &str) {
    let run = |arguments: &[&str]| place.run(&[arguments, &["--url", url]].concat());
    let at = |arguments: &[&str]| place.ok(&[arguments, &["--url", url]].concat());
    let json = |arguments: &[&str]| serde_json::from_str::<Value>(&at(&[arguments, &["--json"]].concat())).unwrap();
    let enqueue = |n: u64, queue: &str| {
        at(&["enqueue", "close_order", "--args", &format!(r#"{{"order_id":{n}}}"#), "--delay", "1h", "--queue", queue])
    };
    let jobs: Vec<String> = (0..3).map(|n| enqueue(n, "orders")).collect();
    let other = enqueue(3, "later");
    assert_eq!(at(&["jobs", "promote", &jobs[0]]), format!("{} promoted", jobs[0]));
    let again = run(&["jobs", "promote", &jobs[0], "orders/none", &jobs[1], "--json"]);
    assert_eq!(again.code, 4, "{}", again.stderr);
    assert!(again.stderr.contains("cannot promote") && again.stderr.contains("it is ready"), "{}", again.stderr);
    let answers: Value = serde_json::from_str(&again.stdout).unwrap();
    let done: Vec<&Value> = answers["jobs"].as_array().unwrap().iter().map(|answer| &answer["done"]).collect();
    assert_eq!(done, [false, false, true]);
    let left = &json(&["jobs", "promote", "--all", "--state", "scheduled", "--queue", "orders"])["queues"];
    let told = (&left[0]["queue"], &left[0]["state"], &left[0]["done"], &left[0]["operation"]["state"]);
    assert_eq!(told, (&"orders".into(), &"scheduled".into(), &1.into(), &"completed".into()));
    assert_eq!(at(&["jobs", "promote", "--all", "--state", "retry"]), "");
    assert_eq!(at(&["jobs", "promote", "--all", "--state", "scheduled"]), "later: 1 scheduled job promoted");
    let ready = json(&["jobs", "list", "--state", "ready"]);
    let mut ready: Vec<&str> = ready["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect();
    ready.sort_unstable();
    let mut all: Vec<&str> = jobs.iter().chain([&other]).map(String::as_str).collect();
    all.sort_unstable();
    assert_eq!(ready, all);
}

#[test]
fn a_job_reports_why_it_does_not_run_on_every_broker() {
    let place = Place::new();
    adds_reasons(&place, &format!("sqlite://{}", place.file().display()));
    for kind in [Kind::Redis, Kind::Valkey] {
        let server = Server::start(kind);
        adds_reasons(&place, &server.url());
    }
}

fn adds_reasons(place: &Place, url: &str) {
    let at = |arguments: &[&str]| place.ok(&[arguments, &["--url", url]].concat());
    let json = |arguments: &[&str]| serde_json::from_str::<Value>(&at(&[arguments, &["--json"]].concat())).unwrap();
    let enqueue = |n: u64, more: &[&str]| {
        at(&[&["enqueue", "close_order", "--args", &format!(r#"{{"order_id":{n}}}"#), "--queue", "orders"], more].concat())
    };
    let later = enqueue(0, &["--delay", "1h"]);
    let (first, second) = (enqueue(1, &["--group", "acme"]), enqueue(2, &["--group", "acme"]));
    let why = at(&["jobs", "why", &later]);
    assert!(why.starts_with("it is not due yet; until 2") && why.contains("Z (in "), "{why}");
    assert_eq!(at(&["jobs", "why", &second]), "no live worker serves its queue; `work --queue orders` ends it\nbehind at most 1 other");
    at(&["queues", "pause", "orders"]);
    at(&["groups", "pause", "orders/acme", "--reason", "unpaid", "--until", "2h"]);
    let reasons = &json(&["jobs", "why", &first])["waiting"];
    let names: Vec<&Value> = reasons.as_array().unwrap().iter().map(|reason| &reason["reason"]).collect();
    assert_eq!(names, ["queue_paused", "no_worker", "group_paused"]);
    let text = reasons[2]["text"].as_str().unwrap();
    assert!(reasons[2]["group"] == "acme" && text.starts_with("its group `acme` is paused until ") && text.ends_with(": unpaid"), "{text}");
    assert!(reasons[2]["until"] != Value::Null && reasons[2]["pause"]["reason"] == "unpaid", "{reasons}");
    // In lists, as a filter, in `show` and as counts.
    let rows = &json(&["jobs", "list", "waiting=group_paused"])["jobs"];
    assert_eq!(rows.as_array().unwrap().len(), 2);
    assert_eq!(rows[0]["waiting"][0]["reason"], "queue_paused");
    let table = at(&["jobs", "list", "--queue", "orders"]);
    assert!(table.contains("waiting") && table.contains("queue paused") && table.contains("not due"), "{table}");
    let shown = at(&["jobs", "show", &second]);
    assert!(shown.contains("waits     its queue is paused") && shown.contains("waits     behind at most 1 other\n"), "{shown}");
    let status = json(&["status", "--queue", "orders"]);
    assert_eq!(status["queues"][0]["waiting"], serde_json::json!({"not_due": 1, "queue_paused": 2}));
    assert!(at(&["status"]).contains("orders waits: 2 queue paused"));
    at(&["queues", "resume", "orders"]);
    assert!(at(&["status"]).contains("orders waits: 2 no worker"));
    // The error has the valid values.
    let wrong = place.run(&["jobs", "list", "waiting=group_ful", "--url", url]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("did you mean `group_full`?"), "{}", wrong.stderr);
    let gone = place.run(&["jobs", "why", "orders/none", "--url", url]);
    assert_eq!(gone.code, 3, "{}", gone.stderr);
    assert_eq!(at(&["jobs", "cancel", &later]), format!("{later} cancelled"));
    assert_eq!(at(&["jobs", "why", &later]), "it has ended: cancelled");
}

#[test]
fn failures_that_are_alike_are_one_line_and_their_jobs_run_again() {
    let place = Place::new();
    failures_are_listed(&place, &format!("sqlite://{}", place.file().display()));
    let server = Server::start(Kind::Redis);
    failures_are_listed(&place, &server.url());
}

fn failures_are_listed(place: &Place, url: &str) {
    let at = |command: &[&str]| place.ok(&[command, &["--url", url]].concat());
    let json = |command: &[&str]| place.json(&[command, &["--json", "--url", url]].concat());
    let close = |id: u32| at(&["enqueue", "close_order", "--args", &format!("{{\"order_id\":{id}}}")]);
    let (one, other) = (close(17), close(4711));
    let nobody = at(&["enqueue", "greet", "--args", r#"{"name":"nobody"}"#, "--max-attempts", "1"]);
    let nothing = place.run(&["failures", "--url", url]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "{}", nothing.stderr);
    assert!(nothing.stderr.contains("there are no failures"), "{}", nothing.stderr);
    let worker = Working(place.command(&["work", "--url", url]).env("SHOP_NAME", "Ada").stderr(Stdio::null()).spawn().unwrap());
    wait_for("all to be dead", || {
        let dead = json(&["jobs", "list", "--state", "dead"])["jobs"].as_array().unwrap().len();
        (dead == 3).then_some(())
    });
    // A stopping worker has sent its reports.
    assert_eq!(worker.stop(), 0);
    let rows = &json(&["failures"])["failures"];
    assert_eq!(rows.as_array().unwrap().len(), 2, "{rows}");
    let lost = rows.as_array().unwrap().iter().find(|row| row["queue"] == "orders").unwrap();
    let print = lost["fingerprint"].as_str().unwrap().to_owned();
    assert_eq!((&lost["count"], &lost["tasks"]), (&2.into(), &serde_json::json!({"close_order": 2})), "{lost}");
    assert!(lost["pattern"].as_str().unwrap().starts_with("order * is") && lost["jobs"].as_array().unwrap().len() == 2, "{lost}");
    assert!(lost["last_at"].as_str().unwrap().starts_with("20") && lost["releases"].as_object().unwrap().len() == 1, "{lost}");
    let table = at(&["failures"]);
    assert!(table.contains("fingerprint") && table.contains(&print) && table.contains("there is nobody to greet"), "{table}");
    assert!(!table.contains('\x1b'), "a terminal is not obeyed: {table}");
    assert_eq!(json(&["failures", "--task", "greet"])["failures"].as_array().unwrap().len(), 1);
    assert_eq!(json(&["failures", "--queue", "greetings"])["failures"][0]["jobs"], serde_json::json!([nobody.split_once('/').unwrap().1]));

    // The page of one failure has its commands, and these work.
    let shown = at(&["failures", "show", &print]);
    assert!(shown.contains("close_order 2") && shown.contains(&one) && shown.contains(&other), "{shown}");
    let again = shown.lines().find_map(|line| line.strip_prefix("run again    shop_worker ")).unwrap_or_else(|| panic!("{shown}"));
    let alike = format!("failure={print}");
    assert_eq!(json(&["jobs", "list", &alike])["jobs"].as_array().unwrap().len(), 2);
    assert_eq!(json(&["jobs", "show", &one])["failure"], print.as_str());
    assert!(at(&["jobs", "show", &one]).lines().any(|line| line == format!("failure   {print}")), "{}", at(&["jobs", "show", &one]));
    assert_eq!(at(&again.split(' ').collect::<Vec<_>>()), "orders: 2 dead jobs requeued");
    assert!(place.run(&["jobs", "requeue", "--all", "--where", &alike, "--url", url]).stderr.contains("no job is dead and matches"));

    // The error has the command that lists the failures.
    let unknown = place.run(&["failures", "show", "0123456789abcdef", "--json", "--url", url]);
    assert!(unknown.code == 3 && unknown.stderr.contains("`failures` lists them"), "{}", unknown.stderr);
    for command in [&["failures", "show", "timeout"][..], &["jobs", "list", "failure=timeout"]] {
        let wrong = place.run(&[command, &["--url", url]].concat());
        assert!(wrong.code == 2 && wrong.stderr.contains("16 hexadecimal digits"), "{}", wrong.stderr);
    }
}

#[test]
fn a_shell_waits_for_jobs() {
    let place = Place::new();
    let greet =
        |name: &str, further: &[&str]| place.ok(&[&["enqueue", "greet", "--args", &format!("{{\"name\":\"{name}\"}}")], further].concat());
    let (good, bad) = (greet("Bo", &[]), greet("nobody", &["--max-attempts", "1"]));
    let late = place.run(&["jobs", "wait", &good, "--timeout", "50ms"]);
    assert_eq!((late.code, late.stdout.trim_end()), (4, format!("{good} ready, and has not ended").as_str()), "{}", late.stderr);
    assert!(late.stderr.contains(&format!("not done: {good}")), "{}", late.stderr);
    let waits = Working(place.command(&["jobs", "wait", &good, "--json"]).stdout(Stdio::piped()).spawn().unwrap());
    place.work_until(&bad, "dead");
    let mut waits = waits;
    let status = wait_for("the wait to end", || waits.0.try_wait().unwrap());
    let mut told = String::new();
    waits.0.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    let told = &serde_json::from_str::<Value>(&told).unwrap()["jobs"];
    assert_eq!((status.code(), &told[0]["state"], &told[0]["result"]), (Some(0), &"done".into(), &"Ada greets Bo".into()));
    assert_eq!(place.ok(&["jobs", "wait", &good]), format!("{good} done: \"Ada greets Bo\""));
    let ended = place.run(&["jobs", "wait", &good, &bad]);
    assert_eq!(ended.code, 4);
    assert!(ended.stdout.contains(&format!("{bad} dead: there is nobody to greet")), "{}", ended.stdout);
    assert_eq!(place.run(&["jobs", "wait", "greetings/none"]).code, 3);
}

#[test]
fn the_command_reports_that_a_result_was_too_large_to_keep() {
    let place = Place::new();
    let job = place.ok(&["enqueue", "greet", "--args", r#"{"name":"Ada","times":10000}"#, "--id", "huge"]);
    place.work_until(&job, "done");
    let why = "it has 160003 bytes, at most 65536 are kept; return less, or store it elsewhere and return a reference";
    let waited = place.run(&["jobs", "wait", &job]);
    assert_eq!((waited.code, waited.stdout.trim_end()), (3, format!("{job} done, but its result was dropped: {why}").as_str()));
    assert!(waited.stderr.contains(&format!("the result of job `{job}` was dropped: {why}")), "{}", waited.stderr);
    let waited = place.run(&["jobs", "wait", &job, "--json"]);
    let told = &serde_json::from_str::<Value>(&waited.stdout).unwrap()["jobs"];
    assert_eq!((waited.code, &told[0]["state"], &told[0]["result"]), (3, &"done".into(), &Value::Null));
    assert_eq!(told[0]["result_dropped"], why);
    assert!(place.ok(&["jobs", "show", &job]).contains(&format!("(dropped: {why})")));
    // A copy runs and ends independently.
    let copy = place.ok(&["jobs", "duplicate", &job]);
    assert!(!place.ok(&["jobs", "show", &copy]).contains("dropped"));
}

#[test]
fn a_paused_queue_is_shown_and_resumed() {
    let place = Place::new();
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"a"}"#]);
    assert_eq!(place.ok(&["queues", "pause", "greetings"]), "greetings is paused");
    assert_eq!(place.json(&["queues", "list", "--json"])["queues"][0]["paused"], true);
    place.ok(&["queues", "pause", "greetings", "--reason", "it moves", "--until", "2h"]);
    let shown = place.json(&["queues", "list", "--json"]);
    let pause = &shown["queues"][0]["pause"];
    assert!(pause["reason"] == "it moves" && pause["until"].as_str() > pause["since"].as_str(), "{shown}");
    for command in [&["queues", "list"][..], &["status"]] {
        let table = place.ok(command);
        assert!(table.contains("until 20"), "{table}");
    }
    assert!(place.ok(&["queues", "list"]).contains(": it moves"));
    assert!(place.run(&["doctor"]).stdout.contains("it is paused until 20"));
    let refused = place.run(&["queues", "pause", "greetings", "--until", "2001-01-01T00:00:00Z"]);
    assert!(refused.code != 0 && refused.stderr.contains("is not in the future by the broker's clock"), "{}", refused.stderr);
    let refused = place.run(&["queues", "pause", "greetings", "--until", "soon"]);
    assert!(refused.code == 2 && refused.stderr.contains("neither a duration nor a time"), "{}", refused.stderr);
    let refused = place.run(&["queues", "pause", "greetings", "--reason", &"x".repeat(1025)]);
    assert!(refused.code != 0 && refused.stderr.contains("has 1025 bytes; use at most 1024"), "{}", refused.stderr);
    let row = |paused: bool| serde_json::json!({ "queues": [{ "queue": "greetings", "paused": paused }] });
    assert_eq!(place.json(&["queues", "pause", "greetings", "--json"]), row(true));
    assert_eq!(place.json(&["queues", "resume", "greetings", "--json"]), row(false));
    assert_eq!(place.json(&["queues", "list", "--json"])["queues"][0]["paused"], false);
}

#[test]
fn a_paused_task_is_listed_and_its_jobs_come_back() {
    let place = Place::new();
    let job = place.ok(&["enqueue", "greet", "--args", r#"{"name":"a"}"#]);
    assert_eq!(
        place.ok(&["tasks", "pause", "greetings/greet", "--reason", "it is late", "--until", "2h"]),
        "greetings/greet is paused for 2h"
    );
    let rows = &place.json(&["tasks", "paused", "--json"])["tasks"];
    assert_eq!((&rows[0]["queue"], &rows[0]["task"], &rows[0]["parked"]), (&"greetings".into(), &"greet".into(), &0.into()));
    assert_eq!(rows[0]["pause"]["reason"], "it is late");
    let why = place.ok(&["jobs", "why", &job]);
    assert!(why.starts_with("its task `greet` is paused until 20") && why.contains(": it is late"), "{why}");
    assert!(place.ok(&["tasks", "paused", "--queue", "greetings"]).contains("it is late"));
    let again = place.json(&["tasks", "pause", "greetings/greet", "--json"]);
    assert_eq!(again, serde_json::json!({ "tasks": [{ "queue": "greetings", "task": "greet", "paused": true }] }));
    assert_eq!(place.ok(&["tasks", "resume", "greetings/greet"]), "greetings/greet is resumed");
    assert_eq!(place.json(&["tasks", "paused", "--json"]), serde_json::json!({ "tasks": [] }));
    assert_eq!(place.json(&["tasks", "list", "--json"]), place.json(&["tasks", "--json"]));
    assert!(place.json(&["tasks", "--json"])["tasks"].as_array().is_some_and(|tasks| !tasks.is_empty()), "what this program can run");
    let refused = place.run(&["tasks", "pause", "greeting/greet"]);
    assert!(refused.code == 3 && refused.stderr.contains("did you mean `greetings`?"), "{}", refused.stderr);
}

#[test]
fn the_aging_of_a_queue_is_set_and_shown() {
    let place = Place::new();
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"a"}"#]);
    assert_eq!(place.ok(&["queues", "set", "greetings", "--aging", "60s"]), "a waiting job of greetings rises by one priority every 1m");
    assert_eq!(place.json(&["queues", "list", "--json"])["queues"][0]["aging_ms"], 60_000);
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"b"}"#]);
    let ready = place.json(&["jobs", "list", "--state", "ready", "--json"]);
    let rises: Vec<bool> = ready["jobs"].as_array().expect("a list").iter().map(|job| job["rises_at"].is_string()).collect();
    assert_eq!(rises, [false, true], "the first one waited before");
    assert_eq!(place.ok(&["queues", "set", "greetings", "--aging", "off"]), "waiting jobs of greetings do not rise");
    assert_eq!(place.json(&["queues", "list", "--json"])["queues"][0]["aging_ms"], serde_json::Value::Null);
    for (wrong, told) in
        [("0s", "aging `0s` must be at least 1 ms; write for example `60s`, or `off`"), ("often", "`10s`"), ("60", "`60s`")]
    {
        let refused = place.run(&["queues", "set", "greetings", "--aging", wrong]);
        assert!(refused.code == 2 && refused.stderr.contains(told), "{}", refused.stderr);
    }
}

#[test]
fn workers_are_listed_with_their_release_on_every_broker() {
    let place = Place::new();
    lists_workers(&place, &format!("sqlite://{}", place.file().display()));
    for kind in [Kind::Redis, Kind::Valkey] {
        let server = Server::start(kind);
        lists_workers(&place, &server.url());
    }
}

fn lists_workers(place: &Place, url: &str) {
    let at = |arguments: &[&str]| place.ok(&[arguments, &["--url", url]].concat());
    let json = |arguments: &[&str]| serde_json::from_str::<Value>(&at(&[arguments, &["--json"]].concat())).unwrap();
    at(&["enqueue", "close_order", "--args", r#"{"order_id":1}"#, "--delay", "1h"]);
    assert_eq!((json(&["workers"]), at(&["workers"])), (serde_json::json!({ "workers": [] }), String::new()));
    let start = |queues: &[&str], release: &str| {
        let mut command = place.command(&[&["work", "--url", url], queues].concat());
        if !release.is_empty() {
            command.env("QUEUE_RELEASE", release);
        }
        command.env("SHOP_NAME", "Ada").stdout(Stdio::null()).stderr(Stdio::null());
        Working(command.spawn().unwrap())
    };
    // One worker serves all queues, and one has no configured release.
    let workers = [start(&[], "v42"), start(&["--queue", "orders"], "")];
    let queues = |row: &Value| row["queues"].as_array().unwrap().iter().map(|queue| queue.as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let rows = wait_for("both workers to be in all their queues, and to say what they use", || {
        let rows = json(&["workers"])["workers"].as_array().unwrap().clone();
        let have_said = rows.iter().all(|row| row["load"]["cpu"].is_number());
        (have_said && rows.iter().map(|row| queues(row).len()).sum::<usize>() == 4).then_some(rows)
    });
    let row = |worker: &Working| {
        let found: Vec<&Value> = rows.iter().filter(|row| row["pid"] == worker.0.id()).collect();
        assert_eq!(found.len(), 1, "{rows:?}");
        found[0]
    };
    let (told, digest) = (row(&workers[0]), row(&workers[1]));
    assert_eq!((&told["release"], queues(told)), (&"v42".into(), ["greetings", "orders", "slow"].map(str::to_owned).to_vec()));
    assert_eq!((told["tasks"].clone(), &told["task_count"]), (serde_json::json!(["close_order", "greet", "wait_long"]), &3.into()));
    assert!(digest["release"].as_str().is_some_and(|release| release.starts_with("exe-") && release.len() == 20), "{digest}");
    for row in [told, digest] {
        assert!(row["host"] == told["host"] && !told["host"].as_str().unwrap().is_empty(), "{row}");
        assert!(row["since"].as_str().is_some_and(|since| since.starts_with("20") && since.ends_with('Z')), "{row}");
        assert!(row["lease_age_ms"].as_u64() < Some(30_000) && row["lease_left_ms"].as_u64() > Some(0), "{row}");
        assert!(row["lanes"].as_u64() >= Some(queues(row).len() as u64), "{row}");
        assert_eq!((&row["load"]["busy"], &row["load"]["slots"]), (&0.into(), &64.into()), "{row}");
        assert!(row["load"]["age_ms"].as_u64() < Some(30_000) && row["load"]["cpu"].as_f64() < Some(1.0), "an idle worker: {row}");
        if cfg!(target_os = "linux") {
            assert!((1 << 20..1 << 34).contains(&row["load"]["memory"].as_u64().unwrap()), "{row}");
        }
    }
    let table = at(&["workers"]);
    assert!(table.lines().count() == 3 && table.contains("greetings, orders, slow") && table.contains("v42"), "{table}");
    assert!(!table.contains("lease expired") && table.contains(" ago"), "{table}");
    assert!(table.matches("0/64").count() == 2 && (table.contains(" MiB") || table.contains("unknown")), "{table}");
    // Each worker reports its usage in one of its queues, and it is shown in all of them.
    for (queue, workers) in [("greetings", 1), ("orders", 2), ("slow", 1)] {
        let rows = json(&["workers", "--queue", queue])["workers"].as_array().unwrap().clone();
        assert!(rows.len() == workers && rows.iter().all(|row| row["load"]["slots"] == 64), "{queue}: {rows:?}");
    }
    assert_eq!(place.run(&["workers", "--queue", "order", "--url", url]).code, 3);
    let counted = json(&["status"]);
    for (queue, workers) in [("orders", 2), ("greetings", 1)] {
        let row = counted["queues"].as_array().unwrap().iter().find(|row| row["queue"] == queue).unwrap();
        assert_eq!(row["workers"], workers, "{counted}");
        assert!(row["lanes"].as_u64() >= Some(workers), "{counted}");
    }
    let status = at(&["status"]);
    assert!(status.contains("workers") && status.contains("lanes"), "{status}");
    for worker in workers {
        assert_eq!(worker.stop(), 0);
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let place = Place::new();
    for n in 0..30 {
        place.ok(&["enqueue", "close_order", "--args", &format!(r#"{{"order_id":{n}}}"#)]);
    }
    let mut child = place.command(&["jobs", "list", "--state", "ready"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let ended = Ended::of(&finished(child));
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""));
}

#[test]
fn only_work_runs_the_setup_and_its_failure_is_reported() {
    let place = Place::new();
    place.ok(&["enqueue", "greet", "--args", r#"{"name":"a"}"#]);
    place.ok(&["status"]);
    let ended = place.run(&["work"]);
    assert_eq!(ended.code, 6);
    assert!(ended.stderr.contains("SHOP_NAME is not set"), "{}", ended.stderr);
    let ended = Ended::of(&output(place.command(&["work", "--concurrency", "0"]).env("SHOP_NAME", "Ada")).unwrap());
    assert_eq!(ended.code, 6);
    assert!(ended.stderr.contains("concurrency `0`"), "{}", ended.stderr);
}

#[test]
fn a_broker_that_cannot_be_used_is_reported_with_advice() {
    let place = Place::new();
    let port = free_port();
    let ended = place.run(&["status", "--url", &format!("redis://:geheim@127.0.0.1:{port}")]);
    assert_eq!(ended.code, 5, "{}", ended.stderr);
    assert!(ended.stderr.contains("QUEUE_URL") && !ended.stderr.contains("geheim"), "{}", ended.stderr);
    let folder = place.folder.path().display().to_string();
    let ended = place.run(&["status", "--url", &format!("sqlite://{folder}")]);
    assert_eq!(ended.code, 2, "{}", ended.stderr);
    assert!(ended.stderr.contains("is a folder"), "{}", ended.stderr);
}

#[test]
fn jobs_that_do_not_end_in_the_grace_time_are_given_back_and_the_exit_code_shows_it() {
    let place = Place::new();
    let job = place.ok(&["enqueue", "wait_long"]);
    let mut command = place.command(&["work", "--queue", "slow", "--grace", "100ms"]);
    let mut worker = Working(command.env("SHOP_NAME", "Ada").stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    assert_eq!(Lines::of(worker.0.stdout.take().unwrap()).next(), "waiting");
    assert_eq!(worker.stop(), 7);
    assert_eq!(place.state(&job), "ready");
    let returned = place.json(&["jobs", "show", &job, "--json"]);
    assert_eq!((&returned["returns"], &returned["crashes"], &returned["failures"]), (&1.into(), &0.into(), &0.into()));
    assert!(returned["returned_at"].is_string(), "{returned}");
    let shown = place.ok(&["jobs", "show", &job]);
    assert!(shown.lines().any(|line| line.starts_with("returns") && line.contains("1, last ")), "{shown}");
}

/// A job that runs longer than the time between deployments never ends.
#[test]
fn a_doctor_reports_jobs_that_are_released_again_and_again() {
    let place = Place::new();
    for id in ["long", "longer", "short"] {
        place.ok(&["enqueue", "greet", "--args", "{\"name\":\"Ada\"}", "--id", id]);
    }
    let database = rusqlite::Connection::open(place.file()).unwrap();
    let returned = |id: &str, releases: u32| {
        let name = format!("={id}");
        let row = rusqlite::params![name.as_bytes(), releases];
        database.execute("UPDATE queue_jobs SET returns = ?2, returned = 1700000000000 WHERE id = ?1", row).unwrap();
    };
    returned("long", 3);
    returned("longer", 7);
    returned("short", 2);
    database.execute("INSERT INTO queue_counters (queue, name, value) VALUES (1, 'returned', 12)", []).unwrap();
    let told = place.ok(&["doctor"]);
    let line = told.lines().find(|line| line.contains("stopping workers")).unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains("2 jobs were returned by stopping workers 3 times or more: "), "{line}");
    assert!(line.contains("/longer of task greet 7 times, last ") && line.contains("`--grace`"), "{line}");
    returned("long", 2);
    returned("longer", 2);
    assert!(!place.ok(&["doctor"]).contains("stopping workers"));
}

/// Expired entries that are not removed, and a log that grows because of a long read.
#[test]
fn a_doctor_reports_what_piles_up_in_a_file() {
    let place = Place::new();
    place.ok(&["enqueue", "greet", "--args", "{\"name\":\"Ada\"}"]);
    let database = rusqlite::Connection::open(place.file()).unwrap();
    let marks = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100001)
        INSERT INTO queue_watched (queue, id, until) SELECT 1, CAST(n AS BLOB), 1 FROM n";
    database.execute(marks, []).unwrap();
    let told = place.ok(&["doctor"]);
    assert!(told.contains("more than 100,000 expired entries wait to be removed: marks of callers"), "{told}");
    place.ok(&["topics", "publish", "paid", "OrderPaid", "{\"order\":1}"]);
    let producers = "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100001)
        INSERT INTO queue_producers (queue, name, seen) SELECT topic, 'producer-' || n, 1 FROM n CROSS JOIN queue_topics";
    database.execute(producers, []).unwrap();
    let told = place.ok(&["doctor"]);
    assert!(told.contains("topic paid: more than 100,000 expired entries wait to be removed: producers; start"), "{told}");
    assert!(!told.contains("write-ahead log"), "{told}");

    let reader = rusqlite::Connection::open(place.file()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM queue_jobs").unwrap();
    database.execute_batch("CREATE TABLE large (line BLOB); INSERT INTO large VALUES (zeroblob(70000000)); DROP TABLE large").unwrap();
    let told = place.ok(&["doctor"]);
    let line = told.lines().find(|line| line.contains("its write-ahead log (-wal) has ")).unwrap_or_else(|| panic!("{told}"));
    assert!(!cfg!(target_os = "linux") || line.contains(&format!("process {} reads the file", std::process::id())), "{line}");
    reader.execute_batch("COMMIT").unwrap();
}

#[test]
fn a_doctor_reports_what_is_wrong_and_repairs_it_if_asked() {
    let place = Place::new();
    place.ok(&["enqueue", "greet", "--args", "{\"name\":\"Ada\"}"]);
    let sound = place.json(&["doctor", "--json"]);
    assert_eq!(sound["durability"], "power-loss");
    let problems: Vec<&str> = sound["problems"].as_array().unwrap().iter().map(|problem| problem["problem"].as_str().unwrap()).collect();
    assert_eq!(problems, ["no live worker serves it, and 1 job is waiting"]);
    assert_eq!(sound["problems"][0]["is_fault"], false);
    let advised = place.ok(&["doctor"]);
    assert!(advised.contains("\n- warning: ") && advised.ends_with("1 warning in 1 queue"), "{advised}");
    let help = place.ok(&["doctor", "--help"]);
    assert!(
        help.contains("0 no fault, or every fault is repaired; there may be warnings") && help.contains("9 a fault that is not repaired"),
        "{help}"
    );

    let database = rusqlite::Connection::open(place.file()).unwrap();
    database.execute("UPDATE queue_jobs SET state = 4, rank = 77", []).unwrap();
    let sick = place.run(&["doctor"]);
    assert_eq!(sick.code, 9);
    assert!(sick.stdout.contains("- fault: ") && sick.stdout.contains("held by nobody"), "{}", sick.stdout);
    assert!(
        sick.stdout.contains("; `doctor --repair` repairs it\n") && sick.stdout.ends_with("1 fault, 1 warning in 1 queue\n"),
        "{}",
        sick.stdout
    );
    let repaired = place.ok(&["doctor", "--repair"]);
    assert!(repaired.contains("- repaired: ") && repaired.ends_with("1 fault repaired, 1 warning in 1 queue"), "{repaired}");
    assert_eq!(place.json(&["doctor", "--json"])["problems"], sound["problems"], "the job waits again");
    assert_eq!(place.run(&["doctor", "--queue", "nowhere"]).code, 3);
}

#[test]
fn a_unique_key_is_shown_searched_and_released() {
    let place = Place::new();
    let enqueue = |name: &str| {
        let args = format!("{{\"name\":\"{name}\"}}");
        place.run(&["enqueue", "greet", "--args", &args, "--unique-key", "the guest"])
    };
    let job = enqueue("Ada").stdout.trim_end().to_owned();
    let second = enqueue("Bob");
    assert_eq!((second.code, second.stdout.trim_end()), (0, job.as_str()));
    assert!(second.stderr.contains("unique key"), "{}", second.stderr);
    place.ok(&["enqueue", "greet", "--args", "{\"name\":\"Eve\"}"]);

    let shown = place.json(&["jobs", "show", &job, "--json"]);
    let key = shown["unique"].as_str().unwrap();
    assert_eq!((shown["unique_key"].as_str(), key.len()), (Some("the guest"), 32));
    assert!(place.ok(&["jobs", "show", &job]).contains(&format!("{key} (the guest)")));
    for filter in ["unique=\"the guest\"".to_owned(), format!("unique={key}")] {
        let found = place.json(&["jobs", "list", &filter, "--json"]);
        assert_eq!(
            found["jobs"].as_array().unwrap().iter().map(|job| job["job"].as_str().unwrap()).collect::<Vec<_>>(),
            [job.as_str()],
            "{filter}"
        );
    }

    let quoted = place.ok(&["enqueue", "greet", "--args", "{\"name\":\"Jo\"}", "--unique-key", r#"the "A" team"#]);
    assert_eq!(place.json(&["jobs", "list", r#"unique="the \"A\" team""#, "--json"])["jobs"][0]["job"], quoted);

    let queue = job.split_once('/').unwrap().0;
    assert_eq!(place.ok(&["keys", "release", &format!("{queue}/{key}")]), format!("{job} no longer holds the key"));
    assert!(place.run(&["keys", "release", &format!("{queue}/{key}")]).stderr.contains("no job holds this key"));
    let wrong = place.run(&["keys", "release", &format!("{queue}/the guest")]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("32 hexadecimal digits"), "{}", wrong.stderr);
    assert_ne!(enqueue("Bob").stdout.trim_end(), job);
    let cancelled = place.ok(&["jobs", "cancel", "--all", "--state", "ready", "--where", "unique=\"the guest\""]);
    assert!(cancelled.contains("2 ready jobs cancelled"), "{cancelled}");
    assert!(place.ok(&["status"]).contains("held"));
}

#[test]
fn a_log_is_printed_and_followed_and_progress_is_shown() {
    let place = Place::new();
    let job = place.ok(&["enqueue", "greet", "--args", r#"{"name":"Ada"}"#]);
    let ended = place.run(&["jobs", "logs", &job]);
    assert_eq!((ended.code, &*ended.stdout), (0, ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("its handler has logged nothing"), "{}", ended.stderr);
    // The followers start before the worker, and end with the job.
    let follows =
        |json: &[&str]| place.command(&[&["jobs", "logs", &job, "--follow"], json].concat()).stdout(Stdio::piped()).spawn().unwrap();
    let followers = [follows(&[]), follows(&["--json"])];
    let work = ["work", "--job-log", "info"];
    let worker = Working(place.command(&work).env("SHOP_NAME", "Bob").stderr(Stdio::null()).spawn().unwrap());
    let [text, json] = followers.map(|follower| Ended::of(&finished(follower)));
    assert_eq!((text.code, json.code), (0, 0));
    assert_eq!(worker.stop(), 0);
    for line in ["info  looks for Ada", "info  found shop=Bob", "50 % greeting Ada"] {
        assert!(text.stdout.contains(line), "no `{line}`: {}", text.stdout);
    }
    let news: Vec<Value> = json.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(news.last().unwrap()["progress"]["message"], "greeting Ada");
    assert_eq!(news[0]["lines"][0]["text"], "looks for Ada");
    let printed = place.ok(&["jobs", "logs", &job]);
    assert!(printed.contains("looks for Ada") && !printed.contains('%'), "{printed}");
    let log = place.json(&["jobs", "logs", &job, "--json"]);
    assert_eq!((log["lines"][0]["level"].as_str(), log["next"].as_u64(), log["dropped"].as_u64()), (Some("info"), Some(2), Some(0)));
    // The job has ended, so this is no longer its progress.
    let shown = place.ok(&["jobs", "show", &job]);
    let has = |text: &str| shown.contains(text);
    assert!(has("last report") && has("50 % greeting Ada, ") && has("(attempt 1)") && !has("progress"), "{shown}");
    assert_eq!(place.json(&["jobs", "show", &job, "--json"])["progress"]["fraction"], 0.5);
    assert_eq!(place.run(&["jobs", "logs", "greetings/none"]).code, 3);
    assert_eq!(place.run(&["jobs", "logs", "greetings/none", "--follow"]).code, 3);
}

//! The command line accepts every command on the pages.

use std::{collections::BTreeSet, fs, path::Path};

use queue_tests::command_line::Place;

/// The commands in the shell blocks of a page, without comments and shell syntax.
fn commands(page: &str) -> Vec<String> {
    let (mut commands, mut is_shell) = (Vec::new(), false);
    for line in page.lines().map(str::trim) {
        if let Some(language) = line.strip_prefix("```") {
            is_shell = language == "sh";
        } else if is_shell {
            let rest = line.split_once("QUEUE_URL=").filter(|(before, _)| before.is_empty()).and_then(|(_, rest)| rest.split_once(' '));
            let command = rest.map_or(line, |(_, rest)| rest);
            if ["queue ", "shop-worker ", "worker "].iter().any(|program| command.starts_with(program)) {
                commands.push(command.to_owned());
            }
        }
    }
    commands
}

/// The commands in the sentences of a page: inline code that begins with the name of a program,
/// with a value for each placeholder.
fn commands_of_prose(page: &str) -> Vec<String> {
    const VALUES: [(&str, &str); 10] = [
        ("{{ $labels.queue }}", "orders"),
        ("{{ $labels.task }}", "greet"),
        ("SEQ/JOB", "4711/order-7"),
        ("QUEUE", "orders"),
        ("TASK", "greet"),
        ("TOPIC", "orders"),
        ("URL", "/nowhere/shop.db"),
        ("FINGERPRINT", "5f0c3a9d2b7e6418"),
        ("WORKER", "5f0c3a9d2b7e6418"),
        ("NAME", "nightly"),
    ];
    let prose: String = page.split("```").step_by(2).collect();
    let code = prose.split('`').skip(1).step_by(2);
    let commands = code.filter(|code| ["queue ", "shop-worker "].iter().any(|program| code.starts_with(program)));
    commands.map(|command| VALUES.iter().fold(command.to_owned(), |command, (name, value)| command.replace(name, value))).collect()
}

/// The words of a command up to a comment, a pipe or a redirection.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_open) = (Vec::new(), String::new(), None, false);
    for c in command.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.push(c),
            None if c == '\'' || c == '"' => (quote, is_open) = (Some(c), true),
            None if c.is_whitespace() => {
                if is_open || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_open = false;
            }
            None if matches!(c, '#' | '|' | '>' | '&') && word.is_empty() && !is_open => return words,
            None => word.push(c),
        }
    }
    if is_open || !word.is_empty() {
        words.push(word);
    }
    words
}

/// These commands run until they are stopped, or print a page of help.
const ENDLESS: [&str; 7] = ["work", "dashboard", "watch", "--watch", "--follow", "exporter", "relay"];

#[test]
fn every_command_of_the_documents_is_accepted() {
    let mut pages: Vec<_> = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    let (mut count, mut refused) = (0, Vec::new());
    for page in pages {
        let place = Place::sqlite(SHOP);
        // The enqueue creates the database.
        place.ok(&["enqueue", "greet", "--args", r#"{"name":"Ada"}"#]);
        let text = fs::read_to_string(&page).unwrap();
        // A command with a placeholder cannot be run.
        for command in commands(&text).into_iter().filter(|command| !command.contains(['$', '…'])) {
            count += 1;
            let is_endless = |word: &str| ENDLESS.contains(&word) || word == "outbox";
            if let Some(problem) = refusal(&place, &command, is_endless) {
                refused.push(format!("{}: {command}: {problem}", page.file_name().unwrap().display()));
            }
        }
    }
    assert!(count > 100, "only {count} commands were found");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// Runs a command. Returns the error if its arguments are refused.
fn refusal(place: &Place, command: &str, is_endless: impl Fn(&str) -> bool) -> Option<String> {
    let words = words(command);
    let mut arguments: Vec<&str> = words[1..].iter().map(String::as_str).collect();
    if arguments.is_empty() || arguments.iter().any(|word| is_endless(word) || word.starts_with("--watch=")) {
        arguments.push("--help");
    }
    let output = place.run(&arguments);
    let said = String::from_utf8_lossy(&output.stderr).lines().next().unwrap_or_default().to_owned();
    // Without a terminal, the confirmation is not possible.
    let is_accepted = said.contains("unknown task") && is_of_a_page(&words) || said.contains("add --yes to confirm");
    (output.status.code() == Some(2) && !is_accepted).then_some(said)
}

/// Whether a page defines the task of an enqueue, with its parameters.
fn is_of_a_page(words: &[String]) -> bool {
    let behind = |word: &str| words.iter().position(|other| other == word).and_then(|at| words.get(at + 1));
    let (Some(task), Some(args)) = (behind("enqueue"), behind("--args")) else { return false };
    let Ok(serde_json::Value::Object(args)) = serde_json::from_str(args) else { return false };
    let args: BTreeSet<&str> = args.keys().map(String::as_str).collect();
    let pages = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.map(|page| fs::read_to_string(page).unwrap()).any(|page| {
        page.split(&format!(" fn {task}(")).skip(1).any(|rest| {
            let parameters = rest.split(')').next().unwrap_or_default().split(", ").filter_map(|parameter| parameter.split_once(": "));
            let parameters = parameters.filter(|(_, kind)| !kind.starts_with("Data<") && *kind != "JobContext");
            parameters.map(|(name, _)| name.trim()).collect::<BTreeSet<&str>>() == args
        })
    })
}

#[test]
fn every_command_in_a_sentence_of_the_runbook_is_accepted() {
    let mut count = 0;
    let mut refused = Vec::new();
    for page in ["docs/on-call.md", "docs/deploy/alerts.yaml"] {
        let place = Place::sqlite(SHOP);
        place.ok(&["enqueue", "greet", "--args", r#"{"name":"Ada"}"#]);
        for command in commands_of_prose(&read(page)) {
            count += 1;
            if let Some(problem) = refusal(&place, &command, |word| ENDLESS.contains(&word)) {
                refused.push(format!("{page}: {command}: {problem}"));
            }
        }
    }
    assert!(count > 30, "only {count} commands were found");
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn a_command_is_read_as_a_shell_does() {
    let page = "```sh\nqueue jobs list 'a b' \"c\" --x  # says # more\nls\nQUEUE_URL=sqlite://a queue status | head\n```\n```text\nqueue none\n```";
    let read: Vec<Vec<String>> = commands(page).iter().map(|command| words(command)).collect();
    assert_eq!(read, [vec!["queue", "jobs", "list", "a b", "c", "--x"], vec!["queue", "status"]]);
}

const SHOP: &str = env!("CARGO_BIN_EXE_shop_worker");

/// The help of a command.
fn help(place: &Place, command: &str) -> String {
    place.ok(&command.split_whitespace().chain(["--help"]).collect::<Vec<_>>())
}

/// The entries of a section of a help: a name, and its description in one line.
fn entries(help: &str, section: &str) -> Vec<(String, String)> {
    let mut entries: Vec<(String, String)> = Vec::new();
    let lines = help.lines().skip_while(|line| *line != section).skip(1).take_while(|line| line.is_empty() || line.starts_with(' '));
    for line in lines.filter(|line| !line.is_empty()) {
        let indent = line.len() - line.trim_start().len();
        match entries.last_mut().filter(|_| indent > 6) {
            Some((_, text)) => *text = format!("{text} {}", line.trim()).trim().to_owned(),
            None => {
                let (name, text) = line.trim().split_once("  ").unwrap_or((line.trim(), ""));
                entries.push((name.to_owned(), text.trim().to_owned()));
            }
        }
    }
    entries
}

/// All commands, including subcommands.
fn all_commands(place: &Place, command: &str) -> Vec<String> {
    let below = entries(&help(place, command), "Commands:").into_iter().filter(|(name, _)| name != "help");
    let below = below.flat_map(|(name, _)| all_commands(place, format!("{command} {name}").trim()));
    [command.to_owned()].into_iter().filter(|command| !command.is_empty()).chain(below.collect::<Vec<_>>()).collect()
}

/// A text for the cell of a table. In code, only the bar needs an escape.
fn escaped(text: &str) -> String {
    let parts = text.replace('|', "\\|");
    let escape = |(i, part): (usize, &str)| match i % 2 {
        0 => part.replace('<', "\\<").replace('*', "\\*"),
        _ => part.to_owned(),
    };
    parts.split('`').enumerate().map(escape).collect::<Vec<_>>().join("`")
}

/// The expected page with the options of all commands.
fn page_of_options(place: &Place) -> String {
    let mut page = "# Options of all commands\n\nEvery command of the [command line](command-line.md) with its arguments and options, as `--help` prints\n\
                    them. Every command also takes `--url` and `--help`. This page is generated: `QUEUE_TEST_ACCEPT=1 cargo test\n\
                    -p queue-tests --test cli documents` writes it.\n"
        .to_owned();
    for command in all_commands(place, "") {
        let help = help(place, &command);
        let of = |section| entries(&help, section).into_iter();
        let rows: Vec<_> =
            of("Arguments:").chain(of("Options:")).filter(|(name, _)| !name.contains("--help") && !name.contains("--url")).collect();
        if !rows.is_empty() {
            page.push_str(&format!("\n## `{command}`\n\n| argument or option | meaning |\n|---|---|\n"));
        }
        for (name, text) in rows {
            page.push_str(&format!("| `{name}` | {} |\n", escaped(&text)));
        }
    }
    page
}

#[test]
fn the_reference_has_every_command_and_every_option() {
    let place = Place::sqlite(SHOP);
    let (page, options) = (read("docs/command-line.md"), page_of_options(&place));
    let missing: Vec<String> = all_commands(&place, "")
        .into_iter()
        .filter(|command| {
            let (parent, name) = command.split_once(' ').unwrap_or((command, command));
            let row = page.lines().find(|line| line.starts_with(&format!("| `{parent}")) || line.contains(&format!("; `{parent} ")));
            // `jobs list`, `search`, …: several rows may begin with the parent.
            let rows = page.lines().filter(|line| line.starts_with(&format!("| `{parent}")));
            row.is_none() || !rows.clone().any(|row| row.contains(&format!("`{name}")) || row.contains(&format!(" {name}`")))
        })
        .collect();
    assert!(missing.is_empty(), "docs/command-line.md lacks these commands: {missing:?}");
    for command in ["work", "enqueue"] {
        let section = page.split_once(&format!("## Options of `{command}`")).expect("it has the section").1.split("\n## ").next().unwrap();
        for (option, _) in entries(&help(&place, command), "Options:") {
            let name = option.split([' ', ',', '=']).find(|part| part.starts_with("--")).unwrap();
            assert!(["--url", "--help", "--json"].contains(&name) || section.contains(&format!("`{name}")), "{command} lacks {name}");
        }
    }
    let path = root().join("docs/options.md");
    if std::env::var_os("QUEUE_TEST_ACCEPT").is_some() {
        fs::write(&path, &options).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == options,
        "docs/options.md is out of date: run this test with QUEUE_TEST_ACCEPT=1"
    );
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The sources of the packages that applications use.
fn sources() -> Vec<String> {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = Vec::new();
    for package in ["core", "worker", "cli", "dashboard", "outbox"] {
        walk(&root().join(format!("queue-{package}/src")), &mut found);
    }
    found
}

/// The texts between quotation marks in a source.
fn quoted(source: &str) -> impl Iterator<Item = &str> {
    source.split('"').skip(1)
}

#[test]
fn the_reference_has_every_exit_code_variable_parameter_and_reason() {
    let (sources, configuration) = (sources(), read("docs/configuration.md"));
    let exits = sources.iter().find_map(|source| source.split_once("enum Exit {")).expect("it has exit codes").1;
    let exits: Vec<&str> =
        exits.split('}').next().unwrap().lines().filter_map(|line| Some(line.split_once(" = ")?.1.trim_matches(','))).collect();
    assert!(exits.len() > 8, "{exits:?}");
    let page = read("docs/command-line.md");
    let missing: Vec<&str> = exits.into_iter().filter(|code| !page.contains(&format!("\n| {code} | "))).collect();
    assert!(missing.is_empty(), "docs/command-line.md lacks these exit codes: {missing:?}");

    let is_name = |text: &&str| text.len() > 6 && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    let variables = sources.iter().flat_map(|source| quoted(source)).filter(is_name).filter(|name| name.starts_with("QUEUE_"));
    let variables: BTreeSet<&str> = variables.filter(|name| !name.starts_with("QUEUE_TEST")).collect();
    assert!(variables.len() >= 3, "{variables:?}");
    let missing: Vec<&str> = variables.into_iter().filter(|name| !configuration.contains(&format!("| `{name}`"))).collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks these variables: {missing:?}");

    let urls = ["redis", "sqlite"].map(|broker| read(&format!("queue-core/src/{broker}/connection/url.rs"))).concat();
    let arms = urls
        .lines()
        .map(str::trim)
        .filter(|line| (line.starts_with('"') && line.contains("=> &mut this.")) || line.starts_with("Some((\""));
    let parameters: BTreeSet<&str> = arms.filter_map(|line| line.split('"').nth(1)).collect();
    assert!(parameters.len() > 8, "{parameters:?}");
    let missing: Vec<&&str> = parameters.iter().filter(|name| !configuration.contains(&format!("`{name}="))).collect();
    assert!(missing.is_empty(), "docs/configuration.md lacks these parameters of URLs: {missing:?}");

    let (why, reasons) = (read("docs/why.md"), read("queue-core/src/inspector/reason.rs"));
    let names = reasons.split_once("pub fn name(").expect("reasons have names").1;
    let names: Vec<&str> = names.split("\n    }").next().unwrap().lines().filter_map(|line| line.split('"').nth(1)).collect();
    assert!(names.len() > 15, "{names:?}");
    let missing: Vec<&str> = names.into_iter().filter(|name| !why.contains(&format!("| `{name}` |"))).collect();
    assert!(missing.is_empty(), "docs/why.md lacks these reasons: {missing:?}");
}

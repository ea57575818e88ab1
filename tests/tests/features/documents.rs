//! Every link of a page leads somewhere: the file is there, and has the heading. The tables of
//! reference pages are complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are in the workspace").to_owned()
}

/// The pages of the repository. Those in `src` are part of rustdoc, which checks their links.
fn pages() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" && name != "src" && name != "node_modules" {
                    walk(&path, found);
                }
            } else if name.ends_with(".md") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root(), &mut found);
    found.sort();
    found
}

/// A page without its blocks of code.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut lines = Vec::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The anchors of a page's headings, as GitHub names them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose(page).lines() {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let kept = text.trim().to_lowercase().replace(' ', "-");
        let anchor: String = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_')).collect();
        let count = counts.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}

/// The targets of the links of a page, except those to other sites.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let parts = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target.to_owned());
    parts.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            part => normal.push(part),
        }
    }
    normal
}

/// What is wrong with the links of a page.
fn broken(page: &Path, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for link in links(text) {
        let (file, anchor) = link.split_once('#').map_or((link.as_str(), None), |(file, anchor)| (file, Some(anchor)));
        let target = if file.is_empty() { page.to_owned() } else { normal(&page.parent().expect("a page is in a folder").join(file)) };
        if !target.exists() {
            problems.push(format!("{}: there is no {link}", page.display()));
        } else if let Some(anchor) = anchor {
            let target = if target == page { text.to_owned() } else { fs::read_to_string(&target).unwrap_or_default() };
            if !anchors(&target).contains(anchor) {
                problems.push(format!("{}: no heading for {link}", page.display()));
            }
        }
    }
    problems
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let problems: Vec<String> = pages().iter().flat_map(|page| broken(page, &fs::read_to_string(page).unwrap())).collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let page = root().join("README.md");
    let problems = |text: &str| broken(&page, text).len();
    assert_eq!(
        problems("# A `page`, and more\n[here](#a-page-and-more) [there](docs/README.md#glossary) [far](https://example.com/x#y)"),
        0
    );
    assert_eq!(problems("# A page\n# A page\n[second](#a-page-1) [third](#a-page-2)"), 1);
    assert_eq!(problems("[a](docs/none.md) [b](docs/README.md#none)\n```\n[c](none)\n```"), 2);
}

/// What the comparison says of a project can be checked. The page defines "not documented".
#[test]
fn every_cell_of_the_comparison_links_to_its_source() {
    let page = read("docs/comparison.md");
    let (tables, _) = page.split_once("\n## Measurements\n").expect("the page has measurements");
    let rows = tables.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| |"));
    let (mut count, mut missing) = (0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        count += cells.len() - 1;
        let has_source = |cell: &&&str| cell.contains("](") || cell.contains("][") || **cell == "not documented";
        missing.extend(cells[1..].iter().filter(|cell| !has_source(cell)).map(|cell| format!("{}: {cell}", cells[0])));
    }
    assert!(count > 100, "only {count} cells were found");
    assert!(missing.is_empty(), "these cells of docs/comparison.md have no link: {missing:#?}");
}

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A section of a page, from its heading of the second level to the next one.
pub(super) fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let start = page.find(&format!("\n## {heading}\n")).unwrap_or_else(|| panic!("there is no section `{heading}`")) + 1;
    let end = page[start..].find("\n## ").map_or(page.len(), |length| start + length);
    &page[start..end]
}

#[test]
fn no_block_of_code_hides_lines() {
    // A block in a list is indented.
    fn hides(page: &str) -> bool {
        let mut block: Option<bool> = None;
        page.lines().map(str::trim_start).any(|line| {
            match (line.strip_prefix("```"), block) {
                (Some(language), None) => block = Some(language.starts_with("rust")),
                (Some(_), Some(_)) => block = None,
                (None, _) => {}
            }
            block == Some(true) && (line == "#" || line.starts_with("# "))
        })
    }
    assert!(hides("text\n```rust\n# use hidden;\n```"));
    assert!(hides("1. text\n\n   ```rust,no_run\n   # use hidden;\n   ```"));
    assert!(!hides("text\n```sh\n# a comment\n```\n```rust\n#[task]\n```\n# A heading\n"));
    let found: Vec<PathBuf> = pages().into_iter().filter(|page| hides(&fs::read_to_string(page).unwrap())).collect();
    assert!(found.is_empty(), "a code host shows hidden lines: {found:?}");
}

#[test]
fn templates_are_wrapped_at_120_columns() {
    let templates = fs::read_dir(root().join("queue-dashboard/templates")).unwrap().map(|entry| entry.unwrap().path());
    let long = templates.flat_map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().enumerate().filter(|(_, line)| line.chars().count() > 120).map(|(at, _)| at + 1).collect::<Vec<_>>();
        lines.into_iter().map(move |line| format!("{}:{line}", path.display()))
    });
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
}

/// The texts of the list `KNOWN` in a source file.
fn known(path: &str) -> Vec<String> {
    let source = read(path);
    let list = source.split_once("const KNOWN: ").and_then(|(_, rest)| rest.split_once("= [")).expect("it has the list");
    let (list, _) = list.1.split_once("];").expect("the list ends");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The name behind `start` in a line of code.
fn name_behind<'a>(line: &'a str, start: &str) -> Option<&'a str> {
    let rest = line.strip_prefix(start)?;
    Some(rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or(rest))
}

#[test]
fn the_reference_has_every_option_of_the_macros() {
    let page = read("docs/configuration.md");
    let of_task = ["options", "schedule", "unique", "limit", "group"].as_slice();
    for (heading, files, least) in [("Options of `#[task]`", of_task, 40), ("Options of `#[subscribe]` and `#[event]`", &["event"], 3)] {
        let section = section(&page, heading);
        let options: Vec<String> = files.iter().flat_map(|file| known(&format!("queue-macros/src/{file}.rs"))).collect();
        assert!(options.len() > least, "{options:?}");
        // An option has a row, or is in the code of the option around it.
        let is_there = |option: &&String| ["`", "(", ", "].iter().any(|before| section.contains(&format!("{before}{option}")));
        let missing: Vec<&String> = options.iter().filter(|option| !is_there(option)).collect();
        assert!(missing.is_empty(), "docs/configuration.md lacks these under `{heading}`: {missing:?}");
    }
}

#[test]
fn the_reference_has_every_setter_of_a_worker_and_of_a_job() {
    let of_worker = ["queue-worker/src/worker.rs", "queue-worker/src/worker/limits.rs"];
    let of_job = ["queue-core/src/client/job.rs", "queue-core/src/client/unique.rs"];
    for (heading, sources, least) in [("Worker settings", of_worker, 20), ("Job settings", of_job, 15)] {
        let page = read("docs/configuration.md");
        let section = section(&page, heading);
        let sources = sources.map(read).concat();
        let lines = sources.lines().map(str::trim).filter(|line| line.contains("self") && line.contains("-> Self"));
        let setters: Vec<&str> = lines.filter_map(|line| name_behind(line, "pub fn ")).collect();
        assert!(setters.len() > least, "{setters:?}");
        let is_there = |setter: &str| section.contains(&format!("`{setter}(")) || section.contains(&format!("`{setter}::<"));
        let missing: Vec<&str> = setters.into_iter().filter(|setter| !is_there(setter)).collect();
        assert!(missing.is_empty(), "docs/configuration.md lacks these under `{heading}`: {missing:?}");
    }
}

#[test]
fn the_reference_has_every_feature_flag_with_its_default() {
    let page = read("docs/configuration.md");
    let of_all = section(&page, "Feature flags");
    let mut problems = Vec::new();
    let packages = fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let packages = packages.filter(|name| name.starts_with("queue-"));
    // Only other packages of ours depend on the calendar.
    let packages: Vec<String> =
        packages.filter(|name| name != "queue-calendar" && read(&format!("{name}/Cargo.toml")).contains("\n[features]\n")).collect();
    assert!(packages.len() >= 4, "{packages:?}");
    for package in packages {
        // The rows of this package in the reference, and its own table.
        let rows = of_all.split_once(&format!("| `{package}` |")).expect("it is in the reference").1;
        let rows = rows.split("\n| `queue-").next().unwrap_or(rows);
        let readme = read(&format!("{package}/README.md"));
        let manifest = read(&format!("{package}/Cargo.toml"));
        let features = manifest.split_once("[features]\n").expect("it has features").1;
        let features = features.split("\n[").next().unwrap_or(features);
        let features: Vec<(&str, &str)> = features.lines().filter_map(|line| line.split_once(" = ")).collect();
        let (_, default) = features.iter().find(|(name, _)| *name == "default").expect("it has a default");
        for (name, _) in features.iter().filter(|(name, _)| !name.starts_with('#') && !["default", "fuzz", "process"].contains(name)) {
            let is_default = default.contains(&format!("\"{name}\""));
            for (table, text) in [("the reference", rows), ("its README", readme.as_str())] {
                let names = |line: &str| {
                    line.trim_start_matches(['|', ' ']).split(" | ").next().is_some_and(|cell| cell.contains(&format!("`{name}`")))
                };
                let row = text.lines().find(|line| line.contains(" | ") && names(line));
                let is_said = row.is_some_and(|row| is_default == (row.contains("| on |") || row.contains("| yes |")));
                if !is_said {
                    problems.push(format!("{package}: {table} lacks `{name}`, or has another default"));
                }
            }
        }
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn the_reference_has_every_error() {
    let (page, source) = (read("docs/errors.md"), read("queue-core/src/error.rs"));
    let (_, body) = source.split_once("pub enum Error {").expect("it has the type");
    let (body, _) = body.split_once("\n}").expect("the type ends");
    let variants = body.lines().filter_map(|line| name_behind(line, "    ")).filter(|name| name.starts_with(char::is_uppercase));
    let variants: Vec<&str> = variants.collect();
    assert!(variants.len() > 20, "{variants:?}");
    let missing: Vec<&str> = variants.into_iter().filter(|variant| !page.contains(&format!("`{variant}`"))).collect();
    assert!(missing.is_empty(), "docs/errors.md lacks these errors: {missing:?}");
}

/// The variants of `Error` in a piece of source.
fn errors_in(source: &str) -> Vec<&str> {
    let names = source.split("Error::").skip(1);
    names.map(|rest| &rest[..rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())]).collect()
}

/// The columns *stored*, *retry* and *exit code* say what the code does.
#[test]
fn the_reference_reports_of_each_error_whether_it_is_stored_and_how_a_command_exits() {
    let (page, error, exit) = (read("docs/errors.md"), read("queue-core/src/error.rs"), read("queue-cli/src/exit.rs"));
    let body = |source: &str, function: &str| {
        let (_, body) = source.split_once(&format!("fn {function}(")).unwrap_or_else(|| panic!("there is no {function}"));
        body.split("\n    }\n").next().expect("it ends").split("\n}\n").next().expect("it ends").to_owned()
    };
    let number = |name: &str| {
        let (_, rest) = exit.split_once(&format!("    {name} = ")).unwrap_or_else(|| panic!("there is no exit {name}"));
        rest.split(',').next().expect("a number").to_owned()
    };
    let (transient, ambiguous, exits) = (body(&error, "is_transient"), body(&error, "is_ambiguous"), body(&exit, "exit_of"));
    let (transient, ambiguous) = (errors_in(&transient), errors_in(&ambiguous));
    // Each piece ends with the errors of the arm whose exit the next one begins with.
    let arms: Vec<&str> = exits.split("=> Exit::").collect();
    let exit_of = |variant: &str| {
        let arm = arms.iter().position(|arm| errors_in(arm).contains(&variant));
        let name = arm.map_or("Unforeseen", |at| arms[at + 1].split(',').next().expect("an exit"));
        number(name)
    };
    let mut checked = 0;
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [names, _, stored, retry, _, code] = cells[..] else { panic!("{row}") };
        for name in names.split(", ").map(|name| name.trim_matches('`')) {
            assert_eq!(code, exit_of(name), "the exit code of {name}");
            assert_eq!(["perhaps", "some"].contains(&stored), ambiguous.contains(&name), "whether {name} is perhaps stored: {stored}");
            let repeats = retry.starts_with("yes") || retry == "only if the call is idempotent";
            assert_eq!(repeats, transient.contains(&name), "whether {name} may be repeated: {retry}");
            checked += 1;
        }
    }
    assert!(checked > 30, "{checked} errors were compared");
}

/// A reader learns each term. Both tables define each of theirs once, and mark no other word.
#[test]
fn the_glossary_has_at_most_45_terms_and_defines_each_once() {
    let page = read("docs/README.md");
    let glossary = section(&page, "Glossary");
    let rows = glossary.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---") && !line.starts_with("| term |"));
    let terms: Vec<&str> = rows.map(|row| row.split('|').nth(1).expect("a row has a first cell").trim()).collect();
    let names: BTreeSet<&str> = terms.iter().map(|term| term.trim_matches('*')).collect();
    assert!(terms.iter().all(|term| term.starts_with("**") && term.ends_with("**")), "a row that defines no term: {terms:?}");
    assert_eq!(glossary.matches("**").count(), 2 * terms.len(), "a term that has no row of its own");
    assert_eq!(names.len(), terms.len(), "a term is defined twice: {terms:?}");
    assert!((1..=45).contains(&terms.len()), "{} terms", terms.len());
}

#[test]
fn every_page_is_in_the_index_and_in_the_book() {
    // The index and the book themselves.
    let lists = ["README.md", "SUMMARY.md"];
    let (index, book) = (read("docs/README.md"), read("docs/SUMMARY.md"));
    let pages = pages().into_iter().filter(|page| page.parent() == Some(root().join("docs").as_path()));
    let names = pages.filter_map(|page| Some(page.file_name()?.to_string_lossy().into_owned()));
    let missing: Vec<String> = names
        .filter(|name| !lists.contains(&name.as_str()))
        .filter(|name| !index.contains(&format!("]({name})")) || !book.contains(&format!("]({name})")))
        .collect();
    assert!(missing.is_empty(), "docs/README.md or docs/SUMMARY.md lacks these pages: {missing:?}");
}

/// The spans of code in a text.
pub(super) fn code(text: &str) -> Vec<&str> {
    let (mut spans, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find('`') {
        let fence = if rest[start..].starts_with("``") { "``" } else { "`" };
        let Some((span, after)) = rest[start + fence.len()..].split_once(fence) else { break };
        spans.push(span);
        rest = after;
    }
    spans
}

/// The messages that the rows of a table quote: in the first cell with code. Those of other
/// programs follow their name.
fn quoted(table: &str) -> Vec<&str> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| row.split(" | ").find(|cell| cell.contains('`')));
    cells.filter(|cell| !cell.starts_with("Cargo: ")).flat_map(code).filter(|span| span.trim().contains(' ')).collect()
}

/// One line in lower case, so that a message that is broken into lines, or begins a sentence, is
/// found.
fn one_line(text: &str) -> String {
    text.replace("\\\n", "").split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[test]
fn a_message_that_a_page_quotes_is_one_of_ours() {
    fn walk(folder: &Path, text: &mut String) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                walk(&path, text);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                text.push_str(&one_line(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut source = String::new();
    for package in ["calendar", "cli", "core", "dashboard", "outbox", "worker"] {
        walk(&root().join(format!("queue-{package}/src")), &mut source);
    }
    let [faq, on_call, dashboard, logs] = ["faq", "on-call", "dashboard", "logs"].map(|page| read(&format!("docs/{page}.md")));
    let tables = [
        section(&faq, "Messages"),
        on_call.split_once("\n## ").expect("it has sections").0,
        section(&dashboard, "Findings"),
        section(&logs, "Lines to watch for"),
    ];
    for table in tables {
        let messages = quoted(table);
        assert!(messages.len() > 8, "{messages:?}");
        // What stands for a value is `…`; what is left has to be long enough to mean one message.
        let is_ours = |message: &&str| {
            let message = one_line(message);
            let mut parts = message.split('…').map(|part| part.trim_matches([' ', ':', ','])).filter(|part| part.len() > 5).peekable();
            parts.peek().is_some() && parts.all(|part| source.contains(part))
        };
        let unknown: Vec<&str> = messages.into_iter().filter(|message| !is_ours(message)).collect();
        assert!(unknown.is_empty(), "no source has these messages: {unknown:#?}");
    }
}

/// The messages of ERROR and WARN lines in a source: of each `error!` and `warn!`, the first text
/// that is no target. A value in it is `…`.
fn logged(source: &str) -> Vec<String> {
    let source = source.split_once("#[cfg(test)]\nmod tests {").map_or(source, |(code, _)| code);
    let calls = ["tracing::error!(", "tracing::warn!("].into_iter().flat_map(|call| source.split(call).skip(1));
    let texts =
        calls.filter_map(|call| call.trim_start().strip_prefix("target: \"").map_or(Some(call), |rest| Some(rest.split_once('"')?.1)));
    let texts = texts.filter_map(|call| call.split('"').nth(1));
    let messages = texts.map(|text| {
        let parts = text.replace('{', "…{");
        parts.split('{').map(|part| part.split_once('}').map_or(part, |(_, rest)| rest)).collect::<String>()
    });
    // The text of another function is on the page, too.
    messages.filter(|message| message.chars().any(char::is_alphabetic)).collect()
}

#[test]
fn the_page_of_logs_has_every_error_and_warning() {
    fn walk(folder: &Path, found: &mut Vec<String>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.extend(logged(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    let mut messages = Vec::new();
    for package in ["cli", "core", "dashboard", "outbox", "worker"] {
        walk(&root().join(format!("queue-{package}/src")), &mut messages);
    }
    assert!(messages.len() > 60, "{messages:#?}");
    let page = read("docs/logs.md");
    // A row may leave out the end of a message, and a value in it.
    let rows: Vec<Vec<String>> = section(&page, "Lines to watch for")
        .lines()
        .flat_map(|row| code(row).into_iter().filter(|span| span.contains(' ')))
        .map(|span| one_line(span).split('…').map(|part| part.trim_matches([' ', ':']).to_owned()).filter(|part| part.len() > 5).collect())
        .collect();
    let is_of = |message: &str, parts: &[String]| {
        parts.iter().all(|part| message.contains(&**part) && (part.contains(' ') || message.starts_with(&**part)))
    };
    let has = |message: &str| rows.iter().any(|parts| !parts.is_empty() && is_of(message, parts));
    let missing: Vec<&String> = messages.iter().filter(|message| !has(&one_line(message))).collect();
    assert!(missing.is_empty(), "docs/logs.md lacks these lines: {missing:#?}");
}

/// The fields of the types of a source file that are printed as JSON: of structs that only
/// serialize, and of types with code for it.
fn printed(source: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    // Whether the next struct is printed, whether these lines are in it, and whether the next field
    // has another name or none.
    let (mut derives, mut inside, mut renamed) = (false, false, false);
    for line in source.lines().map(str::trim) {
        fields.extend(name_behind(line, "fields.serialize_field(\""));
        if line.starts_with("#[derive(") {
            derives = line.contains("Serialize") && !line.contains("Deserialize");
        } else if derives && line.contains("struct ") && line.ends_with('{') {
            (derives, inside) = (false, true);
        } else if derives && !line.starts_with('#') && !line.starts_with("//") {
            derives = false;
        } else if inside && line.starts_with('}') {
            inside = false;
        } else if inside && line.starts_with("#[serde(") {
            let name = line.split_once("rename = \"").and_then(|(_, rest)| rest.split('"').next());
            renamed = name.is_some() || line == "#[serde(skip)]" || line.contains("flatten");
            fields.extend(name);
        } else if let Some((field, _)) = line.split_once(": ").filter(|_| inside && !line.starts_with("//"))
            && !std::mem::take(&mut renamed)
        {
            fields.extend(field.split(' ').next_back());
        }
    }
    fields
}

#[test]
fn the_reference_has_every_field_of_the_json_output() {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { walk(&path, found) } else { found.push(path) }
        }
    }
    let mut sources = [
        "queue-worker/src/duties/http/health.rs",
        "queue-core/src/inspector/record.rs",
        "queue-core/src/inspector/reason.rs",
        "queue-core/src/inspector/progress.rs",
        "queue-core/src/inspector/limits.rs",
        "queue-core/src/inspector/topics.rs",
        "queue-core/src/limit/mod.rs",
        "queue-core/src/group.rs",
        "queue-core/src/broker/group.rs",
        "queue-core/src/broker/topic.rs",
        "queue-core/src/broker/worker.rs",
        "queue-core/src/broker/load.rs",
        "queue-core/src/broker/ask.rs",
        "queue-core/src/broker/history/failures.rs",
        "queue-core/src/schedule/record.rs",
        "queue-core/src/client/watch.rs",
        "queue-core/src/broker/stats.rs",
        "queue-core/src/broker/outbox.rs",
        "queue-core/src/broker/operation/stored.rs",
        "queue-core/src/broker/history/page.rs",
        "queue-core/src/broker/history/times.rs",
        "queue-core/src/broker/pause.rs",
    ]
    .map(|path| root().join(path))
    .to_vec();
    walk(&root().join("queue-cli/src"), &mut sources);
    let (page, mut count, mut missing) = (read("docs/json.md"), 0, Vec::new());
    for path in sources {
        let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let fields = printed(&source);
        count += fields.len();
        missing.extend(fields.into_iter().filter(|field| !page.contains(&format!("`{field}`"))).map(str::to_owned));
    }
    assert!(count > 300, "only {count} fields were found");
    assert!(missing.is_empty(), "docs/json.md lacks these fields: {missing:?}");
}

/// Programs that are built by the tests or by `cargo xtask apps`: a Rust block that rustdoc does not
/// compile, because its library is not in this workspace, is a piece of one of them.
const PROGRAMS: [&str; 7] = [
    "adapters/sqlx-0.8/tests/outbox/postgres.rs",
    "adapters/sqlx-0.8/tests/prepare.rs",
    "tests/apps/actix/src/main.rs",
    "tests/apps/coming-from/src/main.rs",
    "tests/apps/loco/src/main.rs",
    "tests/apps/outbox-diesel/src/main.rs",
    "tests/apps/outbox-sea-orm/src/main.rs",
];

/// Pages that `tests/tests/readme.rs` follows: it builds the programs whose files they show.
const FOLLOWED: [&str; 2] = ["docs/task-crate.md", "docs/tutorial.md"];

/// The Rust blocks of a page, each with what its fence says behind `rust`.
fn rust_blocks(page: &str) -> Vec<(String, String)> {
    let (mut blocks, mut open) = (Vec::new(), None::<(String, String)>);
    for line in page.lines() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (None, Some((_, text))) => *text = format!("{text}{line}\n"),
            (None, None) => {}
        }
    }
    let rust = blocks.into_iter().filter_map(|(language, text)| Some((language.strip_prefix("rust")?.to_owned(), unindented(&text))));
    rust.collect()
}

/// The pages whose blocks rustdoc compiles.
fn compiled_pages() -> BTreeSet<PathBuf> {
    let mut pages = BTreeSet::new();
    for library in ["queue-core", "queue-dashboard", "queue-outbox", "queue-testing", "queue-worker"] {
        let source = read(&format!("{library}/src/lib.rs"));
        let included = source.lines().filter_map(|line| line.strip_prefix("#[doc = include_str!(\"")?.strip_suffix("\")]"));
        pages.extend(included.map(|page| normal(&root().join(library).join("src").join(page))));
    }
    pages
}

#[test]
fn every_rust_block_is_compiled() {
    let (compiled, programs) = (compiled_pages(), PROGRAMS.map(|path| unindented(&read(path))));
    let (mut count, mut problems) = (0, Vec::new());
    for path in pages() {
        let page = path.strip_prefix(root()).expect("a page is in the workspace").to_string_lossy().into_owned();
        for (attributes, block) in rust_blocks(&fs::read_to_string(&path).unwrap()) {
            count += 1;
            let is_compiled = match attributes.contains("ignore") {
                true => FOLLOWED.contains(&page.as_str()) || programs.iter().any(|program| program.contains(&block)),
                false => compiled.contains(&path),
            };
            if !is_compiled {
                problems.push(format!("{page}: nothing compiles this block:\n{block}"));
            }
        }
    }
    assert!(count > 90, "only {count} blocks were found");
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn unindented(text: &str) -> String {
    text.lines().map(|line| line.trim().to_owned() + "\n").collect()
}

/// The rows of tables, the entries of lists and the paragraphs of a page, without its blocks of
/// code.
fn parts(page: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in prose(page).lines() {
        let is_numbered = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u8>().is_ok());
        if line.is_empty() || is_numbered || ["| ", "- ", "#"].iter().any(|mark| line.starts_with(mark)) {
            parts.push(String::new());
        }
        let part = parts.last_mut().expect("there is a first one");
        part.push_str(line);
        part.push('\n');
    }
    parts
}

/// A path begins in the root, in one of these folders, or in a folder that its row, entry or
/// paragraph names, also by a path in that folder.
#[test]
fn the_places_in_the_tables_and_lists_of_the_architecture_exist() {
    const FOLDERS: [&str; 6] =
        ["", "queue-core/src", "queue-worker/src", "queue-core/src/redis", "queue-core/src/sqlite", "queue-conformance/src"];
    let (page, mut count, mut missing) = (read("ARCHITECTURE.md"), 0, Vec::new());
    for part in parts(&page) {
        let mut folders = FOLDERS.map(|folder| root().join(folder)).to_vec();
        let words = part.split('`').skip(1).step_by(2);
        for word in words.filter(|word| word.ends_with(".rs") || word.contains('/') && !word.contains(' ')) {
            count += 1;
            let places: Vec<String> = match word.strip_prefix("BROKER/") {
                Some(place) => ["redis", "sqlite"].map(|broker| format!("{broker}/{place}")).to_vec(),
                None => vec![word.to_owned()],
            };
            for place in places {
                let ends = ["", ".rs", ".lua"].map(|end| format!("{place}{end}"));
                let found = folders.iter().flat_map(|folder| ends.iter().map(move |end| folder.join(end))).find(|path| path.exists());
                match found {
                    Some(path) if path.is_dir() => folders.extend([path.join("src"), path]),
                    Some(path) => folders.extend(path.parent().map(Path::to_owned)),
                    None => missing.push(place),
                }
            }
        }
    }
    assert!(count > 100, "only {count} places were found");
    assert!(missing.is_empty(), "ARCHITECTURE.md names places that do not exist: {missing:?}");
}

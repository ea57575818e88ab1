//! The layers of this library and of `queue-worker`: no layer imports from one above it, and no
//! modules import each other in a circle. The sources are read by a parser of Rust.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn::{
    Attribute, File, Item, ItemMod, ItemUse, Path as RustPath, UseTree,
    visit::{self, Visit},
};

/// Layers, from the ground up, and the modules of each. A module may import from its own layer and
/// from those below.
type Layers = [(&'static str, &'static [&'static str])];

const CORE: &Layers = &[
    (
        "a job",
        &[
            "address",
            "alarm",
            "begin",
            "clock",
            "codec",
            "digest",
            "envelope",
            "error",
            "fingerprint",
            "group",
            "id",
            "io",
            "json",
            "limit",
            "outcome",
            "pauses",
            "priority",
            "process",
            "sources",
            "text",
            "unique",
        ],
    ),
    ("a task", &["key", "payload", "task"]),
    ("the broker contract", &["broker", "observe"]),
    ("the brokers", &["redis", "sqlite"]),
    ("client and inspector", &["client", "draft", "event", "inspector", "schedule"]),
    (
        "running a job",
        &[
            "__private",
            "context",
            "handler",
            "inject",
            "inspect",
            "middleware",
            "parameter",
            "prelude",
            "registry",
            "test_context",
            "topics",
        ],
    ),
];

const WORKER: &Layers = &[
    ("tools", &["block_on", "config", "error", "job_log", "patience", "threads", "time", "tuning", "usage"]),
    (
        "the state of a worker",
        &[
            "application",
            "connection",
            "declarations",
            "history",
            "identity",
            "letters",
            "messages",
            "metrics",
            "outage",
            "queues",
            "progress",
            "shared",
            "shutdown",
            "status",
        ],
    ),
    ("duties", &["duties"]),
    ("jobs", &["pump", "run"]),
    ("the worker", &["arrival", "command_line", "engine", "worker"]),
];

fn layer_of(layers: &Layers, module: &str) -> Option<usize> {
    layers.iter().position(|(_, modules)| modules.contains(&module))
}

/// The path of a module, or of an item in it, from the root of its library.
type ModulePath = Vec<String>;

/// The items of its library that a file names, each with the path by which it does.
struct Named {
    /// The file's own module.
    module: ModulePath,
    items: BTreeMap<ModulePath, String>,
}

impl Named {
    /// Notes the item that a path leads to. A path that begins with the name of a crate, or of
    /// something in scope, leads to none.
    fn note(&mut self, path: &[String]) {
        let (mut at, mut rest) = (self.module.clone(), path);
        match path.first().map(String::as_str) {
            Some("crate") => (at, rest) = (Vec::new(), &path[1..]),
            Some("self") => rest = &path[1..],
            Some("super") => {}
            _ => return,
        }
        while rest.first().is_some_and(|part| part == "super") {
            at.pop();
            rest = &rest[1..];
        }
        at.extend(rest.iter().cloned());
        if !at.is_empty() {
            self.items.entry(at).or_insert_with(|| path.join("::"));
        }
    }

    fn note_tree(&mut self, before: &[String], tree: &UseTree) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(path) => self.note_tree(&with(path.ident.to_string()), &path.tree),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(before, tree)),
            UseTree::Name(name) => self.note(&with(name.ident.to_string())),
            UseTree::Rename(rename) => self.note(&with(rename.ident.to_string())),
            UseTree::Glob(_) => self.note(before),
        }
    }
}

/// Whether an item is there in tests alone.
fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().filter(|attribute| attribute.path().is_ident("cfg")).any(|attribute| {
        let condition = attribute.meta.to_token_stream().to_string();
        let mut words = condition.split(|c: char| !c.is_ascii_alphanumeric());
        words.any(|word| word == "test") && !condition.contains("not")
    })
}

impl<'a> Visit<'a> for Named {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        self.note_tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'a RustPath) {
        self.note(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    /// `pub(crate)` and `pub(in ..)` import nothing.
    fn visit_visibility(&mut self, _: &'a syn::Visibility) {}
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The module of a file, from the root of the library. `no_x.rs` is `x` without its feature.
fn module_of(file: &Path) -> ModulePath {
    let name = |part: &std::ffi::OsStr| part.to_string_lossy().trim_start_matches("no_").to_owned();
    let mut parts: ModulePath = file.with_extension("").iter().map(name).collect();
    if parts.last().is_some_and(|part| part == "mod") {
        parts.pop();
    }
    parts
}

fn named(name: &Path, source: &File) -> Named {
    let mut named = Named { module: module_of(name), items: BTreeMap::new() };
    named.visit_file(source);
    named
}

/// What is wrong with the imports of a file.
fn wrong(layers: &Layers, name: &Path, source: &File) -> BTreeSet<String> {
    let Named { module, items } = named(name, source);
    let Some(own) = layer_of(layers, &module[0]) else {
        return [format!("{}: give the module `{}` a layer in tests/library/layers.rs", name.display(), module[0])].into();
    };
    let problem = |(item, path): (ModulePath, String)| match layer_of(layers, &item[0]) {
        Some(layer) if layer <= own => None,
        Some(layer) => {
            let (own, above) = (layers[own].0, layers[layer].0);
            Some(format!("{}: `{path}` is of a layer above: {own} must not import from {above}", name.display()))
        }
        None => Some(format!("{}: write `{path}` with the module that it is in", name.display())),
    };
    items.into_iter().filter_map(problem).collect()
}

/// Imports between two modules of one folder, or of the root, each with the file that has it.
type Imports = BTreeMap<(ModulePath, ModulePath), String>;

/// A module in a subfolder counts as that folder. A folder and its own modules may import each
/// other.
fn imports(files: &[(PathBuf, File)]) -> Imports {
    let modules: BTreeSet<ModulePath> = files.iter().map(|(name, _)| module_of(name)).collect();
    let mut imports = BTreeMap::new();
    for (name, source) in files {
        let Named { module, items } = named(name, source);
        for (item, path) in items {
            let common = module.iter().zip(&item).take_while(|(one, other)| one == other).count();
            if let (Some(from), Some(to)) = (module.get(..=common), item.get(..=common))
                && modules.iter().any(|module| module.starts_with(to))
            {
                imports.entry((from.to_vec(), to.to_vec())).or_insert_with(|| format!("{}: `{path}`", name.display()));
            }
        }
    }
    imports
}

/// The imports that are part of a circle, or lie between two circles.
fn circles(imports: Imports) -> Vec<String> {
    let mut left = imports;
    loop {
        let (importing, imported): (BTreeSet<_>, BTreeSet<_>) = left.keys().cloned().unzip();
        let before = left.len();
        left.retain(|(from, to), _| imported.contains(from) && importing.contains(to));
        if left.len() == before {
            return left.into_iter().map(|((from, to), at)| format!("{} imports {}: {at}", from.join("::"), to.join("::"))).collect();
        }
    }
}

/// The files of a library, without its root and its tests.
fn library(folder: &str) -> Vec<(PathBuf, File)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = sources(&root).into_iter().map(|file| (file.strip_prefix(&root).unwrap().to_owned(), file));
    let files = files.filter(|(name, _)| name != Path::new("lib.rs") && !name.ends_with("tests.rs"));
    let parsed = |(name, file): (PathBuf, PathBuf)| {
        let source = syn::parse_file(&fs::read_to_string(file).unwrap());
        let source = source.unwrap_or_else(|error| panic!("{}: {error}", name.display()));
        (name, source)
    };
    files.map(parsed).collect()
}

#[test]
fn no_layer_imports_from_one_above_it() {
    for (folder, layers) in [("src", CORE), ("../queue-worker/src", WORKER)] {
        let problems: Vec<String> = library(folder).iter().flat_map(|(name, source)| wrong(layers, name, source)).collect();
        assert!(problems.is_empty(), "in {folder}:\n{}", problems.join("\n"));
    }
}

#[test]
fn no_circle_crosses_modules() {
    // In queue-core, between modules of the root.
    let mut core = imports(&library("src"));
    core.retain(|(from, _), _| from.len() == 1);
    for imports in [core, imports(&library("../queue-worker/src"))] {
        assert!(imports.len() > 60, "only {} imports were found", imports.len());
        let circles = circles(imports);
        assert!(circles.is_empty(), "\n{}", circles.join("\n"));
    }
}

#[test]
fn a_circle_is_found_between_modules_of_one_folder_and_of_several() {
    let count = |files: &[(&str, &str)]| {
        let parsed: Vec<_> = files.iter().map(|(name, source)| (PathBuf::from(name), syn::parse_str(source).unwrap())).collect();
        circles(imports(&parsed)).len()
    };
    let top = ("engine.rs", "use crate::duties::janitor::Janitor;");
    assert_eq!(count(&[top, ("duties/janitor.rs", "use super::Pass;"), ("duties/mod.rs", "mod janitor;")]), 0);
    assert_eq!(count(&[top, ("duties/janitor.rs", "use crate::engine::Shared;")]), 2);
    let three = [("a.rs", "use crate::b::B;"), ("b.rs", "use super::c::C;"), ("c.rs", "fn of(a: crate::a::A) {}")];
    assert_eq!(count(&three), 3);
    assert_eq!(count(&[three[0], three[1], three[2], ("d.rs", "use crate::a::A;")]), 3, "d is outside of the circle");
    let siblings = [("pump/turns.rs", "use super::answers::Done;"), ("pump/answers.rs", "use crate::pump::turns::sent;")];
    assert_eq!(count(&siblings), 2);
    assert_eq!(count(&[siblings[0], ("pump/answers.rs", "#[cfg(test)] mod tests { use crate::pump::turns::sent; }")]), 0);
}

/// The half of the auditor that finds damage sees mistakes of the doors: it names none of them but
/// the numbers of states.
#[test]
fn the_finder_of_sqlite_calls_no_door() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sqlite/audit");
    let text = fs::read_to_string(root.join("find.rs")).unwrap();
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let of_doors: Vec<&&str> = code.iter().filter(|line| line.contains("doors")).collect();
    assert!(of_doors.iter().all(|line| line.trim_start().starts_with("doors::row::{")), "{of_doors:?}");
    assert!(!code.iter().any(|line| line.contains("super::")));
}

#[test]
fn an_import_from_above_is_found_however_it_is_written() {
    let of = |file: &str, source: &str| wrong(CORE, Path::new(file), &syn::parse_str(source).unwrap()).len();
    assert_eq!(of("broker/turn.rs", "use crate::client::Client;"), 1);
    assert_eq!(of("broker/turn.rs", "use crate::{address::JobId, client::{Client, Handle}};"), 2);
    assert_eq!(of("broker/turn.rs", "use super::super::client::*;"), 1);
    assert_eq!(of("broker/turn.rs", "fn of(job: &crate::context::JobContext) {}"), 1);
    assert_eq!(of("broker/turn.rs", "mod inner { use super::super::super::redis; }"), 1);
    assert_eq!(of("broker/turn.rs", "use super::lease::Extend; use crate::address::JobId;"), 0);
    assert_eq!(of("broker/turn.rs", "#[cfg(test)] mod tests { use crate::client::Client; }"), 0);
    assert_eq!(of("broker/turn.rs", "#[cfg(all(test, feature = \"redis\"))] mod tests { use crate::client::Client; }"), 0);
    assert_eq!(of("broker/turn.rs", "#[cfg(not(test))] mod inner { use crate::client::Client; }"), 1);
    assert_eq!(of("client/mod.rs", "use crate::{broker::Turn, redis::RedisBroker};"), 0);
    assert_eq!(of("error.rs", "use crate::JobId;"), 1, "by way of the root");
    assert_eq!(of("new/mod.rs", ""), 1, "without a layer");
}

//! That the layers of this library hold: none imports from one above it, read from the sources by a parser of Rust.

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

/// The layers, from the ground up, and the modules of each. A module may import from its own layer and from those below.
const LAYERS: [(&str, &[&str]); 6] = [
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
            "io",
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

/// Circles that are left: the first module imports from the second, which needs the first. None may be added.
const TIES: [(&str, &str, &str); 1] = [("error", "address", "an error names its job, and to read a name may fail")];

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|(_, modules)| modules.contains(&module))
}

/// The modules of this library that a file names, each with the path by which it does.
struct Named {
    /// The file's own module.
    module: Vec<String>,
    modules: BTreeMap<String, String>,
}

impl Named {
    /// Notes the module that a path leads to. A path that begins with the name of a crate, or of something in scope, leads to none.
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
        if let Some(module) = at.first() {
            self.modules.entry(module.clone()).or_insert_with(|| path.join("::"));
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

/// The module of a file, from the root of the library.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> = file.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|part| part == "mod") {
        parts.pop();
    }
    parts
}

/// The modules from which each module imports.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// The imports that are part of a circle of modules.
fn circles(imports: &Imports) -> Vec<String> {
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            next.extend(
                imports.get(module).into_iter().flat_map(BTreeMap::keys).filter(|name| seen.insert(name.as_str())).map(String::as_str),
            );
        }
        seen.contains(to)
    };
    let pairs = imports.iter().flat_map(|(from, named)| named.iter().map(move |(to, path)| (from, to, path)));
    let tied = pairs.filter(|(from, to, _)| from != to && reaches(to, from));
    tied.map(|(from, to, path)| format!("{from}: `{path}` closes a circle of modules: `{to}` needs `{from}`")).collect()
}

/// What is wrong with the imports of a file.
fn wrong(name: &Path, source: &File) -> Vec<String> {
    let module = module_of(name);
    let Some(own) = layer_of(&module[0]) else {
        return vec![format!("{}: give the module `{}` a layer in tests/library/layers.rs", name.display(), module[0])];
    };
    let mut named = Named { module, modules: BTreeMap::new() };
    named.visit_file(source);
    let problem = |(module, path): (String, String)| match layer_of(&module) {
        Some(layer) if layer <= own => None,
        Some(layer) => {
            Some(format!("{}: `{path}` is of a layer above: {} must not import from {}", name.display(), LAYERS[own].0, LAYERS[layer].0))
        }
        None => Some(format!("{}: write `{path}` with the module that it is in", name.display())),
    };
    named.modules.into_iter().filter_map(problem).collect()
}

/// The sources of the library, each with its name.
fn files() -> Vec<(PathBuf, File)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let named = sources(&root).into_iter().map(|file| (file.strip_prefix(&root).unwrap().to_owned(), fs::read_to_string(&file).unwrap()));
    let own = named.filter(|(name, _)| name != Path::new("lib.rs") && !name.ends_with("tests.rs"));
    own.map(|(name, text)| (name.clone(), syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", name.display())))).collect()
}

#[test]
fn no_layer_imports_from_one_above_it() {
    let problems: Vec<_> = files().iter().flat_map(|(name, source)| wrong(name, source)).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn no_circle_crosses_modules() {
    let mut imports = Imports::new();
    for (name, source) in files() {
        let mut named = Named { module: module_of(&name), modules: BTreeMap::new() };
        named.visit_file(&source);
        imports.entry(module_of(&name).swap_remove(0)).or_default().extend(named.modules);
    }
    for (from, to, _) in TIES {
        assert!(
            imports.get_mut(from).is_some_and(|named| named.remove(to).is_some()),
            "`{from}` imports nothing from `{to}`: take it off the list"
        );
    }
    let problems = circles(&imports);
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    let of = |from: &str, to: &str| (from.to_owned(), BTreeMap::from([(to.to_owned(), format!("crate::{to}"))]));
    assert_eq!(circles(&Imports::from([of("a", "b"), of("b", "c"), of("c", "b"), of("d", "d")])).len(), 2);
}

/// The half of the auditor that finds damage sees mistakes of the doors: it names none of them but the numbers of states.
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
    let of = |file: &str, source: &str| wrong(Path::new(file), &syn::parse_str(source).unwrap()).len();
    assert_eq!(of("broker/turn.rs", "use crate::client::Client;"), 1);
    assert_eq!(of("broker/turn.rs", "use crate::{address::JobId, client::{Client, Handle}};"), 1);
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

//! Every link of a page leads somewhere: the file is there, and has the heading.

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

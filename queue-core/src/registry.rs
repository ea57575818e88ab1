//! The tasks that a program knows, by name.

use std::{collections::BTreeMap, fmt};

use crate::task::TaskDef;

/// A definition on its way into the default registry; the macros submit it.
#[derive(Debug)]
pub struct Submitted(pub &'static TaskDef);

inventory::collect!(Submitted);

/// Tasks by name and alias. [`Registry::linked`] holds everything that `#[task]` declared in the crates that the program
/// names; a crate that nothing names is dropped by the linker, so write `use shop_tasks as _;`, or register by hand.
#[derive(Clone, Default)]
pub struct Registry {
    tasks: BTreeMap<&'static str, &'static TaskDef>,
    clashes: Vec<(&'static TaskDef, &'static TaskDef, &'static str)>,
}

impl Registry {
    /// A registry without tasks.
    pub fn empty() -> Self {
        Registry::default()
    }

    /// All tasks that are linked into this program.
    pub fn linked() -> Self {
        let mut registry = Registry::empty();
        for Submitted(task) in inventory::iter::<Submitted> {
            registry.add(task);
        }
        registry
    }

    /// Adds a task. Adding the same one again changes nothing.
    pub fn add(&mut self, task: &'static TaskDef) {
        for name in std::iter::once(task.name).chain(task.aliases.iter().copied()) {
            match self.tasks.get(name) {
                Some(other) if !same(other, task) => self.clashes.push((other, task, name)),
                Some(_) => {}
                None => {
                    self.tasks.insert(name, task);
                }
            }
        }
    }

    /// Finds a task by its name or an alias.
    pub fn get(&self, name: &str) -> Option<&'static TaskDef> {
        self.tasks.get(name).copied()
    }

    /// The tasks, sorted by name, each once.
    pub fn tasks(&self) -> impl Iterator<Item = &'static TaskDef> {
        self.tasks.iter().filter(|(name, task)| **name == task.name).map(|(_, task)| *task)
    }

    /// All names and aliases, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.tasks.keys().copied()
    }

    /// Names that two tasks claim, one message each, naming both places.
    pub fn duplicates(&self) -> Vec<String> {
        self.clashes
            .iter()
            .map(|(one, other, name)| {
                format!(
                    "two tasks are named `{name}`: {}:{} and {}:{}; give one another name with `#[task(name = \"...\")]`",
                    one.file, one.line, other.file, other.line
                )
            })
            .collect()
    }
}

fn same(one: &TaskDef, other: &TaskDef) -> bool {
    (one.name, one.file, one.line) == (other.name, other.file, other.line)
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tasks()).finish()
    }
}

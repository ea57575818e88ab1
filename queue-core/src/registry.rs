//! The tasks that a program knows, by name.

use std::{collections::BTreeMap, fmt};

use crate::task::TaskDef;

/// A definition on its way into the default registry; the macros submit it.
#[derive(Debug)]
pub struct Submitted(pub &'static TaskDef);

inventory::collect!(Submitted);

/// Two tasks and the name that both claim.
type Clash = (&'static TaskDef, &'static TaskDef, &'static str);

/// Tasks by name and alias. [`Registry::linked`] holds everything that `#[task]` declared in the crates that the program
/// names; a crate that nothing names is dropped by the linker, so write `use shop_tasks as _;`, or register by hand.
#[derive(Clone, Default)]
pub struct Registry {
    tasks: BTreeMap<&'static str, &'static TaskDef>,
    clashes: Vec<Clash>,
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
                // By address: what one `macro_rules!` declares twice has one name, file and line.
                Some(other) if !std::ptr::eq(*other, task) => {
                    let clash = if place(other) <= place(task) { (*other, task, name) } else { (task, *other, name) };
                    if !self.clashes.iter().any(|known| same(*known, clash)) {
                        self.clashes.push(clash);
                    }
                }
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

    /// Names that two tasks claim, one message each, sorted, naming both places.
    pub fn duplicates(&self) -> Vec<String> {
        let mut messages: Vec<String> = self
            .clashes
            .iter()
            .map(|(one, other, name)| {
                let (first, second) = (claim(one, name), claim(other, name));
                format!(
                    "two tasks are named `{name}`: {first} and {second}; give one of them another name with `#[task(name = \"...\")]`, \
                     or take the alias away"
                )
            })
            .collect();
        // The linker orders the tasks as it likes.
        messages.sort();
        messages
    }
}

/// Where a task claims a name, and by what right.
fn claim(task: &TaskDef, name: &str) -> String {
    let alias = if task.name == name { String::new() } else { format!(" (as an alias of `{}`)", task.name) };
    format!("{}:{}{alias}", task.file, task.line)
}

fn place(task: &TaskDef) -> (&'static str, u32) {
    (task.file, task.line)
}

fn same(one: Clash, other: Clash) -> bool {
    std::ptr::eq(one.0, other.0) && std::ptr::eq(one.1, other.1) && one.2 == other.2
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tasks()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        outcome::Outcome,
        task::{Call, RunFn},
    };

    fn run(_: Call) -> Outcome {
        Outcome::Done
    }

    const fn def(name: &'static str, aliases: &'static [&'static str], line: u32) -> TaskDef {
        let mut def = TaskDef::new(name, RunFn::Blocking(run), |_| Ok(Vec::new()));
        (def.aliases, def.file, def.line) = (aliases, "src/tasks.rs", line);
        def
    }

    static SEND: TaskDef = def("send", &["mail"], 10);
    static TWIN: TaskDef = def("send", &[], 10);
    static MAIL: TaskDef = def("mail", &[], 2);

    fn registry(tasks: &[&'static TaskDef]) -> Registry {
        let mut registry = Registry::empty();
        tasks.iter().for_each(|task| registry.add(task));
        registry
    }

    #[test]
    fn a_task_is_found_by_its_name_and_its_aliases_and_listed_once() {
        let registry = registry(&[&SEND, &SEND]);
        assert!(std::ptr::eq(registry.get("mail").unwrap(), &SEND));
        assert_eq!((registry.tasks().count(), registry.names().count()), (1, 2));
        assert_eq!(registry.duplicates(), [""; 0]);
        assert!(registry.get("post").is_none());
    }

    #[test]
    fn two_tasks_of_one_name_are_told_with_both_places_in_the_order_of_the_source() {
        let one_way = registry(&[&SEND, &MAIL]).duplicates();
        assert_eq!(one_way, registry(&[&MAIL, &SEND, &SEND]).duplicates());
        let [message] = one_way.as_slice() else { panic!("{one_way:?}") };
        assert!(message.contains("src/tasks.rs:2 and src/tasks.rs:10 (as an alias of `send`)"), "{message}");
    }

    #[test]
    fn two_tasks_from_one_line_are_two() {
        assert_eq!(registry(&[&SEND, &TWIN]).duplicates().len(), 1);
    }
}

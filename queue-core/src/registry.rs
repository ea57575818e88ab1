//! The tasks that a program knows, by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use crate::{
    handler::{HandlerDef, Runnable},
    task::TaskDef,
};

/// A handler on its way into the default registry; the macros submit it.
#[derive(Debug)]
pub struct Submitted(pub &'static HandlerDef);

inventory::collect!(Submitted);

/// Two tasks and the name that both claim.
type Clash = (&'static HandlerDef, &'static HandlerDef, &'static str);

/// Tasks by name and alias. [`Registry::linked`] holds everything that `#[task]` declared in the
/// crates that the program names; a crate that nothing names is dropped by the linker, so write
/// `use shop_tasks as _;`, or register by hand.
#[derive(Clone, Default)]
pub struct Registry {
    handlers: BTreeMap<&'static str, &'static HandlerDef>,
    /// Functions of subscriptions, by queue and type of event: several subscriptions have functions
    /// of one type.
    subscribers: BTreeMap<(&'static str, &'static str), &'static HandlerDef>,
    clashes: Vec<Clash>,
}

impl Registry {
    /// A registry without tasks.
    pub fn empty() -> Self {
        Registry::default()
    }

    /// All tasks that are linked into this program.
    pub fn linked() -> Self {
        Registry::of(|_| true)
    }

    /// The tasks of one source file of this program, as `file!()` names it: test modules share a
    /// program, and each knows its own tasks.
    #[doc(hidden)]
    pub fn declared_in(file: &str) -> Self {
        Registry::of(|task| task.file == file)
    }

    fn of(wanted: impl Fn(&TaskDef) -> bool) -> Self {
        let mut registry = Registry::empty();
        for Submitted(handler) in inventory::iter::<Submitted> {
            if wanted(handler.task) {
                registry.add(handler);
            }
        }
        registry
    }

    /// Adds a task. Adding the same one again changes nothing.
    pub fn register<T: Runnable>(&mut self) {
        self.add(T::handler());
    }

    fn add(&mut self, handler: &'static HandlerDef) {
        let task = handler.task;
        if task.subscription.is_some() {
            let known = *self.subscribers.entry((task.queue, task.name)).or_insert(handler);
            self.note_clash(known, handler, task.name);
            return;
        }
        for name in std::iter::once(task.name).chain(task.aliases.iter().copied()) {
            match self.handlers.get(name) {
                Some(other) => self.note_clash(other, handler, name),
                None => {
                    self.handlers.insert(name, handler);
                }
            }
        }
    }

    /// Notes that two tasks claim a name, unless they are one.
    fn note_clash(&mut self, other: &'static HandlerDef, handler: &'static HandlerDef, name: &'static str) {
        // Compared by address: a task that one `macro_rules!` declares twice has the same name,
        // file and line.
        if std::ptr::eq(other.task, handler.task) {
            return;
        }
        let clash = if place(other.task) <= place(handler.task) { (other, handler, name) } else { (handler, other, name) };
        if !self.clashes.iter().any(|known| same(*known, clash)) {
            self.clashes.push(clash);
        }
    }

    /// Finds the handler of a task by the task's name or an alias.
    pub fn get(&self, name: &str) -> Option<&'static HandlerDef> {
        self.handlers.get(name).copied()
    }

    /// The functions of subscriptions, sorted by queue and type of event.
    pub fn subscribers(&self) -> impl Iterator<Item = &'static HandlerDef> {
        self.subscribers.values().copied()
    }

    /// The handlers, sorted by the name of their task, each once, and then the
    /// [subscribers](Self::subscribers).
    pub fn handlers(&self) -> impl Iterator<Item = &'static HandlerDef> {
        let tasks = self.handlers.iter().filter(|(name, handler)| **name == handler.task.name).map(|(_, handler)| *handler);
        tasks.chain(self.subscribers())
    }

    /// The tasks, sorted by name, each once.
    pub fn tasks(&self) -> impl Iterator<Item = &'static TaskDef> {
        self.handlers().map(|handler| handler.task)
    }

    /// All names and aliases of tasks, and the types of event that subscriptions know, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let names: BTreeSet<&'static str> = self.handlers.keys().copied().chain(self.subscribers.keys().map(|(_, event)| *event)).collect();
        names.into_iter()
    }

    /// Names that two tasks claim, one message each, sorted, naming both places.
    pub fn duplicates(&self) -> Vec<String> {
        let mut messages: Vec<String> = self
            .clashes
            .iter()
            .map(|(one, other, name)| {
                let (first, second) = (claim(one.task, name), claim(other.task, name));
                format!(
                    "two tasks are named `{name}`: {first} and {second}; give one of them another name with `#[task(name = \"...\")]`, \
                     or remove the alias"
                )
            })
            .collect();
        // The linker orders the tasks as it likes.
        messages.sort();
        messages
    }
}

/// The place at which a task declares a name, as its name or an alias.
fn claim(task: &TaskDef, name: &str) -> String {
    let alias = if task.name == name { String::new() } else { format!(" (as an alias of `{}`)", task.name) };
    format!("{}:{}{alias}", task.file, task.line)
}

fn place(task: &TaskDef) -> (&'static str, u32) {
    (task.file, task.line)
}

fn same(one: Clash, other: Clash) -> bool {
    std::ptr::eq(one.0.task, other.0.task) && std::ptr::eq(one.1.task, other.1.task) && one.2 == other.2
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
        handler::{Call, RunFn},
        outcome::Outcome,
    };

    fn run(_: Call) -> Outcome {
        Outcome::Done
    }

    const fn def(name: &'static str, aliases: &'static [&'static str], line: u32) -> TaskDef {
        let mut def = TaskDef::new(name, |_| Ok(Vec::new()));
        (def.aliases, def.file, def.line) = (aliases, "src/tasks.rs", line);
        def
    }

    const fn handler(task: &'static TaskDef) -> HandlerDef {
        HandlerDef { task, run: RunFn::Blocking(run), needs: Vec::new }
    }

    static SEND_TASK: TaskDef = def("send", &["mail"], 10);
    static TWIN_TASK: TaskDef = def("send", &[], 10);
    static MAIL_TASK: TaskDef = def("mail", &[], 2);
    static SEND: HandlerDef = handler(&SEND_TASK);
    static TWIN: HandlerDef = handler(&TWIN_TASK);
    static MAIL: HandlerDef = handler(&MAIL_TASK);

    fn registry(handlers: &[&'static HandlerDef]) -> Registry {
        let mut registry = Registry::empty();
        handlers.iter().for_each(|handler| registry.add(handler));
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
    fn two_tasks_of_one_name_are_reported_with_both_places_in_the_order_of_the_source() {
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

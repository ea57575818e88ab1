//! `tasks`: the tasks of this program.

use std::time::Duration;

use queue_core::{
    __private::{HandlerDef, RunFn},
    Registry, TaskDef,
};
use serde::Serialize;

use super::{
    args::Format,
    exit::{Exit, Failure, print_error},
    output::exact_duration,
    table::{
        self,
        Column::{self, Field, Made},
    },
};

#[derive(Serialize)]
struct TaskRow {
    name: &'static str,
    aliases: &'static [&'static str],
    queue: &'static str,
    params: Vec<ParamRow>,
    priority: &'static str,
    max_attempts: Option<u32>,
    timeout_ms: Option<u128>,
    #[serde(skip)]
    timeout: Option<Duration>,
    retention_ms: Option<u128>,
    blocking: bool,
    file: &'static str,
    line: u32,
}

#[derive(Serialize)]
struct ParamRow {
    name: &'static str,
    #[serde(rename = "type")]
    ty: &'static str,
    required: bool,
    #[serde(skip)]
    option: bool,
}

pub(super) fn tasks(registry: &Registry, format: &Format) -> Result<(), Failure> {
    table::list(format, "tasks", &registry.handlers().map(row).collect::<Vec<_>>(), &COLUMNS, NO_TASK)?;
    let duplicates = registry.duplicates();
    duplicates.iter().for_each(|problem| print_error(problem));
    if duplicates.is_empty() { Ok(()) } else { Err(Failure::silent(Exit::Setup)) }
}

/// Finds a task. The error suggests a similar name.
pub(super) fn find(registry: &Registry, name: &str) -> Result<&'static TaskDef, Failure> {
    if let Some(handler) = registry.get(name) {
        return Ok(handler.task);
    }
    let advice = match queue_core::__private::nearest(name, registry.names()) {
        _ if registry.tasks().next().is_none() => NO_TASK.to_owned(),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", registry.tasks().map(|task| format!("`{}`", task.name)).collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::new(Exit::NotFound, format!("unknown task `{name}`: {advice}")))
}

const NO_TASK: &str = "no task is linked into this program; name the crate that has them (`use shop_tasks as _;`)";

const COLUMNS: [Column<TaskRow>; 5] = [
    Made("task", |task| task.name.to_owned()),
    Field("queue"),
    // `order_id: u64, note: Option<String>`; a parameter with a default ends in `= …`.
    Made("parameters", |task| {
        let params = task.params.iter().map(|param| match param.required || param.option {
            true => format!("{}: {}", param.name, param.ty),
            false => format!("{}: {} = …", param.name, param.ty),
        });
        params.collect::<Vec<_>>().join(", ")
    }),
    Made("attempts", |task| task.max_attempts.map_or_else(String::new, |attempts| attempts.to_string())),
    Made("timeout", |task| task.timeout.map_or_else(String::new, exact_duration)),
];

fn row(handler: &'static HandlerDef) -> TaskRow {
    let task = handler.task;
    TaskRow {
        name: task.name,
        aliases: task.aliases,
        queue: task.queue,
        params: task
            .params
            .iter()
            .map(|param| ParamRow { name: param.name, ty: param.ty, required: param.required, option: param.option })
            .collect(),
        priority: task.priority.name(),
        max_attempts: task.max_attempts,
        timeout: task.timeout,
        timeout_ms: task.timeout.map(|timeout| timeout.as_millis()),
        retention_ms: task.retention.map(|retention| retention.as_millis()),
        blocking: matches!(handler.run, RunFn::Blocking(_)),
        file: task.file,
        line: task.line,
    }
}

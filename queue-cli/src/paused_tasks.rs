//! `tasks paused`, `pause` and `resume`: tasks whose jobs are parked.

use std::collections::BTreeSet;

use clap::Subcommand;
use queue_core::{
    Client, Registry,
    inspect::{HistorySpan, Pause, PauseOf, StoredPause},
};
use serde::Serialize;
use serde_json::json;

use super::{
    address::Address,
    again::QueueArgs,
    answers::change_each,
    args::Format,
    exit::{Exit, Failure, note},
    pauses::{self, PauseArgs},
    queues::{Unreadable, for_each_queue, selected_queues},
    table::{
        self,
        Column::{self, Field, Made},
    },
};

#[derive(Debug, Subcommand)]
pub(super) enum TasksCommand {
    /// List the tasks in this program, with their queues and parameters
    #[command(after_help = "Examples:
  {bin} tasks list --json | jq -r '.tasks[].name'")]
    List(Format),
    /// List the paused tasks, and the number of their parked jobs
    #[command(after_help = "Examples:
  {bin} tasks paused
  {bin} tasks paused --queue mail --json")]
    Paused(QueueArgs),
    /// Pause tasks: their jobs are parked instead of run; running jobs continue
    #[command(after_help = "Examples:
  {bin} tasks pause mail/send_mail
  {bin} tasks pause mail/send_mail --reason 'the mail server is down' --until 30m")]
    Pause {
        /// The queues and the tasks, by the names that are stored with their jobs
        #[arg(required = true, value_name = "QUEUE/TASK")]
        tasks: Vec<Address>,
        #[command(flatten)]
        pause: PauseArgs,
        #[command(flatten)]
        format: Format,
    },
    /// Resume tasks; their parked jobs run first
    #[command(after_help = "Examples:
  {bin} tasks resume mail/send_mail")]
    Resume {
        /// The queues and the tasks
        #[arg(required = true, value_name = "QUEUE/TASK")]
        tasks: Vec<Address>,
        #[command(flatten)]
        format: Format,
    },
}

/// A paused task, as JSON.
#[derive(Serialize)]
struct Row {
    queue: String,
    task: String,
    parked: u64,
    pause: Pause,
}

pub(super) async fn tasks(client: &Client, command: TasksCommand) -> Result<(), Failure> {
    let inspector = client.inspector();
    match command {
        TasksCommand::List(format) => super::tasks::tasks(&Registry::linked(), &format),
        TasksCommand::Paused(QueueArgs { queue, format }) => list(client, queue.as_deref(), &format).await,
        TasksCommand::Pause { tasks, pause, format } => {
            change_each("tasks", &check_queues(client, tasks).await?, &format, async |task| {
                inspector.pause_as(&task.queue, PauseOf::Task(task.name.as_str().into()), pause.pausing()).await?;
                let row = json!({ "queue": task.queue, "task": task.name, "paused": true });
                Ok((format!("{task} is paused{}", pause.end()), row))
            })
            .await
        }
        TasksCommand::Resume { tasks, format } => {
            change_each("tasks", &check_queues(client, tasks).await?, &format, async |task| {
                inspector.resume_of(&task.queue, PauseOf::Task(task.name.as_str().into())).await?;
                Ok((format!("{task} is resumed"), json!({ "queue": task.queue, "task": task.name, "paused": false })))
            })
            .await
        }
    }
}

/// The same tasks, if all of their queues exist. If one is misspelled, nothing is changed.
async fn check_queues(client: &Client, tasks: Vec<Address>) -> Result<Vec<Address>, Failure> {
    for task in &tasks {
        check(client, task).await?;
    }
    Ok(tasks)
}

async fn check(client: &Client, Address { queue, name: task }: &Address) -> Result<(), Failure> {
    selected_queues(client, Some(queue)).await?;
    let known = known_tasks(client, queue).await?;
    if known.contains(task) {
        return Ok(());
    }
    if let Some(near) = queue_core::__private::nearest(task, known.iter().map(String::as_str)) {
        let problem = format!("no job of queue `{queue}` has the task `{task}`: did you mean `{near}`?");
        return Err(Failure::new(Exit::NotFound, problem));
    }
    note(&format!("task `{task}` is new in queue `{queue}`: no worker has it, and no job of it has run"));
    Ok(())
}

/// The known tasks of a queue: those of its workers, those that have run, those that are paused,
/// and those of this program.
pub(super) async fn known_tasks(client: &Client, queue: &str) -> queue_core::Result<BTreeSet<String>> {
    let inspector = client.inspector();
    let (workers, history) = (inspector.workers_of(queue).await?, inspector.history(queue, HistorySpan::TWO_WEEKS).await?);
    let paused = inspector.pauses(queue).await?.into_iter().filter_map(|stored| match stored.of {
        PauseOf::Task(task) => Some(task.to_string()),
        _ => None,
    });
    let linked = Registry::linked();
    let here = linked.tasks().filter(|task| task.queue == queue).map(|task| task.name.to_owned());
    Ok(workers.into_iter().flat_map(|worker| worker.tasks).chain(history.tasks.into_keys()).chain(paused).chain(here).collect())
}

async fn list(client: &Client, queue: Option<&str>, format: &Format) -> Result<(), Failure> {
    let inspector = client.inspector();
    let queues = selected_queues(client, queue).await?;
    let (found, unreadable) = for_each_queue(queues, async |queue| inspector.pauses(queue).await).await?;
    let of_task = |queue: String, stored: StoredPause| match stored.of {
        PauseOf::Task(task) => Some(Row { queue, task: task.to_string(), parked: stored.parked, pause: stored.pause }),
        _ => None,
    };
    let rows: Vec<Row> =
        found.into_iter().flat_map(|(queue, pauses)| pauses.into_iter().filter_map(move |stored| of_task(queue.clone(), stored))).collect();
    table::list(format, "tasks", &rows, &COLUMNS, "no task is paused")?;
    Unreadable::report(&unreadable)
}

const COLUMNS: [Column<Row>; 4] =
    [Field("queue"), Field("task"), Field("parked"), Made("paused", |row| pauses::describe_pause(Some(&row.pause), 100))];

//! `jobs`: lists jobs. `show` tells all about one, `repair` changes them.

use std::time::SystemTime;

use queue_core::{Client, JobRecord, broker::JobState};

use super::{
    args::{JobsCommand, ListArgs},
    exit::{Failure, note},
    output::{print, relative, short, table, write},
    queues::{self, Unreadable},
    repair, show,
};

/// Rows that are printed together.
const PAGE: usize = 500;

pub(super) async fn jobs(client: &Client, command: JobsCommand) -> Result<(), Failure> {
    match command {
        JobsCommand::List(args) => list(client, &args).await,
        JobsCommand::Show { job, format } => show::show(client, &job, &format).await,
        JobsCommand::Requeue(select) => repair::requeue(client, select).await,
        JobsCommand::Promote(select) => repair::promote(client, select).await,
        JobsCommand::Cancel(select) => repair::cancel(client, select).await,
        JobsCommand::Delete(select) => repair::delete(client, select).await,
    }
}

/// Prints page by page, so that neither side ever holds a whole queue.
async fn list(client: &Client, args: &ListArgs) -> Result<(), Failure> {
    let inspector = client.inspector();
    let states = args.state.as_ref().map_or(&JobState::ALL[..], std::slice::from_ref);
    let mut pages = Pages { json: args.format.json, rows: Vec::new(), printed: 0 };
    let (mut left_out, mut unreadable) = (false, Vec::new());
    'queues: for queue in queues::chosen(client, args.queue.as_deref()).await? {
        for state in states {
            let mut walk = inspector.walk(&queue, *state).from(args.offset).at_most(args.limit);
            loop {
                match walk.next().await {
                    Ok(Some(jobs)) => pages.add(jobs)?,
                    Ok(None) => break,
                    Err(error) => {
                        unreadable.push(Unreadable::from(&queue, error)?);
                        continue 'queues;
                    }
                }
            }
            left_out |= walk.goes_on_at().is_some();
        }
    }
    if pages.end()? == 0 && !args.format.json && unreadable.is_empty() {
        note("no such job");
    }
    if left_out {
        note("there are more: raise --limit, or continue with --offset");
    }
    Unreadable::tell(&unreadable)
}

/// Gathers jobs into one table, or one array, and prints what has gathered once it is a page.
struct Pages {
    json: bool,
    rows: Vec<JobRecord>,
    printed: usize,
}

impl Pages {
    fn add(&mut self, rows: Vec<JobRecord>) -> Result<(), Failure> {
        self.rows.extend(rows);
        if self.rows.len() >= PAGE { self.print() } else { Ok(()) }
    }

    fn print(&mut self) -> Result<(), Failure> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        if self.json {
            let mut text = String::new();
            for (i, row) in rows.iter().enumerate() {
                text.push_str(if self.printed + i == 0 { "[\n  " } else { ",\n  " });
                text.push_str(&serde_json::to_string(row).map_err(std::io::Error::other)?);
            }
            write(&text)?;
        } else {
            let now = SystemTime::now();
            let text = table(["job", "task", "state", "#failures", "when", "why"], rows.iter().map(|row| cells(row, now)));
            // The heading stands once.
            let text = if self.printed == 0 { text.as_str() } else { text.split_once('\n').map_or("", |(_, rows)| rows) };
            print(text)?;
        }
        self.printed += rows.len();
        Ok(())
    }

    fn end(mut self) -> Result<usize, Failure> {
        self.print()?;
        match (self.json, self.printed) {
            (false, _) => {}
            (true, 0) => print("[]")?,
            (true, _) => print("\n]")?,
        }
        Ok(self.printed)
    }
}

fn cells(record: &JobRecord, now: SystemTime) -> [String; 6] {
    let why = record.note.as_deref().or(record.reason.map(|reason| reason.name())).unwrap_or_default();
    [
        record.address.to_string(),
        record.task.clone().unwrap_or_else(|| "(unreadable)".to_owned()),
        record.state.to_string(),
        record.failures.to_string(),
        record.due_at.or(record.ended_at).map_or_else(String::new, |time| relative(time, now)),
        short(why, 60),
    ]
}

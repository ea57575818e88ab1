//! A part of a list of jobs: of one queue or of all, filtered by task and text. A page reads jobs
//! for a bounded time, and contains the start of the next page.

use std::time::{Duration, Instant, SystemTime};

use queue_core::{
    Error, JobState,
    inspect::{Filter, Inspector, JobRecord},
};

use crate::{params::Params, secrets::Secrets};

/// Jobs on one page.
pub(crate) const PAGE: usize = 50;

/// Most jobs that are read at once.
const CALL: usize = 500;

/// The time for which jobs are read for a page.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1_500);

/// A search without results continues automatically for this number of pages, which is about a
/// minute.
pub(crate) const PAGES: u64 = 40;

/// The number of the next page of a search that continues automatically. `None`: it has found jobs,
/// has ended, or has reached its last page.
pub(crate) fn next_page(params: &Params, found: usize, has_next: bool) -> Option<u64> {
    Some(params.number::<0, PAGES>("pages").get() + 1).filter(|page| found == 0 && has_next && *page < PAGES)
}

/// The requested jobs.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) state: JobState,
    /// Part of the task's name.
    pub(crate) task: String,
    pub(crate) text: Text,
}

/// The text in the field Text.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    /// Part of the id, the task's name, the parameters, the headers, the last error, the reason or
    /// the note. Hidden values are not compared.
    Plain(String),
    /// A filter in the form of the command line.
    Filter(Filter),
}

impl Text {
    /// Reads it as a filter if it is valid, else as a text. Also returns the error, if it looks
    /// like a filter and is not valid.
    pub(crate) fn read(text: &str) -> (Self, Option<String>) {
        let plain = || Text::Plain(text.to_owned());
        if !text.contains(['=', '~']) {
            return (plain(), None);
        }
        match text.parse() {
            Ok(filter) => match secret_filter_error(&filter) {
                None => (Text::Filter(filter), None),
                why => (plain(), why),
            },
            Err(error) => (plain(), Some(error.to_string())),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Text::Plain(text) => text.is_empty(),
            Text::Filter(filter) => filter.is_empty(),
        }
    }
}

/// The reason why a filter is rejected. It compares the stored values, so a visitor could find out
/// hidden values by guessing.
pub(crate) fn secret_filter_error(filter: &Filter) -> Option<String> {
    filter.reads_secrets().then(|| {
        "parameters, headers and parts of unique keys are searched as plain text, on the page Jobs, so that hidden values stay hidden"
            .to_owned()
    })
}

/// A position in a list: a queue, and the offset within it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) queue: String,
    pub(crate) offset: u64,
}

/// The results of a search.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) jobs: Vec<JobRecord>,
    /// The start of the next page.
    pub(crate) next: Option<Place>,
    /// The number of jobs that were read.
    pub(crate) read: usize,
}

impl Wanted {
    fn is_narrower(&self) -> bool {
        !self.task.is_empty() || !self.text.is_empty()
    }

    fn matches(&self, job: &JobRecord, secrets: &Secrets, now: SystemTime) -> bool {
        let has = |text: &str, part: &str| text.to_lowercase().contains(&part.to_lowercase());
        if !has(job.task.as_deref().unwrap_or_default(), &self.task) {
            return false;
        }
        let text = match &self.text {
            Text::Plain(text) => text,
            Text::Filter(filter) => return filter.matches(job, now),
        };
        text.is_empty()
            || has(&job.address.id.to_string(), text)
            || has(job.task.as_deref().unwrap_or_default(), text)
            || [job.last_error(), job.note.as_deref(), job.undecodable.as_deref()].into_iter().flatten().any(|words| has(&secrets.text(words), text))
            || job.reason.is_some_and(|reason| has(reason.name(), text))
            || secrets.headers(&job.headers).iter().any(|(name, value)| has(name, text) || has(value, text))
            // Compares the shown text, so that a search cannot reveal a secret step by step.
            || job.payload_json().ok().and_then(|json| secrets.json(&json).ok()).is_some_and(|json| has(&json, text))
    }
}

/// Adds the reasons why the jobs wait, if the filter needs them. For the jobs of a page, they are
/// added later.
async fn with_reasons(inspector: &Inspector, queue: &str, mut jobs: Vec<JobRecord>, wanted: &Wanted) -> Result<Vec<JobRecord>, Error> {
    if matches!(&wanted.text, Text::Filter(filter) if filter.needs_reasons()) {
        inspector.add_reasons(queue, &mut jobs).await?;
    }
    Ok(jobs)
}

/// Reads from a position on, through the following queues, until a page is full or enough jobs were
/// read.
pub(crate) async fn find(
    inspector: &Inspector,
    queues: &[String],
    from: &Place,
    wanted: &Wanted,
    secrets: &Secrets,
) -> Result<Found, Error> {
    let (until, now) = (Instant::now() + PATIENCE, SystemTime::now());
    let mut found = Found::default();
    let Some(first) = queues.iter().position(|queue| *queue >= from.queue) else { return Ok(found) };
    let mut offset = if queues[first] == from.queue { from.offset } else { 0 };
    for queue in queues.iter().skip(first) {
        let mut place = Some(std::mem::take(&mut offset));
        while let Some(offset) = place {
            let room = PAGE - found.jobs.len();
            if room == 0 || Instant::now() >= until {
                found.next = Some(Place { queue: queue.clone(), offset });
                return Ok(found);
            }
            // A filtered list reads more jobs than it shows. Each shown job has its own offset only
            // if few jobs are read at the end.
            let limit = if wanted.is_narrower() { CALL } else { room };
            let page = inspector.list(queue, wanted.state, offset, limit).await?;
            let read = page.jobs.len();
            place = page.next.filter(|next| *next > offset);
            let jobs = with_reasons(inspector, queue, page.jobs, wanted).await?;
            let fitting: Vec<JobRecord> = jobs.into_iter().filter(|job| wanted.matches(job, secrets, now)).collect();
            if fitting.len() <= room {
                found.read += read;
                found.jobs.extend(fitting);
                continue;
            }
            // There are more jobs than the page has room for. This part is read again in small
            // steps.
            return read_matching(inspector, queue, offset, wanted, secrets, found).await;
        }
    }
    Ok(found)
}

/// Reads in steps of a few jobs, so that the page ends right after its last job.
async fn read_matching(
    inspector: &Inspector,
    queue: &str,
    from: u64,
    wanted: &Wanted,
    secrets: &Secrets,
    mut found: Found,
) -> Result<Found, Error> {
    let (mut place, now) = (Some(from), SystemTime::now());
    while let Some(offset) = place.filter(|_| found.jobs.len() < PAGE) {
        // A step has at most as many jobs as there is room for.
        let page = inspector.list(queue, wanted.state, offset, PAGE - found.jobs.len()).await?;
        place = page.next.filter(|next| *next > offset);
        found.read += page.jobs.len();
        let jobs = with_reasons(inspector, queue, page.jobs, wanted).await?;
        found.jobs.extend(jobs.into_iter().filter(|job| wanted.matches(job, secrets, now)));
    }
    found.next = place.map(|offset| Place { queue: queue.to_owned(), offset });
    Ok(found)
}

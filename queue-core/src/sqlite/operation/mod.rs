//! Operations, and the walk through jobs that they need.

use rusqlite::params;

use crate::{
    address::JobId,
    broker::{Browse, Browsed, Changed, JobState, Operate, Operated, Operation, OperationDeed, OperationPart, StoredJob},
    error::Error,
    sqlite::{
        connection::{
            lenient::{Bytes, Number, Words},
            statement::sql,
            tx::{Failed, Queue, Tx},
        },
        doors::row,
        people,
    },
};

/// Where a walk goes on: behind an id, or behind a place of a state.
#[derive(Debug, PartialEq, Eq)]
enum Position {
    All(Vec<u8>),
    State { state: JobState, rank: i64, pos: i64, id: Vec<u8> },
}

impl Position {
    fn start(state: JobState) -> Self {
        Position::State { state, rank: i64::MIN, pos: i64::MIN, id: Vec::new() }
    }

    fn text(&self) -> String {
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        match self {
            Position::All(id) => format!("all:{}", hex(id)),
            Position::State { state, rank, pos, id } => format!("{state}:{rank}:{pos}:{}", hex(id)),
        }
    }

    fn of_text(text: &str) -> Option<Self> {
        let bytes =
            |hex: &str| (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok()).collect::<Option<Vec<_>>>();
        match text.split(':').collect::<Vec<_>>().as_slice() {
            ["all", id] => bytes(id).map(Position::All),
            [state, rank, pos, id] => {
                Some(Position::State { state: state.parse().ok()?, rank: rank.parse().ok()?, pos: pos.parse().ok()?, id: bytes(id)? })
            }
            _ => None,
        }
    }
}

/// Jobs that wait or run move from place to place, also within a state: all jobs are gone through for them, by their ids, so that each is met once. States in which jobs have ended
/// have an order in which a job that stays keeps its place.
pub(crate) fn browse(tx: &mut Tx<'_>, request: &Browse) -> Result<Browsed, Failed> {
    let Some(queue) = tx.queue(&request.queue)? else { return Ok(Browsed::default()) };
    let Some(first) = request.states.first() else { return Ok(Browsed::default()) };
    let start = || if request.states.iter().all(|state| state.is_final()) { Position::start(*first) } else { Position::All(Vec::new()) };
    let unknown = |text: &String| Error::invalid("position", text, "is none of these jobs");
    let position = match &request.after {
        None => start(),
        Some(text) => Position::of_text(text).ok_or_else(|| unknown(text))?,
    };
    match position {
        Position::All(after) => all(tx, &queue, request, &after),
        Position::State { state, rank, pos, id } => of_state(tx, &queue, request, state, (rank, pos, id)),
    }
}

fn all(tx: &Tx<'_>, queue: &Queue<'_>, request: &Browse, after: &[u8]) -> Result<Browsed, Failed> {
    let mut page = tx.sql(sql!("browse_all.sql"))?;
    let found: Vec<(Vec<u8>, i64)> = page
        .query_map(params![queue.key, after, request.limit], |row| Ok((row.get::<_, Bytes>(0)?.0, row.get::<_, Number>(1)?.0)))?
        .collect::<rusqlite::Result<_>>()?;
    let next = found.last().filter(|_| found.len() == request.limit).map(|(id, _)| Position::All(id.clone()).text());
    let wanted = found.iter().filter(|(_, state)| row::state(*state).is_ok_and(|state| request.states.contains(&state)));
    let jobs = listed(tx, queue, request, wanted.map(|(id, _)| id))?;
    let looked = if request.goes_through_all() { found.len() } else { jobs.len() };
    Ok(Browsed::new(jobs, looked as u64, next))
}

fn of_state(tx: &Tx<'_>, queue: &Queue<'_>, request: &Browse, state: JobState, after: (i64, i64, Vec<u8>)) -> Result<Browsed, Failed> {
    let mut page = tx.sql(sql!("browse_state.sql"))?;
    let (rank, pos, id) = after;
    let found: Vec<(Vec<u8>, i64, i64)> = page
        .query_map(params![queue.key, row::number(state), rank, pos, id, request.limit], |row| {
            Ok((row.get::<_, Bytes>(0)?.0, row.get::<_, Number>(1)?.0, row.get::<_, Number>(2)?.0))
        })?
        .collect::<rusqlite::Result<_>>()?;
    let next = match found.last().filter(|_| found.len() == request.limit) {
        Some((id, rank, pos)) => Some(Position::State { state, rank: *rank, pos: *pos, id: id.clone() }),
        None => request.states.iter().skip_while(|known| **known != state).nth(1).copied().map(Position::start),
    };
    let jobs = listed(tx, queue, request, found.iter().map(|(id, ..)| id))?;
    Ok(Browsed::new(jobs, found.len() as u64, next.as_ref().map(Position::text)))
}

fn listed<'a>(tx: &Tx<'_>, queue: &Queue<'_>, request: &Browse, ids: impl Iterator<Item = &'a Vec<u8>>) -> Result<Vec<StoredJob>, Failed> {
    let mut jobs = Vec::new();
    // What is no id is for the auditor to find.
    for id in ids.filter_map(|id| JobId::from_bytes(id).ok()) {
        let job = people::shown(tx, queue, &id)?;
        jobs.extend(job.filter(|job| request.states.contains(&job.state)).map(StoredJob::listed));
    }
    Ok(jobs)
}

pub(crate) fn operations(tx: &mut Tx<'_>, queue: &str) -> Result<Vec<Operation>, Failed> {
    match tx.queue(queue)? {
        Some(queue) => stored(tx, &queue),
        None => Ok(Vec::new()),
    }
}

fn stored(tx: &Tx<'_>, queue: &Queue<'_>) -> Result<Vec<Operation>, Failed> {
    const ALL: &str = "SELECT id, stored FROM queue_operations WHERE queue = ?1";
    let mut all = tx.sql(ALL)?;
    let rows = all.query_map(params![queue.key], |row| Ok((row.get::<_, Words>(0)?.0, row.get::<_, Bytes>(1)?.0)))?;
    // What is no operation is another program's.
    let known =
        rows.map(|row| row.map(|(id, stored)| Operation::of_stored(queue.name, &id, &stored))).collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(known.into_iter().flatten().collect())
}

pub(crate) fn operate(tx: &mut Tx<'_>, request: &Operate) -> Result<Operated, Failed> {
    const STORE: &str = "INSERT OR REPLACE INTO queue_operations (queue, id, stored) VALUES (?1, ?2, ?3)";
    const REMOVE: &str = "DELETE FROM queue_operations WHERE queue = ?1 AND id = ?2";
    let queue = match &request.deed {
        OperationDeed::Start(_) => tx.queue_made(&request.queue)?,
        _ => match tx.queue(&request.queue)? {
            Some(queue) => queue,
            None => return Ok(Operated::Nobody),
        },
    };
    let before = stored(tx, &queue)?;
    let (mut after, key, now) = (before.clone(), queue.key, tx.now);
    let answer = request.carry_out(&mut after, now, |step, started| match &step.part {
        OperationPart::Change { change, reason, ids, .. } => {
            let mut concerned = Vec::with_capacity(ids.len());
            for id in ids {
                let job = people::shown(tx, &queue, id)?;
                concerned.extend(job.filter(|job| step.part.concerns(job, started)).map(|job| job.id));
            }
            let passed = ids.len() - concerned.len();
            let mut answers = people::change(tx, &request.queue, *change, reason.as_deref(), &concerned)?;
            answers.extend(std::iter::repeat_n(Changed::No, passed));
            Ok::<_, Failed>(answers)
        }
        // A row that is gone leaves no place behind: the walk removes them all.
        OperationPart::Pop => Ok(Vec::new()),
    })?;
    for gone in before.iter().filter(|old| !after.iter().any(|operation| operation.id == old.id)) {
        tx.sql(REMOVE)?.execute(params![key, gone.id])?;
    }
    for operation in after.iter().filter(|operation| !before.contains(operation)) {
        tx.sql(STORE)?.execute(params![key, operation.id, operation.stored().into_bytes()])?;
    }
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written() {
        for position in [
            Position::All(Vec::new()),
            Position::All(vec![1, 0xff]),
            Position::start(JobState::Dead),
            Position::State { state: JobState::Retry, rank: 0, pos: -17, id: b"=mine".to_vec() },
        ] {
            assert_eq!(Position::of_text(&position.text()), Some(position));
        }
        for strange in ["", "all", "all:zz", "asleep:0:0:", "dead:0:"] {
            assert_eq!(Position::of_text(strange), None, "{strange}");
        }
    }
}

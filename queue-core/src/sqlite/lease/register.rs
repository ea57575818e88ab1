//! R1: registers under a name that was never used before.

use rusqlite::params;

use crate::{
    broker::{LOST_AT, Party, PartyName, Register, Registered},
    sqlite::{
        connection::tx::{Failed, Tx, after},
        history,
    },
};

/// `nonce` distinguishes names of one process and number if a lost file starts counting again.
pub(crate) fn register(tx: &mut Tx<'_>, request: &Register, nonce: u64) -> Result<Registered, Failed> {
    /// The record of a worker, with its first lane: since then the worker is registered.
    const WORKER: &str = "INSERT OR IGNORE INTO queue_workers (queue, process, record) VALUES (?1, ?2, ?3)";
    /// A new lane, which has taken no turn yet.
    const REGISTER: &str = "INSERT INTO queue_lanes (queue, name, process, deadline, duration) VALUES (?1, ?2, ?3, ?4, ?5)";
    const NEXT: &str =
        "UPDATE queue_queues SET registrations = min(registrations + 1, 9007199254740992) WHERE queue = ?1 RETURNING registrations";
    const PRODUCER: &str = "INSERT INTO queue_producers (queue, name, seen) VALUES (?1, ?2, ?3)";
    let queue = tx.queue_or_create(&request.queue)?;
    let number: i64 = tx.sql(NEXT)?.query_row([queue.key], |row| row.get(0))?;
    let name = PartyName::new(format!("{}.{nonce:016x}.{number}", request.process));
    match &request.party {
        Party::Lane { lease, info, lost } => {
            if *lost {
                tx.store_time(queue.key, LOST_AT)?;
            }
            let (deadline, duration) = (after(tx.now, *lease), after(0, *lease));
            tx.sql(WORKER)?.execute(params![queue.key, name.process(), info.stored(tx.now)])?;
            history::record_release(tx, &queue, &info.release())?;
            tx.sql(REGISTER)?.execute(params![queue.key, name.as_str(), name.process(), deadline, duration])?;
        }
        Party::Producer => drop(tx.sql(PRODUCER)?.execute(params![queue.key, name.as_str(), tx.now])?),
    }
    const HAS_LANE: &str = "SELECT EXISTS (SELECT 1 FROM queue_lanes WHERE queue = ?1)";
    let served = queue.claim > 0 || tx.sql(HAS_LANE)?.query_row([queue.key], |row| row.get(0))?;
    Ok(Registered::new(name, tx.now).served(served))
}

//! The audit searches a queue for rows that another program or a bug of this library has damaged,
//! and repairs them. `sweep` removes expired data.

mod find;
mod repair;
mod sweep;

pub(crate) use self::sweep::{remembered_since, sweep};
use crate::{
    broker::{Audit, Damage},
    sqlite::{
        connection::tx::{Failed, Tx},
        doors::end,
    },
};

pub(crate) fn audit(tx: &mut Tx<'_>, name: &str, how: Audit) -> Result<Vec<Damage>, Failed> {
    let Some(mut queue) = tx.queue(name)? else { return Ok(Vec::new()) };
    let mut damages = Vec::new();
    for check in find::CHECKS.into_iter().filter(|check| how.thorough || !check.is_thorough()) {
        let found = check.find(tx, &queue)?;
        damages.extend(found.iter().map(|found| Damage { kind: check.kind(), subject: check.describe_subject(found) }));
        for found in found.iter().filter(|_| how.repair) {
            repair::repair(tx, &mut queue, check, found)?;
        }
    }
    if how.repair && !damages.is_empty() {
        end::count_repairs(tx, &queue, damages.len());
        tx.save(&queue)?;
    }
    Ok(damages)
}

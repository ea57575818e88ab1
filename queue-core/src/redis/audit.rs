//! Looking through a queue for damage by other hands, in bounded steps.
//!
//! Every question is answered by a script, which looks again at what was read before, so that what merely moved meanwhile is
//! not taken for broken. Most queues are sound: then three small calls see it, by a balance of jobs and places.

use std::collections::HashSet;

use super::{
    RedisBroker,
    answers::{array, bytes, next, number, text},
    keys::{Kind, READY},
    script::AUDIT,
};
use crate::{
    address::JobId,
    broker::{Audit, Damage, DamageKind},
    error::Result,
};

/// Items of one call.
const STEP: usize = 500;

/// Jobs without a place that are looked for in `ready` together.
const SLICE: usize = 50_000;

/// Ids of lists that one call passes, some two milliseconds: each job that is looked for passes all lists. In longer lists it is
/// one job a call.
const PASSED: usize = 40_000;

pub(super) async fn audit(broker: &RedisBroker, queue: &str, how: Audit) -> Result<Vec<Damage>> {
    let pass = Pass { broker, queue, how };
    let mut damages = Vec::new();
    let lanes = array(broker.read(queue, &broker.keys.on("HKEYS", queue, Kind::Workers)).await?)?;
    let lanes: Vec<Vec<u8>> = lanes.into_iter().map(bytes).collect::<Result<_>>()?;
    for lanes in lanes.chunks(STEP) {
        damages.extend(
            pass.ask("lanes", lanes)
                .await?
                .into_iter()
                .map(|name| Damage { kind: DamageKind::LaneWithoutLease, subject: String::from_utf8_lossy(&name).into_owned() }),
        );
    }
    pass.held(&mut damages).await?;
    let call = pass.call("balance", &[]);
    let balance: i64 = number(broker.script(queue, &AUDIT, call).await?)?;
    if balance != 0 || how.thorough {
        pass.hollow(&mut damages).await?;
        pass.strays(&mut damages).await?;
    }
    Ok(damages)
}

struct Pass<'a> {
    broker: &'a RedisBroker,
    queue: &'a str,
    how: Audit,
}

impl Pass<'_> {
    fn call(&self, what: &str, subjects: &[Vec<u8>]) -> redis::Cmd {
        let mut call = AUDIT.call(&self.broker.keys, self.queue);
        call.arg(what).arg(u8::from(self.how.repair));
        for subject in subjects {
            call.arg(subject);
        }
        call
    }

    /// Those of the subjects that are broken.
    async fn ask(&self, what: &str, subjects: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        if subjects.is_empty() {
            return Ok(Vec::new());
        }
        let answer = self.broker.script(self.queue, &AUDIT, self.call(what, subjects)).await?;
        array(answer)?.into_iter().map(bytes).collect()
    }

    async fn note(&self, what: &str, subjects: &[Vec<u8>], kind: DamageKind, damages: &mut Vec<Damage>) -> Result<()> {
        damages.extend(self.ask(what, subjects).await?.into_iter().map(|id| Damage { kind, subject: shown(&id) }));
        Ok(())
    }

    /// One step of a scan over a hash or a sorted set: names with their values, and where to go on.
    async fn scan(&self, verb: &str, kind: Kind, cursor: &str) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, String)> {
        let mut command = self.broker.keys.on(verb, self.queue, kind);
        let mut answer = array(self.broker.read(self.queue, command.arg(cursor).arg("COUNT").arg(STEP)).await?)?.into_iter();
        let cursor = text(next(&mut answer)?)?;
        let mut items = array(next(&mut answer)?)?.into_iter();
        let mut pairs = Vec::new();
        while let Some(name) = items.next() {
            pairs.push((bytes(name)?, bytes(next(&mut items)?)?));
        }
        Ok((pairs, cursor))
    }

    /// Active jobs whose lane does not exist.
    async fn held(&self, damages: &mut Vec<Damage>) -> Result<()> {
        let mut cursor = "0".to_owned();
        loop {
            let (held, further) = self.scan("HSCAN", Kind::Active, &cursor).await?;
            let subjects: Vec<Vec<u8>> = held.into_iter().flat_map(|(id, tag)| [id, tag]).collect();
            for pairs in subjects.chunks(2 * STEP) {
                self.note("active", pairs, DamageKind::HeldByNobody, damages).await?;
            }
            cursor = further;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Ids that wait somewhere without a job.
    async fn hollow(&self, damages: &mut Vec<Damage>) -> Result<()> {
        for list in READY {
            let mut offset = 0;
            loop {
                let ids = self.range(list, offset).await?;
                let before = damages.len();
                self.note(list.name(), &ids, DamageKind::IdWithoutJob, damages).await?;
                let gone = if self.how.repair { damages.len() - before } else { 0 };
                if ids.len() < STEP {
                    break;
                }
                offset += ids.len() - gone;
            }
        }
        for kind in [Kind::Scheduled, Kind::Retry, Kind::Dead, Kind::Parked] {
            let mut cursor = "0".to_owned();
            loop {
                let (members, further) = self.scan("ZSCAN", kind, &cursor).await?;
                let members: Vec<Vec<u8>> = members.into_iter().map(|(member, _)| member).collect();
                for members in members.chunks(STEP) {
                    self.note(kind.name(), members, DamageKind::IdWithoutJob, damages).await?;
                    if kind == Kind::Parked {
                        self.note("names", members, DamageKind::ParkedWithoutTask, damages).await?;
                    }
                }
                cursor = further;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn range(&self, list: Kind, offset: usize) -> Result<Vec<Vec<u8>>> {
        let mut command = self.broker.keys.on("LRANGE", self.queue, list);
        let ids = self.broker.read(self.queue, command.arg(offset).arg(offset + STEP - 1)).await?;
        array(ids)?.into_iter().map(bytes).collect()
    }

    /// Jobs that wait nowhere. Those that are in no place that can be looked up are compared with what is in `ready`.
    async fn strays(&self, damages: &mut Vec<Damage>) -> Result<()> {
        let mut cursor = "0".to_owned();
        let mut unplaced = HashSet::new();
        loop {
            // Names alone would do; `NOVALUES` is younger than the servers that we support.
            let (jobs, further) = self.scan("HSCAN", Kind::Jobs, &cursor).await?;
            let ids: Vec<Vec<u8>> = jobs.into_iter().map(|(id, _)| id).collect();
            for ids in ids.chunks(STEP) {
                unplaced.extend(self.ask("unplaced", ids).await?);
            }
            cursor = further;
            if cursor == "0" || unplaced.len() >= SLICE {
                self.strays_of(std::mem::take(&mut unplaced), damages).await?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn strays_of(&self, mut unplaced: HashSet<Vec<u8>>, damages: &mut Vec<Damage>) -> Result<()> {
        let mut length = 0;
        for list in READY {
            let mut offset = 0;
            while !unplaced.is_empty() {
                let ids = self.range(list, offset).await?;
                for id in &ids {
                    unplaced.remove(id);
                }
                offset += ids.len();
                if ids.len() < STEP {
                    break;
                }
            }
            length += offset;
        }
        // Lists move under a reader: what is left is looked for once more, by the script that repairs.
        let unplaced: Vec<Vec<u8>> = unplaced.into_iter().collect();
        for ids in unplaced.chunks((PASSED / length.max(1)).clamp(1, 50)) {
            self.note("strays", ids, DamageKind::JobWithoutPlace, damages).await?;
        }
        Ok(())
    }
}

fn shown(id: &[u8]) -> String {
    JobId::from_bytes(id).map_or_else(|_| String::from_utf8_lossy(id).into_owned(), |id| id.to_string())
}

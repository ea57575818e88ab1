//! Searches a queue for damage that other programs have caused, in bounded steps.
//!
//! Scripts perform all checks. They read the data again, so that data that merely moved meanwhile
//! is not reported as damage. `FIND` only reads. It includes no door, so it also finds the mistakes
//! of doors. `REPAIR` performs the same checks and repairs each finding at once, through the doors.
//! Most queues are undamaged. In a queue with few entries, a single call shows this. In other
//! queues, some small calls compare the numbers of jobs and places.

mod doubles;
mod groups;
mod keys;
mod strays;
mod tags;
mod workers;

use std::{collections::HashSet, fmt::Display};

use redis::Value;

use self::{
    doubles::{Anchor, Suspicious},
    strays::Search,
};
use crate::{
    address::{JobId, topic_at},
    broker::{Audit, Damage, DamageKind, SweepLimits, Swept},
    error::Result,
    redis::{
        RedisBroker,
        connection::misfits,
        keys::{Kind, READY},
        script::{FIND, REPAIR, SWEEP, bits::Bit},
        values::{array, bytes, ms, next, number, text},
    },
};

/// Items of one call.
const STEP: usize = 500;

/// Jobs without a place that are searched for in `ready` together.
const SLICE: usize = 50_000;

/// A round of housekeeping.
pub(in crate::redis) async fn sweep(broker: &RedisBroker, queue: &str, limits: &SweepLimits) -> Result<Swept> {
    let mut call = SWEEP.call(&broker.keys, queue);
    call.arg(limits.items).arg(ms(limits.producers)).arg(ms(limits.remembered)).arg(limits.remembered_count);
    call.arg(ms(limits.dead)).arg(limits.dead_bytes).arg(limits.keep.count).arg(limits.keep.bytes).arg(limits.sweeper);
    call.arg(i32::from(topic_at(queue).is_some()));
    let mut values = array(broker.script(queue, &SWEEP, call).await?)?.into_iter();
    if values.len() == 0 {
        return Ok(Swept { elsewhere: true, ..Swept::default() });
    }
    Ok(Swept {
        producers: number(next(&mut values)?)?,
        remembered: number(next(&mut values)?)?,
        dead: number(next(&mut values)?)?,
        ended: number(next(&mut values)?)?,
        keys: number(next(&mut values)?)?,
        buried: array(next(&mut values)?)?.into_iter().map(|id| JobId::from_bytes(&bytes(id)?)).collect::<Result<_>>()?,
        rates: number(next(&mut values)?)?,
        groups: number(next(&mut values)?)?,
        waiters: number(next(&mut values)?)?,
        backfilled: number(next(&mut values)?)?,
        more: number::<i64>(next(&mut values)?)? != 0,
        lanes: values.next().map_or(Ok(0), number)?,
        parked: values.next().map_or(Ok(0), number)?,
        elsewhere: false,
    })
}

pub(in crate::redis) async fn audit(broker: &RedisBroker, queue: &str, how: Audit) -> Result<Vec<Damage>> {
    let pass = Pass { broker, queue, how };
    // A check of a queue would fail if one of its keys has another type. Such a key is renamed only
    // by an operator (`doctor --repair`).
    let mut damages = if how.thorough { misfits::audit(broker, queue, how.repair).await? } else { Vec::new() };
    if !damages.is_empty() && !how.repair {
        return Ok(damages);
    }
    if how.repair {
        broker.restore_registration(queue).await?;
    }
    if pass.is_sound().await? {
        return Ok(damages);
    }
    let bits = pass.check_each("bits", &[vec![]]).await?;
    damages.extend(bits.into_iter().map(|letter| {
        let letter = String::from_utf8_lossy(&letter).into_owned();
        let subject = Bit::of_letter(&letter).map_or(letter, |bit| bit.name().to_owned());
        Damage { kind: DamageKind::FeatureUnnoted, subject }
    }));
    let lanes = array(broker.read(queue, &broker.keys.on("HKEYS", queue, Kind::Lanes)).await?)?;
    let lanes: Vec<Vec<u8>> = lanes.into_iter().map(bytes).collect::<Result<_>>()?;
    for lanes in lanes.chunks(STEP) {
        for (what, kind) in [("lanes", DamageKind::LaneWithoutLease), ("durations", DamageKind::LeaseTooLong)] {
            let broken = pass.check_each(what, lanes).await?.into_iter();
            damages.extend(broken.map(|name| Damage { kind, subject: String::from_utf8_lossy(&name).into_owned() }));
        }
    }
    damages.extend(workers::find(&pass, &lanes).await?);
    pass.find_orphaned_active(&mut damages).await?;
    keys::find(&pass, &mut damages).await?;
    groups::find(&pass, how.thorough, &mut damages).await?;
    tags::find(&pass, how.thorough, &mut damages).await?;
    let balance: i64 = number(pass.check("balance", &[]).await?)?;
    if balance != 0 || how.thorough {
        pass.find_ids_without_job(&mut damages).await?;
        groups::find_doubled(&pass, &mut damages).await?;
        let doubled = doubles::find(&pass).await?;
        damages.extend(doubled.iter().map(|id| damage(DamageKind::IdInTwoPlaces, id)));
        pass.find_strays(&mut damages).await?;
    }
    Ok(damages)
}

/// One pass over a queue.
pub(in crate::redis) struct Pass<'a> {
    pub(in crate::redis) broker: &'a RedisBroker,
    pub(in crate::redis) queue: &'a str,
    how: Audit,
}

/// The number of pushes to `ready` so far; see `pushes` in `checks.lua`.
pub(in crate::redis) struct Checkpoint {
    /// The life of the server to which this applies.
    pub(in crate::redis) life: Vec<u8>,
    pub(in crate::redis) pushes: i64,
    /// The lengths of the lists at the same moment.
    pub(in crate::redis) lengths: [usize; READY.len()],
}

impl Pass<'_> {
    /// Performs a check, and writes nothing.
    async fn check(&self, what: &str, subjects: &[Vec<u8>]) -> Result<Value> {
        let mut call = FIND.call(&self.broker.keys, self.queue);
        call.arg(what).arg(subjects);
        self.broker.script(self.queue, &FIND, call).await
    }

    /// The damaged subjects, or `None` if the check cannot decide. They are repaired if requested.
    async fn find_broken(&self, what: &str, subjects: &[Vec<u8>]) -> Result<Option<Vec<Vec<u8>>>> {
        let script = if self.how.repair { &REPAIR } else { &FIND };
        let mut call = script.call(&self.broker.keys, self.queue);
        call.arg(what).arg(subjects);
        match self.broker.script(self.queue, script, call).await? {
            Value::Nil => Ok(None),
            answer => Ok(Some(array(answer)?.into_iter().map(bytes).collect::<Result<_>>()?)),
        }
    }

    /// The same for subjects that are checked one by one.
    pub(in crate::redis) async fn check_each(&self, what: &str, subjects: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
        Ok(if subjects.is_empty() { Vec::new() } else { self.find_broken(what, subjects).await?.unwrap_or_default() })
    }

    pub(in crate::redis) async fn checkpoint(&self) -> Result<Checkpoint> {
        let mut answer = array(self.check("checkpoint", &[]).await?)?.into_iter();
        let (life, pushes) = (bytes(next(&mut answer)?)?, number(next(&mut answer)?)?);
        let mut lengths = [0; READY.len()];
        for length in &mut lengths {
            *length = number(next(&mut answer)?)?;
        }
        Ok(Checkpoint { life, pushes, lengths })
    }

    /// The lost ids of these, if the ids that were pushed to `ready` since the checkpoint can be
    /// read in one call. None of the given ids was in `ready` at the checkpoint.
    pub(in crate::redis) async fn find_lost(&self, checkpoint: &Checkpoint, ids: &[Vec<u8>]) -> Result<Option<Vec<Vec<u8>>>> {
        let checkpoint = [checkpoint.life.clone(), checkpoint.pushes.to_string().into_bytes()];
        self.find_broken("strays", &[&checkpoint, ids].concat()).await
    }

    /// The ids that are in several places, if these places can be found again. This requires that
    /// not too many ids were pushed since the anchor was set.
    pub(in crate::redis) async fn find_doubled(&self, anchor: &Anchor, suspicious: &[Suspicious]) -> Result<Option<Vec<Vec<u8>>>> {
        let mut subjects = vec![anchor.checkpoint.life.clone()];
        let number = |number: &dyn Display| number.to_string().into_bytes();
        subjects.extend([number(&anchor.checkpoint.pushes), number(&anchor.arguments().count())]);
        for (list, tail) in anchor.arguments() {
            subjects.extend([number(&list), number(&tail.len())]);
            subjects.extend_from_slice(tail);
        }
        for (id, places) in suspicious {
            subjects.extend([id.clone(), number(&places.len())]);
            for place in places {
                let (list, distance) = place.arguments();
                subjects.extend([number(&list), number(&distance)]);
            }
        }
        self.find_broken("doubled", &subjects).await
    }

    /// Whether one call finds a queue with few entries undamaged.
    async fn is_sound(&self) -> Result<bool> {
        let answer = self.check("all", &[]).await?;
        if answer == Value::Nil {
            return Ok(false);
        }
        let mut answer = array(answer)?.into_iter();
        let (broken, leftovers): (u64, u64) = (number(next(&mut answer)?)?, number(next(&mut answer)?)?);
        let mut list = || array(next(&mut answer)?)?.into_iter().map(bytes).collect::<Result<Vec<_>>>();
        let (lanes, records, members, tagged) = (list()?, list()?, list()?, list()?);
        let has_tidied = leftovers == 0 || !self.how.repair;
        Ok(broken == 0 && has_tidied && workers::have_records(&lanes, &records) && tags::are_indexed(&members, &tagged))
    }

    async fn add_damages(&self, what: &str, subjects: &[Vec<u8>], kind: DamageKind, damages: &mut Vec<Damage>) -> Result<()> {
        damages.extend(self.check_each(what, subjects).await?.iter().map(|id| damage(kind, id)));
        Ok(())
    }

    /// One step of a scan over a hash or a sorted set: names with their values, and the next
    /// cursor.
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
    async fn find_orphaned_active(&self, damages: &mut Vec<Damage>) -> Result<()> {
        let mut cursor = "0".to_owned();
        loop {
            let (held, further) = self.scan("HSCAN", Kind::Active, &cursor).await?;
            let subjects: Vec<Vec<u8>> = held.into_iter().flat_map(|(id, receipt)| [id, receipt]).collect();
            for pairs in subjects.chunks(2 * STEP) {
                self.add_damages("active", pairs, DamageKind::HeldByNobody, damages).await?;
            }
            cursor = further;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    /// Ids without a job in the lists and sets of waiting jobs.
    async fn find_ids_without_job(&self, damages: &mut Vec<Damage>) -> Result<()> {
        for (list, length) in READY.into_iter().zip(self.checkpoint().await?.lengths) {
            for first in (0..length).step_by(STEP) {
                let range = [first, first + STEP - 1].map(|at| at.to_string().into_bytes());
                self.add_damages(list.name(), &range, DamageKind::IdWithoutJob, damages).await?;
            }
        }
        for kind in [Kind::Scheduled, Kind::Retry, Kind::Dead, Kind::Parked] {
            let mut cursor = "0".to_owned();
            loop {
                let (members, further) = self.scan("ZSCAN", kind, &cursor).await?;
                let members: Vec<Vec<u8>> = members.into_iter().map(|(member, _)| member).collect();
                for members in members.chunks(STEP) {
                    self.add_damages(kind.name(), members, DamageKind::IdWithoutJob, damages).await?;
                    if kind == Kind::Parked {
                        self.add_damages("names", members, DamageKind::ParkedWithoutTask, damages).await?;
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

    /// Jobs that are in no place. Jobs that cannot be looked up directly are searched for in
    /// `ready`.
    async fn find_strays(&self, damages: &mut Vec<Damage>) -> Result<()> {
        let mut cursor = "0".to_owned();
        let mut unplaced = HashSet::new();
        loop {
            // The names would suffice, but the supported servers do not all have `NOVALUES`.
            let (jobs, further) = self.scan("HSCAN", Kind::Jobs, &cursor).await?;
            let ids: Vec<Vec<u8>> = jobs.into_iter().map(|(id, _)| id).collect();
            for ids in ids.chunks(STEP) {
                for id in array(self.check("unplaced", ids).await?)? {
                    unplaced.insert(bytes(id)?);
                }
            }
            cursor = further;
            if cursor == "0" || unplaced.len() >= SLICE {
                let lost = Search::find_lost_jobs(self, std::mem::take(&mut unplaced)).await?;
                damages.extend(lost.iter().map(|id| damage(DamageKind::JobWithoutPlace, id)));
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }
}

fn damage(kind: DamageKind, id: &[u8]) -> Damage {
    let subject = JobId::from_bytes(id).map_or_else(|_| String::from_utf8_lossy(id).into_owned(), |id| id.to_string());
    Damage { kind, subject }
}

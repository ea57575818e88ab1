//! Damage that another program did.

use std::fmt;

/// Kinds of damage. A broker does not cause them; an operator, a script or a disk may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// A key of the broker has another type, because another program wrote to it: every command of
    /// the queue fails. A [thorough](Audit::thorough) audit finds it. Repair: the key is renamed,
    /// so its content is kept under the new name.
    KeyOfAnotherType,
    /// A lane has no lease, and so would never be reclaimed. Repair: it gets an expired lease,
    /// which a live lane renews.
    LaneWithoutLease,
    /// The lease of a lane ends later than a new one: the broker's clock has been set back since
    /// the last renewal. Repair: it ends when a lease that is renewed now ends.
    LeaseTooLong,
    /// A queue has the record of a worker that has no lane in it. Repair: the record is removed.
    RecordWithoutLane,
    /// A worker with a lane has no record in the queue, or a damaged one. Repair: an empty record
    /// is stored. The worker stores its own if it registers again.
    WorkerWithoutRecord,
    /// An active job is held by a lane that does not exist. Repair: it is reclaimed like a job of a
    /// dead worker.
    HeldByNobody,
    /// An id is listed, but has no job. Repair: the id is removed.
    IdWithoutJob,
    /// The id of a job is in `ready` more than once, or in `ready` although the job runs, waits
    /// elsewhere or has ended: it would run twice. Repair: the id stays in one place.
    IdInTwoPlaces,
    /// A parked job has lost the name of its task, and looks like a job without a place. Repair:
    /// the name is stored again.
    ParkedWithoutTask,
    /// A unique key is held by a job that has ended or is not there: no job of this key could be
    /// enqueued. Repair: the key is free, and the job that is `held` for it gets it.
    KeyLeaked,
    /// A job that has not ended does not hold its unique key, although no other job does: a second
    /// one could be enqueued. Repair: it holds it.
    KeyMissing,
    /// A job is `held` for a key that no job holds. Repair: it gets the key, and may start.
    HeldForNobody,
    /// A schedule counts a job as one that has not ended, and the job has ended or is not there: a
    /// tick may wait for its end forever. Repair: the job is removed from the schedule.
    RunWithoutJob,
    /// A group or a limit holds a slot for a job that is not active: fewer jobs could run than the
    /// rule allows. Repair: the slot is released.
    SlotLeaked,
    /// A job of a group, or with a limit, runs and holds no slot: more could run than that allows.
    /// On Redis a [thorough](Audit::thorough) audit finds it. Repair: it holds one.
    SlotMissing,
    /// The line of an ordered group is held by a job that has ended or is not there: no job of the
    /// group would start. Repair: the line is free.
    LineLeaked,
    /// A group has a job that may start but is not listed as eligible, or it is listed without such
    /// a job. A [thorough](Audit::thorough) audit finds it. Repair: the list is corrected.
    GroupIndexWrong,
    /// Jobs wait for a limit that has room, but no claim will examine them; or the index lists jobs
    /// that do not wait. Of some a [thorough](Audit::thorough) audit finds it. Repair: the next
    /// claim examines them.
    LimitIndexWrong,
    /// The index of tags has a tag of a job that is not there, or that does not have it; the latter
    /// a [thorough](Audit::thorough) audit finds. Repair: the entry is removed.
    TagLeaked,
    /// A job has a tag that the index does not have: a search by this tag would not find the job. A
    /// [thorough](Audit::thorough) audit finds it. Repair: the index has it.
    TagMissing,
    /// A Redis key holds entries, but the feature bit of the queue is not set, so turns do not read
    /// this key. Repair: the bit is set.
    FeatureUnnoted,
    /// A job has no place, so that no worker would find it. Repair: the job is pushed to the tail
    /// of `ready`. An entry with an invalid id or without content is removed.
    JobWithoutPlace,
}

impl DamageKind {
    /// The name, as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            DamageKind::KeyOfAnotherType => "key of another type",
            DamageKind::LaneWithoutLease => "lane without lease",
            DamageKind::LeaseTooLong => "lease that ends too late (the broker's clock was put back)",
            DamageKind::RecordWithoutLane => "record of a worker without a lane",
            DamageKind::WorkerWithoutRecord => "worker without its record",
            DamageKind::HeldByNobody => "held by nobody",
            DamageKind::IdWithoutJob => "id without job",
            DamageKind::IdInTwoPlaces => "id in two places",
            DamageKind::ParkedWithoutTask => "parked without task",
            DamageKind::KeyLeaked => "unique key without its job",
            DamageKind::KeyMissing => "job without its unique key",
            DamageKind::HeldForNobody => "held for nobody",
            DamageKind::RunWithoutJob => "run of a schedule without its job",
            DamageKind::SlotLeaked => "slot of a group or a limit without its job",
            DamageKind::SlotMissing => "running job without the slot of its group or limit",
            DamageKind::LineLeaked => "line of a group held by no job",
            DamageKind::GroupIndexWrong => "group index wrong",
            DamageKind::LimitIndexWrong => "limit index wrong",
            DamageKind::TagLeaked => "tag in the index without its job",
            DamageKind::TagMissing => "job with a tag that is not in the index",
            DamageKind::FeatureUnnoted => "feature without its bit",
            DamageKind::JobWithoutPlace => "job without place",
        }
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The kind of damage.
    pub kind: DamageKind,
    /// The job's id, the lane's name, or a description of the key.
    pub subject: String,
}

/// How a queue is searched for damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Repair what is found. Each repair counts in the queue's counter `repaired`.
    pub repair: bool,
    /// Examine every job instead of only comparing counts. The time is proportional to the number
    /// of jobs.
    pub thorough: bool,
}

//! What somebody else's hand has broken.

use std::fmt;

/// Kinds of damage. A broker makes none of them by itself; a person, a script or a disk may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DamageKind {
    /// A key of the broker holds something of another type, because another program wrote to it: every command of the queue fails. A
    /// [thorough](Audit::thorough) audit finds it. Repair: the key is renamed, and what was in it stays under the new name.
    KeyOfAnotherType,
    /// A lane has no lease, so that it would never run out. Repair: one that is over; a lane that lives renews it.
    LaneWithoutLease,
    /// The lease of a lane ends later than it can: the broker's clock has been put back since it was renewed. Repair: it ends when a
    /// renewal would end now.
    LeaseTooLong,
    /// An active job is held by a lane that does not exist. Repair: it is taken back like that of a worker that died.
    HeldByNobody,
    /// An id waits somewhere, and there is no job of that id. Repair: the id is taken out.
    IdWithoutJob,
    /// The id of a job is in `ready` more than once, or in `ready` although the job runs, waits elsewhere or has ended: it would run
    /// twice. Repair: it stays in one place.
    IdInTwoPlaces,
    /// A parked job does not say any more of which task it is, and would be taken for one that waits nowhere. Repair: it is told.
    ParkedWithoutTask,
    /// A job waits nowhere, so that nobody would ever find it. Repair: it goes to the end of `ready`; what has no id of ours, or no
    /// content, is taken out.
    JobWithoutPlace,
}

impl DamageKind {
    /// The name, as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            DamageKind::KeyOfAnotherType => "key of another type",
            DamageKind::LaneWithoutLease => "lane without lease",
            DamageKind::LeaseTooLong => "lease that ends too late (the broker's clock was put back)",
            DamageKind::HeldByNobody => "held by nobody",
            DamageKind::IdWithoutJob => "id without job",
            DamageKind::IdInTwoPlaces => "id in two places",
            DamageKind::ParkedWithoutTask => "parked without task",
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
    /// What is wrong with it.
    pub kind: DamageKind,
    /// The job's id, the lane's name, or what is to be known of the key.
    pub subject: String,
}

/// How a queue is looked through for damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Repair what is found. Each repair counts in the queue's counter `repaired`.
    pub repair: bool,
    /// Look at every job, not at the balance alone: takes as long as there are jobs.
    pub thorough: bool,
}

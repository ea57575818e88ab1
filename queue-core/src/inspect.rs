//! Inspection and changes by operators: jobs, queues, groups, limits, workers. From
//! [`Client::inspector`](crate::Client::inspector).

#[doc(inline)]
pub use crate::broker::{
    Aging, Audit, BrokerInfo, BuryReason, Change, Changed, Condition, Counter, Damage, DamageKind, GroupName, GroupOrder, GroupPage,
    GroupRule, KeyHolder, LimitDef, LimitKey, LimitRule, Operation, OperationKind, OperationState, OutboxDepth, OutboxRecord, Pause,
    PauseOf, Pausing, QueueStats, Rate, RuleOf, StoredGroup, StoredPause, UniqueKey, WorkerAsk, WorkerLoad, WorkerMode, WorkerRecord,
    history::{FailurePattern, History, HistoryRow, HistorySpan, ReleaseSeen, RunCounts, Times},
};
pub use crate::{
    client::{Lost, Transition, Watch, Watched},
    fingerprint::Fingerprint,
    inspector::{
        AttemptError, ClearGroup, Cleared, Difference, Duplicated, Edit, EditChange, Edited, Filter, Follow, Found, Inspector, JobLog,
        JobRecord, LimitInfo, LimitKeyInfo, LogLine, NewOperation, OperationPreview, Page, Reason, RunOperation, Running, Search, Seen,
        UnreadableBy, Walk, WorkerJobs,
    },
    key::UniqueDef,
};

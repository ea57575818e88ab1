//! The calls for operators, which are passed to [`people`] and the folders next to it.

use async_trait::async_trait;
use rusqlite::params;

use super::{
    SqliteBroker, audit, bounded,
    connection::{
        operation::Commit,
        tx::{Failed, Tx},
        unsigned::Unsigned,
    },
    doors, groups, history, limits, operation, people, progress, schedule, topic,
};
use crate::{
    address::{JobId, check_queue},
    broker::{
        Aging, AgingRecord, AgingSet, AskWorker, Audit, Change, Changed, Damage, Diagnosis, EditJob, EditedJob, GroupList, GroupPage,
        GroupSet, Inspect, JobState, KeyHolder, KeyPage, LimitKeys, LimitSet, MAX_ITEMS, Operate, Operated, Operation, Pauses,
        ProgressAndLog, QueueStats, Retention, Rewind, Rewound, Scan, Scanned, ScheduleList, SchedulePage, SetAging, SetGroup, SetLimit,
        SetPause, StoredEvent, StoredJob, StoredLimit, StoredLimitKey, StoredPage, StoredTopic, Transitions, UniqueKey, WorkerAsked,
        WorkerRecord,
        history::{FailurePattern, History, HistorySpan},
    },
    error::Result,
};

#[async_trait]
impl Inspect for SqliteBroker {
    async fn queues(&self) -> Result<Vec<String>> {
        self.reader().call(Commit::Soon, people::queues).await
    }

    async fn stats(&self, queue: &str) -> Result<QueueStats> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| people::stats(tx, &queue)).await
    }

    async fn history(&self, queue: &str, span: HistorySpan) -> Result<History> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| history::history(tx, &queue, span)).await
    }

    async fn failures(&self, queue: &str) -> Result<Vec<FailurePattern>> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| history::failures(tx, &queue)).await
    }

    async fn workers(&self, queue: &str) -> Result<Vec<WorkerRecord>> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| people::workers(tx, &queue)).await
    }

    async fn ask_worker(&self, request: &AskWorker) -> Result<WorkerAsked> {
        request.check()?;
        let request = request.clone();
        self.writer().call(Commit::Synced, move |tx| people::ask_worker(tx, &request)).await
    }

    async fn list(&self, queue: &str, state: JobState, offset: u64, limit: usize) -> Result<StoredPage> {
        let queue = queue.to_owned();
        let limit = limit.clamp(1, MAX_ITEMS);
        self.reader().call(Commit::Soon, move |tx| people::list(tx, &queue, state, offset, limit)).await
    }

    async fn scan(&self, request: &Scan) -> Result<Scanned> {
        let request = request.clone();
        self.reader().call(Commit::Soon, move |tx| people::scan(tx, &request)).await
    }

    async fn show(&self, queue: &str, id: &JobId) -> Result<Option<StoredJob>> {
        let (queue, id) = (queue.to_owned(), id.clone());
        self.reader().call(Commit::Soon, move |tx| people::show(tx, &queue, &id)).await
    }

    async fn diagnose(&self, queue: &str, ids: &[JobId]) -> Result<Vec<Option<Diagnosis>>> {
        bounded("ids", ids.len())?;
        let (queue, ids) = (queue.to_owned(), ids.to_vec());
        self.reader().call(Commit::Soon, move |tx| people::diagnose(tx, &queue, &ids)).await
    }

    async fn progress_and_log(&self, queue: &str, id: &JobId, from: u64) -> Result<Option<ProgressAndLog>> {
        let (queue, id) = (queue.to_owned(), id.clone());
        self.reader().call(Commit::Soon, move |tx| progress::read(tx, &queue, &id, from)).await
    }

    async fn schedules(&self, queue: &str, which: &ScheduleList) -> Result<SchedulePage> {
        let (queue, which) = (queue.to_owned(), which.clone());
        self.reader().call(Commit::Soon, move |tx| schedule::list(tx, &queue, &which)).await
    }

    async fn change(&self, queue: &str, change: Change, reason: Option<&str>, ids: &[JobId]) -> Result<Vec<Changed>> {
        bounded("ids", ids.len())?;
        let (queue, reason, ids) = (queue.to_owned(), reason.map(str::to_owned), ids.to_vec());
        self.writer().call(Commit::Synced, move |tx| people::change(tx, &queue, change, reason.as_deref(), &ids)).await
    }

    async fn key_holder(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>> {
        let (queue, key) = (queue.to_owned(), *key);
        self.reader().call(Commit::Soon, move |tx| people::key_holder(tx, &queue, &key)).await
    }

    async fn keys(&self, queue: &str, after: Option<&str>, limit: usize) -> Result<KeyPage> {
        const KEYS: &str = "SELECT key FROM queue_keys WHERE queue = ?1 AND key > ?2 ORDER BY key LIMIT ?3";
        let after: Option<UniqueKey> = after.map(str::parse).transpose()?;
        let (queue, limit) = (queue.to_owned(), limit.clamp(1, MAX_ITEMS));
        let page = move |tx: &mut Tx<'_>| {
            let Some(queue) = tx.queue(&queue)?.filter(|_| tx.may_have_keys()) else { return Ok(KeyPage::default()) };
            let from = after.as_ref().map_or(&[][..], UniqueKey::as_bytes);
            let rows: Vec<Vec<u8>> =
                tx.sql(KEYS)?.query_map(params![queue.key, from, Unsigned(limit)], |row| row.get(0))?.collect::<Result<_, _>>()?;
            let examined: Vec<UniqueKey> = rows.iter().filter_map(|key| UniqueKey::from_bytes(key)).collect();
            let next = examined.last().filter(|_| rows.len() == limit).map(ToString::to_string);
            let held = |key| Ok(doors::keys::holder(tx, &queue, &key)?.map(|holder| (key, holder)));
            let keys: Result<Vec<_>, Failed> = examined.into_iter().filter_map(|key| held(key).transpose()).collect();
            Ok(KeyPage { keys: keys?, next })
        };
        self.reader().call(Commit::Soon, page).await
    }

    async fn edit(&self, request: &EditJob) -> Result<EditedJob> {
        let request = request.clone();
        self.writer().call(Commit::Synced, move |tx| people::edit(tx, &request)).await
    }

    async fn release_key(&self, queue: &str, key: &UniqueKey) -> Result<Option<KeyHolder>> {
        let (queue, key) = (queue.to_owned(), *key);
        self.writer().call(Commit::Synced, move |tx| people::release_key(tx, &queue, &key)).await
    }

    async fn remove_queue(&self, queue: &str) -> Result<Vec<String>> {
        check_queue(queue)?;
        // Expired rows are removed first, in bounded steps.
        loop {
            let name = queue.to_owned();
            if let Some(used) = self.writer().call(Commit::Synced, move |tx| remove_queue(tx, &name)).await? {
                return Ok(used);
            }
        }
    }

    async fn transitions(&self, queue: &str, after: u64, limit: usize) -> Result<Transitions> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| people::transitions(tx, &queue, after, limit)).await
    }

    async fn operations(&self, queue: &str) -> Result<Vec<Operation>> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| operation::operations(tx, &queue)).await
    }

    async fn operate(&self, request: &Operate) -> Result<Operated> {
        request.check()?;
        let request = request.clone();
        self.writer().call(Commit::Synced, move |tx| operation::operate(tx, &request)).await
    }

    async fn audit(&self, queue: &str, how: Audit) -> Result<Vec<Damage>> {
        check_queue(queue)?;
        let (queue, database) = (queue.to_owned(), if how.repair { self.writer() } else { self.reader() });
        database.call(Commit::Soon, move |tx| audit::audit(tx, &queue, how)).await
    }

    async fn groups(&self, queue: &str, which: &GroupList) -> Result<GroupPage> {
        let (queue, which) = (queue.to_owned(), which.clone());
        self.reader().call(Commit::Soon, move |tx| groups::list(tx, &queue, &which)).await
    }

    async fn set_group(&self, request: &SetGroup) -> Result<GroupSet> {
        groups::change(self.writer(), request).await
    }

    async fn limits(&self, queue: &str, name: Option<&str>) -> Result<Vec<StoredLimit>> {
        let (queue, name) = (queue.to_owned(), name.map(str::to_owned));
        self.reader().call(Commit::Soon, move |tx| limits::list(tx, &queue, name.as_deref())).await
    }

    async fn limit_keys(&self, queue: &str, which: &LimitKeys) -> Result<Vec<StoredLimitKey>> {
        let (queue, which) = (queue.to_owned(), which.clone());
        self.reader().call(Commit::Soon, move |tx| limits::keys(tx, &queue, &which)).await
    }

    async fn set_limit(&self, request: &SetLimit) -> Result<LimitSet> {
        limits::change(self.writer(), request).await
    }

    async fn set_aging(&self, request: &SetAging) -> Result<AgingSet> {
        people::set_aging(self.writer(), request).await
    }

    async fn topics(&self) -> Result<Vec<String>> {
        self.reader().call(Commit::Soon, topic::list).await
    }

    async fn topic(&self, topic: &str) -> Result<Option<StoredTopic>> {
        let topic = topic.to_owned();
        self.reader().call(Commit::Soon, move |tx| topic::show(tx, &topic)).await
    }

    async fn read_topic(&self, topic: &str, after: Option<&str>, limit: usize) -> Result<Vec<StoredEvent>> {
        let (topic, after) = (topic.to_owned(), after.map(str::to_owned));
        self.reader().call(Commit::Soon, move |tx| topic::read(tx, &topic, after.as_deref(), limit)).await
    }

    async fn set_retention(&self, topic: &str, retention: Retention) -> Result<()> {
        let topic = topic.to_owned();
        self.writer().call(Commit::Synced, move |tx| topic::set_retention(tx, &topic, retention)).await
    }

    async fn unsubscribe(&self, topic: &str, subscription: &str) -> Result<bool> {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        self.writer().call(Commit::Synced, move |tx| topic::unsubscribe(tx, &topic, &subscription)).await
    }

    async fn rewind(&self, request: &Rewind) -> Result<Rewound> {
        request.check()?;
        let request = request.clone();
        self.writer().call(Commit::Synced, move |tx| topic::rewind(tx, &request)).await
    }

    async fn pauses(&self, queue: &str) -> Result<Pauses> {
        let queue = queue.to_owned();
        self.reader().call(Commit::Soon, move |tx| people::pauses(tx, &queue)).await
    }

    async fn set_pause(&self, request: &SetPause) -> Result<()> {
        request.check()?;
        let wanted = request.clone();
        self.writer().call(Commit::Synced, move |tx| people::set_pause(tx, &wanted)).await
    }

    async fn audit_queues(&self, _: bool) -> Result<Vec<Damage>> {
        // The table of the queues is also their list.
        Ok(Vec::new())
    }
}

/// Rows of a kind that are removed in one transaction.
const STEP: usize = 2000;

/// One step. Returns what uses the queue, which is empty if the queue was removed; `None`: another
/// step is needed.
fn remove_queue(tx: &mut Tx<'_>, name: &str) -> std::result::Result<Option<Vec<String>>, Failed> {
    // Without the answers in these rows, a relay would enqueue its rows again. The leases of
    // stopped workers have expired. Declarations of the code are removed with the queue.
    const USES: [(&str, &str); 9] = [
        ("jobs", "queue_jobs WHERE queue = ?1"),
        ("workers", "queue_lanes WHERE queue = ?1 AND NOT fenced AND deadline > ?2"),
        ("schedules", "queue_schedules WHERE queue = ?1"),
        ("rules of groups", "queue_rules WHERE queue = ?1 AND name <> X'2B'"),
        ("limits", "queue_limits WHERE queue = ?1"),
        ("pauses", "queue_pauses WHERE queue = ?1"),
        ("given ids", "queue_remembered WHERE queue = ?1 AND ended > ?3"),
        ("unique keys", "queue_keys WHERE queue = ?1 AND until > ?2"),
        ("outboxes", "queue_producers WHERE queue = ?1 AND substr(answers, 1, 1) IS X'FF'"),
    ];
    // These tables have no column `queue`.
    const OF_LANES: [&str; 2] = ["queue_gone", "queue_leaving"];
    const LARGE: [(&str, &str); 3] = [("queue_remembered", "id"), ("queue_keys", "key"), ("queue_producers", "name")];
    let Some(queue) = tx.queue(name)? else { return Ok(Some(Vec::new())) };
    let (now, remembered) = (tx.now, audit::remembered_since(tx, &queue)?);
    let mut used = Vec::new();
    for (what, rows) in USES {
        let any = format!("SELECT EXISTS (SELECT 1 FROM {rows} AND (?2 | ?3) IS NOT NULL)");
        if tx.sql(&any)?.query_row(params![queue.key, now, remembered], |row| row.get(0))? || what == "pauses" && queue.paused {
            used.push(what.to_owned());
        }
    }
    let aging = AgingRecord::decode(&doors::aging::stored(tx, &queue)?)?;
    let mut declared = aging.clone();
    declared.set(Aging::AsDeclared)?;
    if declared != aging {
        used.push("aging".to_owned());
    }
    if !used.is_empty() {
        return Ok(Some(used));
    }
    for (table, column) in LARGE {
        let step =
            format!("DELETE FROM {table} WHERE queue = ?1 AND {column} IN (SELECT {column} FROM {table} WHERE queue = ?1 LIMIT {STEP})");
        if tx.sql(&step)?.execute([queue.key])? == STEP {
            return Ok(None);
        }
    }
    for table in OF_LANES {
        tx.sql(&format!("DELETE FROM {table} WHERE lane IN (SELECT lane FROM queue_lanes WHERE queue = ?1)"))?.execute([queue.key])?;
    }
    for table in include_str!("connection/schema.sql").split("CREATE TABLE ").skip(1) {
        let (name, columns) = table.split_once(" (").unwrap_or_default();
        if columns.split(") STRICT").next().is_some_and(|columns| columns.contains("    queue INTEGER")) {
            tx.sql(&format!("DELETE FROM {name} WHERE queue = ?1"))?.execute([queue.key])?;
        }
    }
    tx.discard_counts(queue.key);
    Ok(Some(used))
}

//! Tuning constants of the worker: batches, waits and intervals. Each states its unit and its
//! measured effect (the measurements are in `docs/decisions/`), or the trade-off if none was
//! measured. Constants that users rely on, such as the grace time, are in `config`.

use std::time::Duration;

// The pump: how much a turn carries.

/// The maximum number of lanes of one process on one queue. With more lanes, more turns can be
/// prepared while others are in flight, but each lane has a lease to renew. Not measured
/// separately.
pub(crate) const LANES: usize = 4;

/// The approximate number of turns per second that a worker sends if its jobs are short. With
/// [`PATIENCE`], 200,000 jobs in 1,000 queues take 5,300 to 8,000 scripts instead of 8,900. Those
/// of one queue take 2,480 instead of 3,330 (decision 006).
pub(crate) const TURNS: f64 = 1000.0;

/// How long a small turn waits for the answer to another turn. See [`TURNS`]: a longer wait saves
/// scripts, and delays the waiting jobs by the same time.
pub(crate) const PATIENCE: Duration = Duration::from_millis(5);

/// The minimum size of a turn is at most this part of the slots, as a divisor. While the jobs of
/// one turn run, another turn is in flight. With a half instead of a quarter, 1,000 queues reach
/// 0.88 of the throughput of one queue instead of 0.73 (decision 006).
pub(crate) const PARTS: usize = 2;

/// The pump does not wait longer than this for a turn in flight, because its server may hang. It is
/// longer than any answer of a healthy nearby server. Not measured.
pub(crate) const YOUNG: Duration = Duration::from_millis(20);

/// The assumed time in seconds for which a job holds its slot, until the first job has ended. It is
/// long, so that a new worker sends each turn at once.
pub(crate) const UNKNOWN_HELD: f64 = 1.0;

/// The maximum of the seconds with which one job counts in the average. After a job of one hour, a
/// worker adapts to short jobs within some tens of jobs.
pub(crate) const LONGEST_HELD: f64 = 10.0;

/// The weight of a single job in the average. A larger weight follows a change sooner. A smaller
/// one is less affected by a single unusual job.
pub(crate) const GAIN: f64 = 1.0 / 16.0;

/// The minimum number of jobs in a part when several lanes claim from a queue with a backlog. A
/// turn costs the server the same for one job as for twenty (decision 006).
pub(crate) const SMALLEST_PART: usize = 16;

/// The maximum number of claims in one turn, and of plain acks. At 6 µs a job (`server_us`), the
/// script of a full turn takes about 1.5 ms, in which the broker answers no other request.
pub(crate) const MOST_WORK: usize = 256;

/// The maximum number of queues among which the free slots are divided at once. With more queues, a
/// turn would be smaller than a part.
pub(crate) const MOST_PARTS: usize = 64;

/// The number of parts that a queue with endings may get in a row while others wait. Its endings
/// travel with the next claim, which saves a turn. A larger number would be less fair.
pub(crate) const LEAD: usize = 2;

/// The maximum number of events that are received before turns are planned again. Planning has the
/// same cost for one event as for many.
pub(crate) const EVENTS: usize = 4096;

// The pump: polls of queues.

/// The maximum number of queues with which the worker registers at once. Together with one
/// subscription for all, a worker of 1,000 queues reaches its full speed after 150 ms instead of
/// 350 (decision 006).
pub(crate) const MOST_INTRODUCED: usize = 64;

/// A turn that is in flight for longer keeps no slots from other queues. With a shorter time, more
/// jobs of slow servers would be claimed and returned. With a longer time, one dead server would
/// hold the slots of all queues for longer.
pub(crate) const LATE: Duration = Duration::from_millis(500);

/// The minimum time between two turns that request parked jobs. Few queues have any, and the names
/// cost bytes.
pub(crate) const RESUME: Duration = Duration::from_secs(1);

/// The minimum time between two heartbeats that are sent because they may have an answer of
/// interest.
pub(crate) const NEWS_APART: Duration = Duration::from_millis(20);

/// The time between two polls of an idle queue that few workers share. Nearly always the
/// announcement of work arrives first. A poll finds work whose announcement was lost.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// The time between two polls of an idle queue that many lanes share: all of its lanes together
/// poll it five times a second.
pub(crate) const POLL_SHARE: Duration = Duration::from_millis(200);

/// Polls of calm queues that are due within this time are sent together: their requests travel in
/// one write. With one `EXISTS` for each instead of a turn, 10 workers with 100 idle queues each
/// cost 1.3 % of a core instead of 3.3 (decision 006).
pub(crate) const POLLED_TOGETHER: Duration = Duration::from_millis(200);

/// A handler that does not reach its next `await` within this time is reported, because it delays
/// the others of its runtime. On a busy machine, a thread waits less than this for a core.
pub(crate) const BLOCKS: Duration = Duration::from_secs(3);

// Progress and log lines of handlers.

/// The time between two requests that store progress and logs of running jobs. A higher frequency
/// is not visible to users, and loads the server.
pub(crate) const PROGRESS: Duration = Duration::from_millis(250);

/// The maximum time for which the result of a job waits for the last progress and log lines of its
/// handler. A longer wait would delay the result, which does not depend on them.
pub(crate) const LAST_PROGRESS: Duration = Duration::from_secs(1);

/// The time after which a request that stores progress and logs is abandoned, because those of
/// other queues go to other servers.
pub(crate) const PROGRESS_PATIENCE: Duration = Duration::from_millis(500);

// Tries.

/// The first pause before a request without an answer is sent again. It doubles with each try. It
/// is short, so that the worker soon reaches a server that has restarted.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest such pause: after an outage of any length, work continues within this time.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The pause before a duty that has panicked is started again. Without it, a duty that always
/// panics would use a whole core.
pub(crate) const RESTART: Duration = Duration::from_secs(1);

/// The maximum number of panics of a duty in a row. With more, `/health` reports a failure. Five
/// tries take about as many seconds.
pub(crate) const MOST_RESTARTS: u32 = 5;

/// A panic after this running time starts a new count of panics.
pub(crate) const LASTING: Duration = Duration::from_secs(60);

/// The pump reads its clock once a second, on a thread that is never blocked. If it makes no
/// progress for this time, the process is reported as unhealthy. The time is longer than a pause by
/// paging or a short stop, and short enough that a hanging worker is soon replaced.
pub(crate) const STALLED: Duration = Duration::from_secs(20);

// The other duties.

/// The number of queues whose overdue lanes are checked together: their requests travel in one
/// write.
pub(crate) const CHECKED_TOGETHER: usize = 16;

/// The minimum time between two checks of the reclaimer, however many queues it has.
pub(crate) const SHORTEST_CHECK: Duration = Duration::from_millis(2);

/// The maximum number of overdue lanes of a queue that one check records. With more, the next ones
/// are recorded when these are fenced.
pub(crate) const MOST_OVERDUE: usize = 20_000;

/// The maximum number of sweeps in one check of a queue with fenced lanes. The next check
/// continues. Other queues are served in between.
pub(crate) const RECLAIM_STEPS: usize = 200;

/// The time between two rounds of the janitor. Expired records stay up to this much longer.
pub(crate) const ROUND: Duration = Duration::from_secs(60);

/// The interval between two searches for operations without a runner, one read of each queue. An
/// abandoned operation waits up to this much longer.
pub(crate) const OPERATIONS: Duration = Duration::from_secs(40);

/// The time for which one queue is swept in one round. While expired entries are left, the next
/// round follows at once. A longer time would delay the other queues.
pub(crate) const SWEPT_FOR: Duration = Duration::from_secs(1);

/// The time between two rounds while expired entries are left. Each call is followed by a pause as
/// long as the call: the broker has half of its time for jobs.
pub(crate) const SWEPT_AGAIN: Duration = Duration::from_millis(20);

/// The maximum number of checks in one round for schedules of one queue whose next tick is far
/// ahead. The next round continues.
pub(crate) const CALLS: usize = 50;

/// The number of rounds between two audits. An audit reads more than a sweep.
pub(crate) const AUDIT: u32 = 5;

/// The number of repairs in one round that are logged in separate lines. The others share one line.
pub(crate) const LOGGED_AT_ONCE: usize = 10;

/// The maximum number of queues that are asked at once for due schedules, and of schedules in one
/// answer. One tick costs two calls. A thousand schedules that are due in one second are spread
/// over the workers.
pub(crate) const TICKS_TOGETHER: usize = 64;

/// The maximum time of a request for the schedules of a queue. A longer wait would delay the ticks
/// of other queues.
pub(crate) const TICK_PATIENCE: Duration = Duration::from_secs(30);

/// The maximum time between two requests for due schedules of a queue that has some. The
/// announcement of a new schedule may be lost.
pub(crate) const SCHEDULES_ASKED: Duration = Duration::from_secs(30);

/// The same for a queue without known schedules.
pub(crate) const SCHEDULES_SOUGHT: Duration = Duration::from_secs(600);

/// The number of schedules in one check for schedules that are due far ahead.
pub(crate) const CLAMPED: usize = 200;

/// The time between two checks of the declarations. A rollback takes effect within about this time.
pub(crate) const DECLARED_AGAIN: Duration = Duration::from_secs(60);

/// The maximum time of a call that declares the schedules of a queue.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_secs(30);

/// The approximate time between two reads of the depth of queues for metrics. It is the default
/// scrape interval of Prometheus.
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "for metrics"))]
pub(crate) const QUEUES_READ: Duration = Duration::from_secs(15);

/// A report of an idle queue is sent after this time: it has the length of the queue.
pub(crate) const DEPTH_REPORTED: Duration = Duration::from_secs(55);

/// Persistent trouble is logged again after this time.
pub(crate) const LOGGED_AGAIN: Duration = Duration::from_secs(60);

/// The time without an answer after which an outage is logged: a connection that broke and was
/// reopened is not an outage.
pub(crate) const LOGGED_AFTER: Duration = Duration::from_millis(500);

/// A client of the HTTP endpoint has this time to send its request, and the same time to receive
/// the answer.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(5);

/// A run that starts later than this after its job could start has its own trace.
pub(crate) const ONE_TRACE: Duration = Duration::from_secs(60);

//! Tuning constants of the worker: batches, waits and intervals. Each states its unit and its
//! measured effect (the measurements are in `docs/decisions/`), or the trade-off if none was
//! measured. Constants that users rely on, such as the grace time, are in `config`.

use std::time::Duration;

// The pump: how much a turn carries.

/// Lanes, at most, of one process on one queue. More let more turns be prepared while others are in
/// flight; each has a lease of its own to renew. Not measured by itself.
pub(crate) const LANES: usize = 4;

/// Turns a second that a worker makes, about, however short its jobs are. With [`PATIENCE`]:
/// 200,000 jobs in 1,000 queues take 5,300 to 8,000 scripts instead of 8,900, and those of one
/// queue 2,480 instead of 3,330 (decision 006).
pub(crate) const TURNS: f64 = 1000.0;

/// How long a turn that carries little waits for the answer to another one. See [`TURNS`]: more
/// saves scripts, and delays the jobs that wait by as much.
pub(crate) const PATIENCE: Duration = Duration::from_millis(5);

/// No turn has to carry more than this part of the slots, as a divisor: while the jobs of one turn
/// run, another is in flight. Half instead of a quarter: 1,000 queues reach 0.88 of one instead of
/// 0.73 (decision 006).
pub(crate) const PARTS: usize = 2;

/// The pump does not wait longer for a turn in flight: its server may hang. Longer than any answer
/// of a healthy server near by. Not measured.
pub(crate) const YOUNG: Duration = Duration::from_millis(20);

/// Seconds for which a job is taken to hold its slot before the first has ended. Long: a new worker
/// sends each turn at once.
pub(crate) const UNKNOWN_HELD: f64 = 1.0;

/// Seconds, at most, for which one job counts in the average: after one of an hour, a worker learns
/// within some tens of short jobs that they are short.
pub(crate) const LONGEST_HELD: f64 = 10.0;

/// The share of a single job in the average. Larger follows a change sooner, smaller is less misled
/// by one odd job.
pub(crate) const GAIN: f64 = 1.0 / 16.0;

/// Jobs: the smallest part in which a queue with a backlog is claimed from by several lanes. A turn
/// costs the server the same for one job as for twenty (decision 006).
pub(crate) const SMALLEST_PART: usize = 16;

/// Claims, at most, of one turn, and plain acks. At 6 µs a job (`server_us`), the script of a full
/// turn takes about 1.5 ms, in which the broker answers no other request.
pub(crate) const MOST_WORK: usize = 256;

/// Queues, at most, among which the free slots are divided at once: turns for more would carry less
/// than a part.
pub(crate) const MOST_PARTS: usize = 64;

/// Parts that a queue with endings may get in a row while others wait: its endings travel with the
/// next claim, which saves a turn. More would be less fair.
pub(crate) const LEAD: usize = 2;

/// Events, at most, that are taken in before turns are planned again. Planning costs as much for
/// one event as for many.
pub(crate) const EVENTS: usize = 4096;

// The pump: when queues are asked.

/// Queues, at most, that are registered with at once. Together with one subscription for all: a
/// worker of 1,000 queues is at full speed after 150 ms instead of 350 (decision 006).
pub(crate) const MOST_INTRODUCED: usize = 64;

/// A turn that is in flight for longer keeps no slots from other queues. Shorter gives up answers
/// of slow servers, whose jobs are then returned at once; longer lets one dead server hold the
/// slots of all queues for as long.
pub(crate) const LATE: Duration = Duration::from_millis(500);

/// Between two turns that ask for parked jobs, at least: few queues have any, and the names cost
/// bytes.
pub(crate) const RESUME: Duration = Duration::from_secs(1);

/// At least between two heartbeats that are made because there may be news.
pub(crate) const NEWS_APART: Duration = Duration::from_millis(20);

/// Between two polls of an idle queue that few workers share. The announcement comes first nearly
/// always; a poll finds the work whose announcement was lost.
pub(crate) const POLL: Duration = Duration::from_secs(1);

/// Between two polls of an idle queue by any of its lanes, where many share it: five a second by
/// all together.
pub(crate) const POLL_SHARE: Duration = Duration::from_millis(200);

/// Polls of calm queues that are due within this time are sent together: their requests travel in
/// one write. With one `EXISTS` for each instead of a turn, 10 workers with 100 idle queues each
/// cost 1.3 % of a core instead of 3.3 (decision 006).
pub(crate) const POLLED_TOGETHER: Duration = Duration::from_millis(200);

/// A handler that does not reach its next `await` within this time is reported: it delays the
/// others of its runtime. Longer than a busy machine leaves a thread without a core.
pub(crate) const BLOCKS: Duration = Duration::from_secs(3);

// Progress and log lines of handlers.

/// Between two requests that store progress and logs of running jobs. A higher frequency is not
/// visible to users, and loads the server.
pub(crate) const PROGRESS: Duration = Duration::from_millis(250);

/// The longest time for which the result of a job waits for the last progress and log lines of its
/// handler. Longer would hold up jobs for what none depends on.
pub(crate) const LAST_PROGRESS: Duration = Duration::from_secs(1);

/// The time after which a request that stores progress and logs is abandoned, because those of
/// other queues go to other servers.
pub(crate) const PROGRESS_PATIENCE: Duration = Duration::from_millis(500);

// Tries.

/// The first pause before a request without an answer is sent again; it doubles with each. A server
/// that restarts is met again soon.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// The longest such pause: after an outage of any length, work continues within this time.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Before a duty that has panicked is started again. Without it, one that always panics would take
/// a core.
pub(crate) const RESTART: Duration = Duration::from_secs(1);

/// A duty that panics more often in a row makes the process unwell (`/health`): five tries take
/// about as many seconds.
pub(crate) const MOST_RESTARTS: u32 = 5;

/// A panic after this running time starts a new count of panics.
pub(crate) const LASTING: Duration = Duration::from_secs(60);

/// The pump looks at its clock once a second, on a thread that nothing blocks. The time without
/// progress after which the process is reported as unhealthy: longer than a pause by paging or a
/// short stop, and short enough that a hanging worker is soon replaced.
pub(crate) const STALLED: Duration = Duration::from_secs(20);

// The other duties.

/// Queues whose suspects are asked for together: what is sent in one write is answered in one.
pub(crate) const CHECKED_TOGETHER: usize = 16;

/// Between two looks of the reclaimer, at least, however many queues it has.
pub(crate) const SHORTEST_CHECK: Duration = Duration::from_millis(2);

/// Most overdue lanes of a queue that one check notes. With more, the next ones are noted when
/// these are fenced.
pub(crate) const MOST_OVERDUE: usize = 20_000;

/// Most sweeps in one check of a queue with fenced lanes; the next check continues. Other queues
/// are served in between.
pub(crate) const RECLAIM_STEPS: usize = 200;

/// Between two rounds of the janitor: expired records stay up to this much longer.
pub(crate) const ROUND: Duration = Duration::from_secs(60);

/// The interval between two searches for operations without a runner, one read of each queue. An
/// abandoned operation waits up to this much longer.
pub(crate) const OPERATIONS: Duration = Duration::from_secs(40);

/// For how long one queue is swept in one round. While something is left, the next round follows at
/// once. Longer would keep other queues waiting.
pub(crate) const SWEPT_FOR: Duration = Duration::from_secs(1);

/// Between two rounds while something is left. Each call is followed by a pause as long as the
/// call: the broker has half of its time for jobs.
pub(crate) const SWEPT_AGAIN: Duration = Duration::from_millis(20);

/// Most checks of schedules of one queue with a far next tick in one round; the next round
/// continues.
pub(crate) const CALLS: usize = 50;

/// Rounds between two looks for damage. It reads more than a sweep.
pub(crate) const AUDIT: u32 = 5;

/// Repairs that get a line each in one round; the others are one line.
pub(crate) const LOGGED_AT_ONCE: usize = 10;

/// Queues that are asked at once for due schedules, and schedules of one answer. One tick costs two
/// calls, and a thousand that are due in one second are spread over the workers.
pub(crate) const TICKS_TOGETHER: usize = 64;

/// The schedules of a queue are not waited for longer than this: those of other queues are due,
/// too.
pub(crate) const TICK_PATIENCE: Duration = Duration::from_secs(30);

/// Between two questions for due schedules where there are some, at most: the announcement of a new
/// one may be lost.
pub(crate) const SCHEDULES_ASKED: Duration = Duration::from_secs(30);

/// The same where there are none, as far as is known.
pub(crate) const SCHEDULES_SOUGHT: Duration = Duration::from_secs(600);

/// Schedules of one look at those that are due far ahead.
pub(crate) const CLAMPED: usize = 200;

/// Between two looks at what workers declare: a rollback takes effect within about so long.
pub(crate) const DECLARED_AGAIN: Duration = Duration::from_secs(60);

/// The declaration of the schedules of a queue is not waited for longer than this.
pub(crate) const CALL_PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at the depth of queues for metrics, about: as often as Prometheus asks, by
/// default.
#[cfg_attr(not(feature = "metrics"), expect(dead_code, reason = "for metrics"))]
pub(crate) const QUEUES_READ: Duration = Duration::from_secs(15);

/// A report of an idle queue is sent after this time: it has the length of the queue.
pub(crate) const DEPTH_REPORTED: Duration = Duration::from_secs(55);

/// Persistent trouble is logged again after this time.
pub(crate) const LOGGED_AGAIN: Duration = Duration::from_secs(60);

/// The time without an answer after which an outage is logged: a connection that broke and was
/// reopened is not an outage.
pub(crate) const LOGGED_AFTER: Duration = Duration::from_millis(500);

/// A client of the HTTP endpoint has this long to ask, and as long to listen.
pub(crate) const CLIENT_PATIENCE: Duration = Duration::from_secs(5);

/// A run that starts later than this after its job could start has a trace of its own.
pub(crate) const ONE_TRACE: Duration = Duration::from_secs(60);

//! Announcements: one connection with a subscription per queue that somebody waits for.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use redis::{AsyncConnectionConfig, PushInfo, PushKind, aio::ConnectionLike};
use tokio::sync::{Notify, mpsc, watch};

use super::{
    answers,
    keys::{Keys, Kind},
};
use crate::{
    broker::{CALL_DEADLINE, Hint, Hints},
    io::IoThread,
};

/// Between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// A silent connection is asked for a sign of life.
const PING: Duration = Duration::from_secs(10);

/// The listeners of this process.
#[derive(Debug)]
pub(super) struct Announcements {
    queues: Mutex<HashMap<String, watch::Sender<Hint>>>,
    /// A queue was added.
    added: Notify,
    /// The broker's clock less ours, in milliseconds.
    ahead: AtomicI64,
    keys: Keys,
}

impl Announcements {
    /// Starts listening, on the I/O thread.
    pub(super) fn start(client: redis::Client, keys: Keys, io: &IoThread) -> Arc<Self> {
        let this = Arc::new(Announcements { queues: Mutex::default(), added: Notify::new(), ahead: AtomicI64::new(0), keys });
        let weak = Arc::downgrade(&this);
        io.spawn(Box::pin(async move {
            loop {
                let Some(this) = weak.upgrade() else { return };
                if this.lock().is_empty() {
                    // Nobody listens yet. The broker may go meanwhile.
                    let waited = tokio::time::timeout(PAUSE, this.added.notified()).await;
                    drop(this);
                    let _ = waited;
                    continue;
                }
                let _ = this.listen(&client).await;
                // What was announced meanwhile is lost: everybody looks for himself.
                this.tell_all();
                drop(this);
                tokio::time::sleep(PAUSE.mul_f64(0.5 + fastrand::f64())).await;
            }
        }));
        this
    }

    pub(super) fn of(&self, queue: &str) -> Hints {
        let mut queues = self.lock();
        let sender = queues.entry(queue.to_owned()).or_insert_with(|| {
            self.added.notify_one();
            watch::channel(Hint::default()).0
        });
        Hints::new(sender.subscribe())
    }

    /// The broker's clock, from an answer that has just come.
    pub(super) fn clock(&self, now_ms: i64) {
        self.ahead.store(now_ms - local_ms(), Ordering::Relaxed);
    }

    /// Listens until the connection breaks.
    async fn listen(&self, client: &redis::Client) -> Option<()> {
        let (pushed, mut pushes) = mpsc::unbounded_channel();
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(Some(CALL_DEADLINE))
            .set_connection_timeout(Some(CALL_DEADLINE))
            .set_push_sender(pushed);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.ok()?;
        let mut subscribed: Vec<String> = Vec::new();
        loop {
            let wanted: Vec<String> = self.lock().keys().filter(|queue| !subscribed.contains(*queue)).cloned().collect();
            for queue in wanted {
                // One channel a command: in a cluster each is in a slot of its own.
                connection.req_packed_command(redis::cmd("SSUBSCRIBE").arg(self.keys.of(&queue, Kind::Hint))).await.ok()?;
                self.tell(&queue, None);
                subscribed.push(queue);
            }
            tokio::select! {
                push = pushes.recv() => self.take(push?)?,
                () = self.added.notified() => {}
                () = tokio::time::sleep(PING) => drop(connection.req_packed_command(&redis::cmd("PING")).await.ok()?),
            }
        }
    }

    /// `None`: the connection is gone.
    fn take(&self, push: PushInfo) -> Option<()> {
        match push.kind {
            PushKind::Disconnection => return None,
            PushKind::SMessage => {
                let mut parts = push.data.into_iter();
                let channel = parts.next().and_then(|channel| answers::text(channel).ok())?;
                let at = parts.next().and_then(|at| answers::text(at).ok())?;
                if let Some(queue) = self.keys.queue_of_channel(&channel) {
                    self.tell(queue, at.parse().ok());
                }
            }
            _ => {}
        }
        Some(())
    }

    fn tell(&self, queue: &str, at: Option<i64>) {
        let due = at.and_then(|at| {
            let wait = at - self.ahead.load(Ordering::Relaxed) - local_ms();
            u64::try_from(wait).ok().filter(|wait| *wait > 0).map(|wait| Instant::now() + Duration::from_millis(wait))
        });
        if let Some(sender) = self.lock().get(queue) {
            sender.send_modify(|hint| *hint = Hint { count: hint.count + 1, due });
        }
    }

    fn tell_all(&self) {
        for sender in self.lock().values() {
            sender.send_modify(|hint| *hint = Hint { count: hint.count + 1, due: None });
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, watch::Sender<Hint>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn local_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

//! Listens to hints. Each server that holds a queue with waiting callers has one connection with a
//! subscription per queue.

use std::{
    collections::{HashMap, HashSet},
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use futures_util::future::join_all;
use redis::{
    ProtocolVersion, PushInfo, PushKind, Value,
    aio::{ConnectionLike, MultiplexedConnection},
};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use super::{endpoint::Endpoint, servers::Servers};
use crate::{
    address::JobId,
    broker::{Announcer, Announcers, CALL_DEADLINE, Hints},
    io::IoThread,
    redis::{
        keys::{Keys, Kind},
        values,
    },
};

/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// The number of queues that are subscribed to at once.
const SUBSCRIBED: usize = 64;

/// A silent connection is pinged after this time.
const PING: Duration = Duration::from_secs(10);

/// The listeners of this process.
#[derive(Debug)]
pub(in crate::redis) struct Announcements {
    servers: Arc<Servers>,
    keys: Keys,
    queues: Mutex<Queues>,
    /// The number of queues.
    added: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Queues {
    by_name: HashMap<Arc<str>, Queue>,
    /// In the order in which they were added. A listener that has read some names continues with
    /// the later ones.
    names: Vec<Arc<str>>,
}

#[derive(Debug, Default)]
struct Queue {
    announcer: Announcer,
    /// Announces due ticks of its schedules.
    ticks: Announcer,
    /// Announces the ends of its watched jobs.
    endings: Announcers<Vec<u8>>,
    /// Announces to workers that a caller waits for a job.
    watches: Announcer,
    /// Announces progress of its watched jobs.
    progress: Announcers<Vec<u8>>,
    /// The server's clock minus ours, in microseconds.
    ahead: i64,
    /// The latest claim of this process left no job, and this process waits for its own next
    /// enqueue.
    awaited: bool,
}

impl Announcements {
    /// Starts to listen on the I/O thread, and stops with that thread.
    pub(in crate::redis) fn start(servers: Arc<Servers>, keys: Keys, io: &IoThread) -> Arc<Self> {
        let this = Arc::new(Announcements { servers, keys, queues: Mutex::default(), added: watch::channel(0).0 });
        io.spawn(Box::pin(this.clone().distribute()));
        this
    }

    pub(in crate::redis) fn of(&self, queue: &str) -> Hints {
        self.with(queue, |queue| queue.announcer.hints())
    }

    pub(in crate::redis) fn ticks_of(&self, queue: &str) -> Hints {
        self.with(queue, |queue| queue.ticks.hints())
    }

    pub(in crate::redis) fn endings_of(&self, queue: &str, id: &JobId) -> Hints {
        self.with(queue, |queue| queue.endings.hints(id.as_bytes().to_vec()))
    }

    pub(in crate::redis) fn watches_of(&self, queue: &str) -> Hints {
        self.with(queue, |queue| queue.watches.hints())
    }

    pub(in crate::redis) fn progress_hint_of(&self, queue: &str, id: &JobId) -> Hints {
        self.with(queue, |queue| queue.progress.hints(id.as_bytes().to_vec()))
    }

    /// Starts to listen to a queue.
    fn with(&self, queue: &str, hints: impl FnOnce(&mut Queue) -> Hints) -> Hints {
        let mut queues = self.lock();
        if let Some(known) = queues.by_name.get_mut(queue) {
            return hints(known);
        }
        let name: Arc<str> = queue.into();
        let mut queue = Queue::default();
        let hints = hints(&mut queue);
        queues.names.push(name.clone());
        queues.by_name.insert(name, queue);
        self.added.send_replace(queues.names.len());
        hints
    }

    /// Processes an answer about a queue: the server's clock, the time since the answer left the
    /// server, and, for a claim, whether no job was left.
    pub(in crate::redis) fn answered(&self, queue: &str, now_us: i64, ago: Duration, awaited: Option<bool>) {
        if let Some(queue) = self.lock().by_name.get_mut(queue) {
            let ago = i64::try_from(ago.as_micros()).unwrap_or(i64::MAX);
            queue.ahead = now_us.saturating_add(ago).saturating_sub(local_us());
            queue.awaited = awaited.unwrap_or(queue.awaited);
        }
    }

    /// This process has sent a job to the server. A caller that waits here may send its claim right
    /// behind it.
    pub(in crate::redis) fn expect_work(&self, queue: &str) {
        if let Some(queue) = self.lock().by_name.get_mut(queue)
            && mem::take(&mut queue.awaited)
        {
            queue.announcer.announce(None);
        }
    }

    /// Runs one listener for each server that holds a queue of ours.
    async fn distribute(self: Arc<Self>) {
        let (mut added, mut moves) = (self.added.subscribe(), self.servers.moves());
        let mut listened: Vec<Arc<Endpoint>> = Vec::new();
        let mut listeners = JoinSet::new();
        let mut seen = 0;
        loop {
            let new = self.names(seen);
            // A process that only listens sends no calls, so the listener has to find the servers.
            if !new.is_empty() && self.servers.ensure_known().await.is_err() {
                tokio::time::sleep(PAUSE.mul_f64(0.5 + fastrand::f64())).await;
                continue;
            }
            seen += new.len();
            for queue in new {
                let Some(endpoint) = self.servers.endpoint(&queue) else {
                    seen = 0;
                    continue;
                };
                if !listened.iter().any(|known| Arc::ptr_eq(known, &endpoint)) {
                    listened.push(endpoint.clone());
                    let this = self.clone();
                    listeners.spawn(async move {
                        this.serve(&endpoint).await;
                        endpoint
                    });
                }
            }
            tokio::select! {
                Some(Ok(ended)) = listeners.join_next() => {
                    listened.retain(|endpoint| !Arc::ptr_eq(endpoint, &ended));
                    seen = 0;
                }
                _ = added.changed() => {}
                () = wait_for_move(&mut moves) => seen = 0,
            }
        }
    }

    /// Listens to one server while it holds a queue of ours.
    async fn serve(&self, endpoint: &Arc<Endpoint>) {
        while self.names(0).iter().any(|queue| self.is_at(queue, endpoint)) {
            let mut subscribed = HashSet::new();
            let _ = self.listen(endpoint, &mut subscribed).await;
            // Announcements of the meantime are lost, so each caller polls.
            for queue in subscribed {
                self.announce(&queue, Announcement::Now(None));
            }
            tokio::time::sleep(PAUSE.mul_f64(0.5 + fastrand::f64())).await;
        }
    }

    /// Listens until the connection breaks or a queue has moved.
    async fn listen(&self, endpoint: &Arc<Endpoint>, subscribed: &mut HashSet<Arc<str>>) -> Option<()> {
        let (pushed, mut pushes) = mpsc::unbounded_channel();
        let (client, config, era) = endpoint.client(ProtocolVersion::RESP3).ok()?;
        let config = config.set_response_timeout(Some(CALL_DEADLINE)).set_connection_timeout(Some(CALL_DEADLINE)).set_push_sender(pushed);
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await.ok()?;
        let (mut added, mut moves) = (self.added.subscribe(), self.servers.moves());
        let mut seen = 0;
        loop {
            let new = self.names(seen);
            seen += new.len();
            self.subscribe(&connection, endpoint, new, subscribed).await?;
            tokio::select! {
                push = pushes.recv() => if self.handle_push(push?).is_none() {
                    endpoint.request_refresh();
                    return None;
                },
                _ = added.changed() => {}
                () = wait_for_move(&mut moves) => {
                    if !subscribed.iter().all(|queue| self.is_at(queue, endpoint)) {
                        return None;
                    }
                    seen = 0;
                }
                () = era.cancelled() => return None,
                () = tokio::time::sleep(PING) => drop(connection.req_packed_command(&redis::cmd("PING")).await.ok()?),
            }
        }
    }

    async fn subscribe(
        &self,
        connection: &MultiplexedConnection,
        endpoint: &Arc<Endpoint>,
        mut new: Vec<Arc<str>>,
        subscribed: &mut HashSet<Arc<str>>,
    ) -> Option<()> {
        new.retain(|queue| self.is_at(queue, endpoint) && !subscribed.contains(queue));
        for queues in new.chunks(SUBSCRIBED) {
            // Each command subscribes to one channel, because the channels of a cluster are in
            // different hash slots. The commands are sent together.
            let subscriptions = join_all(queues.iter().map(|queue| {
                let mut connection = connection.clone();
                let command = redis::cmd("SSUBSCRIBE").arg(self.keys.of(queue, Kind::Hint)).to_owned();
                async move { connection.req_packed_command(&command).await }
            }));
            if subscriptions.await.iter().any(Result::is_err) {
                endpoint.request_refresh();
                return None;
            }
            for queue in queues {
                self.announce(queue, Announcement::Now(None));
                subscribed.insert(queue.clone());
            }
        }
        Some(())
    }

    /// `None`: the connection is closed, or a queue has left this server.
    fn handle_push(&self, push: PushInfo) -> Option<()> {
        match received(push) {
            Received::End => None,
            Received::Nothing => Some(()),
            Received::OfJob { channel, has_ended, id } => {
                if let Some(queue) = self.keys.queue_of_channel(&channel)
                    && let Some(queue) = self.lock().by_name.get(&*queue)
                    && let Some(listener) = if has_ended { &queue.endings } else { &queue.progress }.get(&id)
                {
                    listener.announce(None);
                }
                Some(())
            }
            Received::Work { channel, announcement } => {
                if let Some(queue) = self.keys.queue_of_channel(&channel) {
                    self.announce(&queue, announcement);
                }
                Some(())
            }
        }
    }

    fn announce(&self, queue: &str, announcement: Announcement) {
        if let Some(queue) = self.lock().by_name.get(queue) {
            match announcement {
                Announcement::Now(None) => {
                    queue.announcer.announce(None);
                    queue.ticks.announce(None);
                    queue.endings.announce_all();
                    queue.progress.announce_all();
                }
                Announcement::Watched => queue.watches.announce(None),
                Announcement::Tick(at) => queue.ticks.announce(due(at, queue.ahead)),
                Announcement::Now(Some(since)) => queue.announcer.announce_since(since),
                Announcement::At(at) => queue.announcer.announce(due(at, queue.ahead)),
            }
        }
    }

    fn is_at(&self, queue: &str, endpoint: &Arc<Endpoint>) -> bool {
        self.servers.endpoint(queue).is_some_and(|at| Arc::ptr_eq(&at, endpoint))
    }

    /// All but the first `seen`.
    fn names(&self, seen: usize) -> Vec<Arc<str>> {
        self.lock().names[seen..].to_vec()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a queue may have moved; forever, if servers do not move.
async fn wait_for_move(moves: &mut watch::Receiver<u64>) {
    if moves.changed().await.is_err() {
        std::future::pending().await
    }
}

/// A message that a server pushes.
enum Received {
    /// The connection is closed, or the channel has moved to another server.
    End,
    Nothing,
    Work {
        channel: String,
        announcement: Announcement,
    },
    /// A watched job has ended, or its handler has reported progress.
    OfJob {
        channel: String,
        has_ended: bool,
        id: Vec<u8>,
    },
}

/// An announcement of work.
#[derive(Clone, Copy)]
enum Announcement {
    /// Work now, and if known since when: microseconds of the server's clock.
    Now(Option<i64>),
    /// Work at a time of the server's clock, in milliseconds.
    At(i64),
    /// A schedule is due at this time.
    Tick(i64),
    /// A caller waits for a job.
    Watched,
}

impl Announcement {
    /// Any program may publish on our channels: a message that is not a time counts as a hint of
    /// work now.
    fn of(message: Option<Value>) -> Self {
        let Some(message) = message.and_then(|message| values::text(message).ok()) else { return Announcement::Now(None) };
        if message == "&" {
            return Announcement::Watched;
        }
        if let Some(since) = message.strip_prefix('@') {
            return Announcement::Now(since.parse().ok());
        }
        let (time, announcement): (_, fn(i64) -> Announcement) =
            message.strip_prefix('#').map_or((&*message, Announcement::At), |time| (time, Announcement::Tick));
        time.parse().map_or(Announcement::Now(None), announcement)
    }
}

/// Other messages are ignored; they do not end the subscription.
fn received(push: PushInfo) -> Received {
    match push.kind {
        PushKind::Disconnection | PushKind::SUnsubscribe => Received::End,
        PushKind::SMessage => {
            let mut parts = push.data.into_iter();
            let Some(channel) = parts.next().and_then(|channel| values::text(channel).ok()) else { return Received::Nothing };
            match parts.next() {
                Some(Value::BulkString(message)) if matches!(message.first(), Some(b'!' | b'%')) => {
                    Received::OfJob { channel, has_ended: message[0] == b'!', id: message[1..].to_vec() }
                }
                message => Received::Work { channel, announcement: Announcement::of(message) },
            }
        }
        _ => Received::Nothing,
    }
}

/// Converts a time of a clock that is ahead of ours by `ahead_us` microseconds. `None`: the time
/// has passed, or is too far away.
fn due(at_ms: i64, ahead_us: i64) -> Option<Instant> {
    let wait = at_ms.saturating_mul(1000).saturating_sub(ahead_us).saturating_sub(local_us());
    let wait = u64::try_from(wait).ok().filter(|wait| *wait > 0)?;
    Instant::now().checked_add(Duration::from_micros(wait))
}

/// Any message on a subscription is accepted, and does not end it.
#[cfg(feature = "fuzz")]
pub(in crate::redis) fn __fuzz(value: Value) {
    let Value::Push { kind, data } = value else { return };
    let is_message = kind == PushKind::SMessage;
    let before = Instant::now();
    match received(PushInfo { kind, data }) {
        Received::Work { announcement: Announcement::At(at) | Announcement::Tick(at), .. } => {
            for ahead in [0, i64::MIN, i64::MAX] {
                assert!(due(at, ahead).is_none_or(|due| due > before), "what is over is due now");
            }
        }
        Received::Work { announcement: Announcement::Now(_) | Announcement::Watched, .. } | Received::OfJob { .. } => {}
        Received::End => assert!(!is_message, "a message ends the subscription"),
        Received::Nothing => {}
    }
}

fn local_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
}

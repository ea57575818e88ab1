//! The state that all requests share.

use std::{
    sync::{Arc, Mutex as StdMutex, PoisonError},
    time::{Duration, Instant},
};

use axum::http::request::Parts;
use futures_util::future::{BoxFuture, Shared as SharedFuture};
use queue_core::{__private::error_text, Client, inspect::Inspector};
use tokio::{
    sync::{Mutex, Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::{history::History, pages::watch::Kept, problem::Problem, role::Person, secrets::Secrets, server::SignIn, snapshot::Snapshot};

/// The maximum time for which a page waits for the broker.
pub(crate) const DEADLINE: Duration = Duration::from_secs(3);

/// The minimum time between two snapshots. Live pages change at most twice a second.
pub(crate) const REFRESH: Duration = Duration::from_millis(500);

/// Slow snapshots are taken less often: they take at most this fraction of the time, as a divisor.
const SHARE: u32 = 10;

/// After a failure, no snapshot is taken for this time.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// The maximum number of pages with lists that are rendered at once. Others wait.
const LISTS: usize = 4;

/// The maximum time for which a page waits for a permit to read a list. Then it reports that the
/// dashboard is busy.
const TURN: Duration = Duration::from_secs(8);

/// The maximum number of pages that are updated at once. Other pages are not updated.
const STREAMS: usize = 64;

/// The maximum number of pages that watch transitions. Each of them reads the broker separately.
pub(crate) const WATCHES: usize = 8;

pub(crate) type RoleOf = Box<dyn Fn(&Parts) -> Option<Person> + Send + Sync>;

/// One dashboard.
pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) inspector: Inspector,
    pub(crate) role_of: RoleOf,
    pub(crate) settings: Settings,
    lists: Semaphore,
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) watches: Arc<Semaphore>,
    /// The positions of pages that watch transitions, between two of their streams.
    pub(crate) watching: Kept,
    pub(crate) history: StdMutex<History>,
    latest: Mutex<Latest>,
}

/// The settings of the dashboard.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) hosts: Hosts,
    /// The path where it is mounted, if the request does not contain it.
    pub(crate) base: Option<String>,
    pub(crate) read_only: bool,
    pub(crate) secrets: Secrets,
    pub(crate) sign_in: Option<SignIn>,
    /// Ends the streams.
    pub(crate) until: Option<SharedFuture<BoxFuture<'static, ()>>>,
}

/// The host names of the dashboard.
#[derive(Clone, Debug)]
pub(crate) enum Hosts {
    Any,
    /// These, and the loopback names.
    These(Vec<String>),
}

#[derive(Default)]
struct Latest {
    last: Option<Arc<Snapshot>>,
    failed: Option<(Instant, String)>,
    outdated: bool,
}

/// The present data.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The newest snapshot. It is old if there is a problem.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// The reason why there is no newer snapshot.
    pub(crate) problem: Option<String>,
}

impl Shared {
    pub(crate) fn new(client: &Client, role_of: RoleOf, settings: Settings) -> Self {
        let client = client.with_deadline(DEADLINE);
        Shared {
            inspector: client.inspector(),
            client,
            role_of,
            settings,
            lists: Semaphore::new(LISTS),
            streams: Arc::new(Semaphore::new(STREAMS)),
            watches: Arc::new(Semaphore::new(WATCHES)),
            watching: Kept::default(),
            history: StdMutex::default(),
            latest: Mutex::default(),
        }
    }

    /// A permit to read a list. Only a few pages have one at once, and the others wait.
    pub(crate) async fn list_permit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let turn = timeout(TURN, self.lists.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or_else(Problem::busy)
    }

    /// The newest snapshot. Concurrent callers wait for the same one.
    pub(crate) async fn view(&self) -> View {
        let mut latest = self.latest.lock().await;
        let fresh = |last: &Arc<Snapshot>| last.taken.elapsed() < REFRESH.max(last.cost * SHARE);
        if !latest.outdated
            && latest.failed.is_none()
            && let Some(last) = latest.last.clone().filter(fresh)
        {
            return View { snapshot: Some(last), problem: None };
        }
        if let Some((_, problem)) = latest.failed.as_ref().filter(|(at, _)| at.elapsed() < FAILURE_PAUSE) {
            return View { snapshot: latest.last.clone(), problem: Some(problem.clone()) };
        }
        match Snapshot::take(&self.client, &self.inspector, latest.last.as_deref()).await {
            Ok(snapshot) => {
                let snapshot = Arc::new(snapshot);
                self.history.lock().unwrap_or_else(PoisonError::into_inner).add(&snapshot);
                *latest = Latest { last: Some(snapshot.clone()), failed: None, outdated: false };
                View { snapshot: Some(snapshot), problem: None }
            }
            Err(error) => {
                let problem = error_text(&error);
                if latest.failed.is_none() {
                    // One line for each outage, because an open page reads every second.
                    tracing::warn!(error = problem, "the dashboard cannot read the queues");
                }
                latest.failed = Some((Instant::now(), problem.clone()));
                View { snapshot: latest.last.clone(), problem: Some(problem) }
            }
        }
    }

    /// Called after a change, so that the next page shows it.
    pub(crate) async fn expire_snapshot(&self) {
        self.latest.lock().await.outdated = true;
    }
}

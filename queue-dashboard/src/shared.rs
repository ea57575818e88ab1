//! What all requests share.

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

/// A page does not wait longer for the broker.
pub(crate) const DEADLINE: Duration = Duration::from_secs(3);

/// Snapshots are at least this far apart: live pages change at most twice a second.
pub(crate) const REFRESH: Duration = Duration::from_millis(500);

/// A snapshot that takes long is taken less often: one part of this many of the time.
const SHARE: u32 = 10;

/// After a failure the broker is left alone for this long.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// Most pages with lists that are made at once; others wait.
const LISTS: usize = 4;

/// The longest time for which a page waits for a permit to read a list; then it answers that it is
/// busy.
const TURN: Duration = Duration::from_secs(8);

/// Most pages that are kept up to date at once; others stand still.
const STREAMS: usize = 64;

/// Most of them that watch: each asks the broker for itself.
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
    /// What pages have seen that watch, between two of their streams.
    pub(crate) watching: Kept,
    pub(crate) history: StdMutex<History>,
    latest: Mutex<Latest>,
}

/// What its owner has chosen.
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

/// Under which names the dashboard may be reached.
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

/// What can be said now.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The newest snapshot, which is old if there is a problem.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// Why there is no newer one.
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

    /// A turn to walk through a list: a few pages do at once, and the others wait for it.
    pub(crate) async fn list_permit(&self) -> Result<SemaphorePermit<'_>, Problem> {
        let turn = timeout(TURN, self.lists.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or_else(Problem::busy)
    }

    /// The newest snapshot. All who ask at once wait for the same one.
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
                self.history.lock().unwrap_or_else(PoisonError::into_inner).note(&snapshot);
                *latest = Latest { last: Some(snapshot.clone()), failed: None, outdated: false };
                View { snapshot: Some(snapshot), problem: None }
            }
            Err(error) => {
                let problem = error_text(&error);
                if latest.failed.is_none() {
                    // One line for each outage: an open page asks every second.
                    tracing::warn!(error = problem, "the dashboard cannot read the queues");
                }
                latest.failed = Some((Instant::now(), problem.clone()));
                View { snapshot: latest.last.clone(), problem: Some(problem) }
            }
        }
    }

    /// After a change, so that the next page shows it.
    pub(crate) async fn expire_snapshot(&self) {
        self.latest.lock().await.outdated = true;
    }
}

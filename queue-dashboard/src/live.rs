//! Keeps an open page up to date: a stream of server-sent events, each with the page's new content,
//! at most twice a second and only if it differs.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{Path, RawQuery, State},
    response::{
        IntoResponse, Response,
        sse::{Event, Sse},
    },
};
use futures_util::{
    FutureExt, Stream,
    future::{BoxFuture, Either},
    stream,
};
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, sleep_until},
};

use crate::{
    guard::Viewer,
    pages::{
        self, Content, failures, group, groups, job, jobs, limit, limits, operation, operations, overview, queues, schedule, schedules,
        topic, topics, watch, worker, workers,
    },
    params::Params,
    problem::Problem,
    shared::{REFRESH, Shared, WATCHES},
};

/// The interval at which a page with a list is rendered. It reads its own jobs from the broker.
const LIST_REFRESH: Duration = Duration::from_secs(1);

/// The interval at which the lists of schedules, groups, limits and failures are rendered. They
/// send a request for each queue.
const SCHEDULES_REFRESH: Duration = Duration::from_secs(2);

/// A page with more bytes is sent half as often.
const LARGE: usize = 24 * 1024;

/// The longest interval of a page that takes long to render. The cause of the delay may be gone.
const LONGEST: Duration = Duration::from_secs(5);

/// The interval at which the browser is notified that the page is up to date.
const SIGN: Duration = Duration::from_secs(2);

/// A stream ends after this time, and the browser opens another one. The graceful stop of a server
/// waits at most this long for a stream.
const TERM: Duration = Duration::from_secs(60);

/// The page that is kept up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Overview,
    Queues,
    Jobs,
    Job,
    Failures,
    Schedules,
    Schedule,
    Groups,
    Group,
    Limits,
    Limit,
    Operations,
    Operation,
    Topics,
    Topic,
    Watch,
    Workers,
    Worker,
}

struct Watcher {
    shared: Arc<Shared>,
    viewer: Viewer,
    kind: Kind,
    params: Params,
    /// For the page Watch: the transitions up to now, its permit, the reason why it cannot watch,
    /// and the time of its last read.
    watching: Option<watch::Watching>,
    turn: Option<OwnedSemaphorePermit>,
    hindered: Option<String>,
    waited: Duration,
    sent: String,
    last_event: Instant,
    next: Instant,
    end: Instant,
    over: bool,
    _permit: OwnedSemaphorePermit,
}

pub(crate) async fn stream(
    State(shared): State<Arc<Shared>>,
    Extension(viewer): Extension<Viewer>,
    Path(page): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let kind = match page.as_str() {
        "overview" => Kind::Overview,
        "queues" => Kind::Queues,
        "jobs" => Kind::Jobs,
        "job" => Kind::Job,
        "failures" => Kind::Failures,
        "schedules" => Kind::Schedules,
        "schedule" => Kind::Schedule,
        "groups" => Kind::Groups,
        "group" => Kind::Group,
        "limits" => Kind::Limits,
        "limit" => Kind::Limit,
        "operations" => Kind::Operations,
        "operation" => Kind::Operation,
        "topics" => Kind::Topics,
        "topic" => Kind::Topic,
        "watch" => Kind::Watch,
        "workers" => Kind::Workers,
        "worker" => Kind::Worker,
        _ => return Problem::not_found("There is no such page.").page(&viewer),
    };
    let Ok(permit) = shared.streams.clone().try_acquire_owned() else { return Problem::busy().page(&viewer) };
    let (now, params) = (Instant::now(), Params::parse(query.unwrap_or_default().as_bytes()));
    let until = shared.settings.until.clone();
    let (sent, end) = (String::new(), now + TERM);
    let (watching, turn, hindered, waited) = (None, None, None, Duration::ZERO);
    let watcher = Watcher {
        shared,
        viewer,
        kind,
        params,
        watching,
        turn,
        hindered,
        waited,
        sent,
        last_event: now,
        next: now,
        end,
        over: false,
        _permit: permit,
    };
    let events = stream::unfold(watcher, |mut watcher: Watcher| async move {
        watcher.event().await.map(|event| (Ok::<_, std::convert::Infallible>(event), watcher))
    });
    let stop = until.map_or_else(|| Either::Left(std::future::pending()), Either::Right);
    ([("x-accel-buffering", "no")], Sse::new(ended_by(events, stop))).into_response()
}

/// A stream that ends with this future.
fn ended_by<S: Stream>(stream: S, stop: impl Future<Output = ()>) -> impl Stream<Item = S::Item> {
    use futures_util::StreamExt;
    stream.take_until(stop.map(|()| ()))
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let (Some(watching), Some(page)) = (self.watching.take(), self.params.get("of").filter(|_| !self.over)) {
            self.shared.watching.put(page.to_owned(), watching);
        }
    }
}

impl Watcher {
    /// Waits until there is an event to send. `None`: the stream ends.
    async fn event(&mut self) -> Option<Event> {
        loop {
            if self.over || self.next > self.end {
                return None;
            }
            sleep_until(self.next).await;
            let began = Instant::now();
            let content = match self.next_content().await {
                Ok(content) => Ok(content.html),
                // The content of the page stays, and the script shows that it is old.
                Err(problem) if problem.status.is_client_error() => {
                    self.over = true;
                    return Some(Event::default().event("gone").data(&problem.text));
                }
                Err(problem) => Err(pages::stale_page_message(&problem)),
            };
            let pause = match self.kind {
                Kind::Jobs | Kind::Job | Kind::Schedule | Kind::Group | Kind::Limit | Kind::Topic => LIST_REFRESH,
                Kind::Schedules | Kind::Groups | Kind::Limits | Kind::Operations | Kind::Operation | Kind::Topics | Kind::Failures => {
                    SCHEDULES_REFRESH
                }
                // The obstacle may be temporary.
                Kind::Watch if self.hindered.is_some() => SCHEDULES_REFRESH,
                _ if content.as_ref().is_ok_and(|html| html.len() > LARGE) => LIST_REFRESH,
                _ => REFRESH,
            };
            // A page that takes long to render is rendered less often. The wait for an event does
            // not count as work.
            let took = began.elapsed().saturating_sub(self.waited);
            self.next = Instant::now() + pause.max((took * 4).min(LONGEST));
            let html = match content {
                Ok(html) => html,
                // The problem may be temporary: the page is sent again as soon as it can be
                // rendered. The wait for an answer does not count as work.
                Err(banner) => {
                    (self.next, self.sent) = (Instant::now() + pause, String::new());
                    return Some(Event::default().event("late").data(banner));
                }
            };
            if html != self.sent {
                self.last_event = Instant::now();
                self.sent = html;
                return Some(Event::default().event("page").data(&self.sent));
            }
            if self.last_event.elapsed() >= SIGN {
                self.last_event = Instant::now();
                return Some(Event::default().event("same").data("-"));
            }
        }
    }

    async fn next_content(&mut self) -> Result<Content, Problem> {
        if self.kind != Kind::Watch {
            return self.content().await;
        }
        let filter = self.params.text::<1000>("filter");
        if self.watching.is_none() {
            let before = self.params.get("of").and_then(|page| self.shared.watching.take(page, &filter));
            self.watching = Some(before.map_or_else(|| watch::Watching::new(&self.shared.client, &filter), Ok)?);
        }
        if self.turn.is_none() {
            self.turn = self.shared.watches.clone().try_acquire_owned().ok();
        }
        let began_at = Instant::now();
        self.hindered = match &mut self.watching {
            Some(watching) if self.turn.is_some() => watching.read(!self.sent.is_empty()).await.err(),
            _ => Some(format!(
                "{WATCHES} pages watch already, and no more can at once. This one begins as soon as another is closed or paused."
            )),
        };
        let next_content = began_at.elapsed();
        self.waited = if self.hindered.is_some() { next_content } else { next_content.min(watch::IDLE) };
        watch::content(&self.shared, &self.viewer, &self.params, self.watching.as_ref(), self.hindered.as_deref()).await
    }

    /// Boxed, so that the compiler can prove that the stream is `Send`.
    fn content(&self) -> BoxFuture<'_, Result<Content, Problem>> {
        let (shared, viewer, params) = (&*self.shared, &self.viewer, &self.params);
        let kind = self.kind;
        let content = async move {
            match kind {
                Kind::Overview => overview::content(shared, viewer).await,
                Kind::Queues => queues::content(shared, viewer, params).await,
                Kind::Jobs => jobs::content(shared, viewer, params).await,
                Kind::Job => job::content(shared, viewer, &params.text::<128>("queue"), &params.text::<128>("id"), params).await,
                Kind::Failures => failures::content(shared, viewer, params).await,
                Kind::Schedules => schedules::content(shared, viewer, params).await,
                Kind::Schedule => schedule::content(shared, viewer, &params.text::<128>("queue"), &params.text::<128>("id"), params).await,
                Kind::Groups => groups::content(shared, viewer, params).await,
                Kind::Group => group::content(shared, viewer, params).await,
                Kind::Limits => limits::content(shared, viewer, params).await,
                Kind::Limit => limit::content(shared, viewer, params).await,
                Kind::Operations => operations::content(shared, viewer, params).await,
                Kind::Operation => operation::content(shared, viewer, params).await,
                Kind::Topics => topics::content(shared, viewer, params).await,
                Kind::Topic => topic::content(shared, viewer, params).await,
                Kind::Watch => watch::content(shared, viewer, params, self.watching.as_ref(), self.hindered.as_deref()).await,
                Kind::Workers => workers::content(shared, viewer, params).await,
                Kind::Worker => worker::content(shared, viewer, params).await,
            }
        };
        content.boxed()
    }
}

//! Finds the master of a service through its sentinels.
//!
//! All sentinels are asked at once and the newest view is used, so that a sentinel that was cut off
//! does no harm. They are asked twice a second, and at once when the master has a problem. As soon
//! as there is another master, every connection to the old one is dropped. See
//! <https://redis.io/docs/latest/develop/reference/sentinel-clients/>.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use async_trait::async_trait;
use futures_util::stream::{FuturesUnordered, StreamExt};
use redis::{Cmd, Value};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use super::{
    endpoint::Endpoint,
    refusal::Refusal,
    servers::{Node, Purpose, Topology},
    settings::{self, Role},
    url::{Access, Address},
};
use crate::{
    error::{Error, Result},
    io::IoThread,
    redis::values::{array, number, text},
    text::cut,
};

/// The interval of requests while no problem is reported. Writes that the old master accepts
/// between an unplanned failover and the next request are lost.
const ROUTINE: Duration = Duration::from_millis(500);

/// The shortest interval between two requests.
const RATE: Duration = Duration::from_millis(100);

/// The timeout of a sentinel.
const ANSWER: Duration = Duration::from_secs(1);

/// How long the first answer waits for answers of other sentinels, which may be newer.
const OTHERS: Duration = Duration::from_millis(200);

/// How long after its last report a view overrides older views. Another sentinel may not know the
/// new view yet, and the sentinel that does may be silent for a moment.
const MEMORY: Duration = Duration::from_secs(10);

/// The most bytes of a host name.
const NAME_MAX: usize = 255;

/// The most bytes of names that a message repeats.
const NAMES_MAX: usize = 1024;

/// The sentinels of a service.
#[derive(Debug)]
pub(in crate::redis) struct Sentinels {
    sentinels: Vec<Arc<Node>>,
    service: String,
    location: Arc<str>,
    master: Arc<Node>,
    found: AtomicBool,
    /// The newest epoch, and when it was last reported.
    newest: Mutex<(u64, Instant)>,
    moved: watch::Sender<u64>,
}

/// The view of one sentinel.
struct View {
    epoch: u64,
    master: Address,
}

impl Sentinels {
    pub(in crate::redis) fn start(
        named: Vec<(Access, Address)>,
        service: String,
        servers: Access,
        location: &Arc<str>,
        moved: watch::Sender<u64>,
        io: &IoThread,
    ) -> Arc<Self> {
        let trouble = Arc::new(Notify::new());
        let sentinel = |(access, address): (Access, Address)| {
            // A failing sentinel is not reported, because the others are asked anyway.
            let endpoint = Endpoint::fixed(address.to_string(), access, address, Arc::new(Notify::new()));
            Node::new(&endpoint, io.handle())
        };
        let this = Arc::new(Sentinels {
            sentinels: named.into_iter().map(sentinel).collect(),
            service,
            master: Node::new(&Endpoint::moving(location.clone(), servers, trouble.clone()), io.handle()),
            location: location.clone(),
            found: AtomicBool::new(false),
            newest: Mutex::new((0, Instant::now())),
            moved,
        });
        let watching = this.clone();
        io.spawn(Box::pin(async move {
            loop {
                let _ = timeout(ROUTINE.mul_f64(0.75 + fastrand::f64() / 2.0), trouble.notified()).await;
                if watching.is_known()
                    && let Err(error) = watching.find().await
                {
                    tracing::debug!(%error, "cannot get the address of the master");
                }
                tokio::time::sleep(RATE).await;
            }
        }));
        this
    }

    /// Whether a view of this epoch is used.
    fn is_current(&self, epoch: u64) -> bool {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = epoch >= newest.0 || newest.1.elapsed() > MEMORY;
        if counts {
            *newest = (epoch, Instant::now());
        }
        counts
    }

    async fn request_views(&self) -> Result<View> {
        let mut asked: FuturesUnordered<_> = self.sentinels.iter().map(|sentinel| self.request_view(sentinel)).collect();
        let mut newest: Option<View> = None;
        let mut problems: Vec<Error> = Vec::new();
        let mut until = Instant::now() + ANSWER;
        while let Ok(Some(answer)) = timeout(until.saturating_duration_since(Instant::now()), asked.next()).await {
            match answer {
                Ok(view) => {
                    until = until.min(Instant::now() + OTHERS);
                    if newest.as_ref().is_none_or(|newest| view.epoch > newest.epoch) {
                        newest = Some(view);
                    }
                }
                Err(problem) => problems.push(problem),
            }
        }
        match newest {
            Some(view) => Ok(view),
            None => Err(self.no_answer_error(&problems)),
        }
    }

    /// The error if no sentinel knows the master. Problems that an operator has to fix come first.
    fn no_answer_error(&self, problems: &[Error]) -> Error {
        if let Some(error) = problems.iter().find(|error| !error.is_transient()) {
            return error.duplicate();
        }
        let unreachable = problems.iter().all(Error::is_unreachable);
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let problem = match &problems[..] {
            [] => format!("none of its {} sentinels answers in time", self.sentinels.len()),
            problems => format!("none of its {} sentinels answers: {}", self.sentinels.len(), problems.join("; ")),
        };
        if unreachable { Error::unreachable(&*self.location, problem) } else { Error::unavailable(&*self.location, problem) }
    }

    async fn request_view(&self, sentinel: &Node) -> Result<View> {
        let shown = sentinel.endpoint.shown();
        let ask = async |command: &mut Cmd| sentinel.link(Purpose::Heartbeats).send(command).await;
        // A sentinel that promotes a replica shows the new address in the first of these answers
        // before the second.
        let address = match ask(redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.service)).await {
            Ok(Value::Nil) => return Err(self.unknown_service_error(sentinel).await),
            Ok(address) => address,
            Err(refusal) if is_unknown_command(&refusal) => {
                let advice = "is not a sentinel; use `redis://` for a single server";
                return Err(Error::invalid("sentinel", shown, advice));
            }
            Err(refusal) => return Err(refusal.into_error(&sentinel.endpoint)),
        };
        let about = ask(redis::cmd("SENTINEL").arg("MASTER").arg(&self.service)).await;
        parse_view(shown, address, about.map_err(|refusal| refusal.into_error(&sentinel.endpoint))?)
    }

    async fn unknown_service_error(&self, sentinel: &Node) -> Error {
        let known = sentinel.link(Purpose::Heartbeats).send(redis::cmd("SENTINEL").arg("MASTERS")).await.ok();
        let names = known.map(service_names).unwrap_or_default();
        let known = if names.is_empty() { "no service at all" } else { &names };
        let problem = format!("is unknown to the sentinel {}, which monitors {known}", sentinel.endpoint.shown());
        Error::invalid("service", &self.service, problem)
    }
}

#[async_trait]
impl Topology for Sentinels {
    fn is_known(&self) -> bool {
        self.found.load(Ordering::Relaxed)
    }

    async fn find(&self) -> Result<()> {
        let View { epoch, master } = self.request_views().await?;
        if !self.is_current(epoch) {
            tracing::debug!(broker = &*self.location, %master, "a sentinel reported an outdated master, ignored");
            return Ok(());
        }
        self.found.store(true, Ordering::Relaxed);
        if self.master.endpoint.move_to(master.clone()) {
            tracing::info!(broker = &*self.location, %master, "the sentinels report a new master");
            self.moved.send_modify(|moves| *moves += 1);
        }
        Ok(())
    }

    fn node(&self, _tag: &str) -> Result<Arc<Node>> {
        Ok(self.master.clone())
    }

    async fn masters(&self) -> Result<Vec<Arc<Node>>> {
        self.find().await?;
        Ok(vec![self.master.clone()])
    }

    async fn check(&self) -> Result<()> {
        self.find().await?;
        settings::check(&self.master, Role::Master).await
    }
}

/// Decodes the answers of a sentinel to `GET-MASTER-ADDR-BY-NAME` and `MASTER`.
fn parse_view(shown: &str, address: Value, about: Value) -> Result<View> {
    let strange = || Error::Internal(format!("the answer of the sentinel {shown} has an unknown form"));
    let mut address = array(address)?.into_iter();
    let host = text(address.next().ok_or_else(strange)?)?;
    let port = number(address.next().ok_or_else(strange)?)?;
    // A sentinel that cannot resolve the name of the master returns an empty one. A longer text is
    // not a valid name.
    if host.is_empty() || host.len() > NAME_MAX || port == 0 {
        return Err(Error::unavailable(shown, "it reports no usable address of the master"));
    }
    let about: Vec<String> = array(about)?.into_iter().map(text).collect::<Result<_>>()?;
    let epoch = about.chunks(2).find(|pair| pair[0] == "config-epoch").and_then(|pair| pair.get(1)?.parse().ok());
    Ok(View { epoch: epoch.unwrap_or(0), master: Address { host, port } })
}

/// The names in the answer to `MASTERS`, for messages.
fn service_names(known: Value) -> String {
    let names = array(known).unwrap_or_default().into_iter().filter_map(|master| {
        let fields: Vec<String> = array(master).ok()?.into_iter().filter_map(|field| text(field).ok()).collect();
        fields.chunks(2).find(|pair| pair[0] == "name").and_then(|pair| Some(format!("`{}`", pair.get(1)?)))
    });
    cut(names.collect::<Vec<_>>().join(", "), NAMES_MAX)
}

fn is_unknown_command(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Server(error) if error.detail().is_some_and(|detail| detail.contains("unknown command")))
}

/// An answer of a sentinel is rejected with a short message, or decoded.
#[cfg(feature = "fuzz")]
pub(in crate::redis) fn __fuzz(value: Value) {
    assert!(service_names(value.clone()).len() <= NAMES_MAX, "so many names are not for people");
    let (address, about) = match value {
        Value::Array(both) if both.len() == 2 => (both[0].clone(), both[1].clone()),
        one => (one.clone(), one),
    };
    match parse_view("127.0.0.1:26379", address, about) {
        Ok(view) => assert!(!view.master.host.is_empty() && view.master.port > 0, "nobody can be at {}", view.master),
        Err(error) => assert!(error.to_string().len() <= NAMES_MAX, "a message of {} bytes", error.to_string().len()),
    }
}

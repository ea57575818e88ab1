//! Stories of a topic with two subscriptions: the same is done to both brokers, and both have the
//! same events, jobs and cursors after every step.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::Arc,
    time::{Duration, Instant},
};

use proptest::{collection::vec, option, prelude::*};
use queue_core::{
    __private::Envelope,
    Client, JobId,
    broker::{
        Begin, BuryReason, Delivery, DynBroker, Ending, Enqueue, FOLLOWED, Finish, GroupName, JobState, NewJob, PartyName, ProcessId,
        Register, Retention, RewindTarget, SetPause, StoredTransition, Subscribe, Turn, Unknown, subscription_address, topic_address,
    },
};

use crate::{
    compare::{Check, by_job},
    world::Sides,
};

const NAMES: [&str; 2] = ["billing", "mail"];

/// How many events a story has at most: those of one page, and fewer than a rewind passes in one
/// step.
const EVENTS: usize = 45;

const LONG: Duration = Duration::from_secs(3600);

/// One thing that somebody does with a topic.
#[derive(Clone, Debug)]
pub(crate) enum TopicStep {
    /// Each event has one of a few given ids or a made one, one of a few groups or none, and a type
    /// that is known or not.
    Publish {
        events: Vec<(Option<u8>, Option<u8>, bool)>,
    },
    /// The worker of a subscription hands in what it has, as far as these endings go, and claims
    /// all that may start.
    Turn {
        of: usize,
        claims: bool,
        endings: Vec<u8>,
    },
    Subscribe {
        of: usize,
        start: bool,
        skip: Option<bool>,
    },
    Unsubscribe {
        of: usize,
    },
    Keep {
        count: u64,
        wait: bool,
    },
    Trim,
    /// To the start, to the next one, or to an event; its runner dies after `steps` steps, or the
    /// rewind comes to its end.
    Rewind {
        of: usize,
        to: Option<u8>,
        now: bool,
        steps: usize,
    },
    Pause {
        of: usize,
        paused: bool,
    },
    /// A watcher follows a subscription from now on.
    Follow {
        of: usize,
    },
}

pub(crate) fn topic_story(most: usize) -> impl Strategy<Value = Vec<TopicStep>> {
    let of = || 0..NAMES.len();
    let event = (option::weighted(0.3, 0..3u8), option::weighted(0.4, 0..2u8), prop::bool::weighted(0.8));
    let step = prop_oneof![
        6 => vec(event, 1..4).prop_map(|events| TopicStep::Publish { events }),
        10 => (of(), prop::bool::weighted(0.8), vec(0..4u8, 0..4)).prop_map(|(of, claims, endings)| TopicStep::Turn { of, claims, endings }),
        2 => (of(), any::<bool>(), option::of(any::<bool>())).prop_map(|(of, start, skip)| TopicStep::Subscribe { of, start, skip }),
        1 => Just(TopicStep::Unsubscribe { of: 1 }),
        1 => (1..8u64, any::<bool>()).prop_map(|(count, wait)| TopicStep::Keep { count, wait }),
        2 => Just(TopicStep::Trim),
        3 => (of(), option::of(any::<u8>()), any::<bool>(), 0..12usize).prop_map(|(of, to, now, steps)| TopicStep::Rewind { of, to, now, steps }),
        1 => (of(), any::<bool>()).prop_map(|(of, paused)| TopicStep::Pause { of, paused }),
        1 => of().prop_map(|of| TopicStep::Follow { of }),
    ];
    let begun = NAMES.iter().enumerate().map(|(of, _)| TopicStep::Subscribe { of, start: true, skip: Some(of == 1) }).collect::<Vec<_>>();
    vec(step, 1..=most).prop_map(move |steps| begun.iter().cloned().chain(steps).collect())
}

/// A broker, and who works with it.
struct Side {
    broker: DynBroker,
    topic: Arc<str>,
    producer: PartyName,
    published: u64,
    lanes: Vec<Lane>,
}

struct Lane {
    queue: Arc<str>,
    name: PartyName,
    turns: u64,
    held: Vec<Delivery>,
    /// Which transition a watcher has read last, and when its mark was set.
    followed: Option<(u64, Instant)>,
}

impl Lane {
    fn next(&mut self) -> Turn {
        self.turns += 1;
        Turn::new(self.queue.clone(), self.name.clone(), self.turns, LONG)
    }
}

/// A delivery, but for its times.
fn face(delivery: &Delivery) -> (String, String, Vec<u8>) {
    let envelope = Envelope::decode(&delivery.envelope).expect("it was encoded here");
    (delivery.id.to_string(), envelope.task.to_string(), envelope.payload.to_vec())
}

/// What can be seen of a subscription: name, unread, lost, passed over, whether it has something to
/// read, whether a rewind is under way.
type Seen = (String, Option<u64>, u64, u64, bool, bool);

/// How many events are in the log and were ever added, the subscriptions, and the jobs by queue and
/// state.
type Sight = (Option<(u64, u64)>, Vec<Seen>, Vec<Vec<String>>);

impl Side {
    async fn new(broker: DynBroker, topic: Arc<str>) -> Result<Side, queue_core::Error> {
        let process = ProcessId::random();
        let producer = broker.register(&Register::producer(topic_address(&topic), process)).await?.name;
        let mut lanes = Vec::new();
        for name in NAMES {
            let queue: Arc<str> = subscription_address(name, &topic).into();
            let name = broker.register(&Register::lane(queue.clone(), process, LONG)).await?.name;
            lanes.push(Lane { queue, name, turns: 0, held: Vec::new(), followed: None });
        }
        Ok(Side { broker, topic, producer, published: 0, lanes })
    }

    /// Does it. The answer is the same on both sides.
    async fn act(&mut self, step: &TopicStep, events: &[NewJob]) -> Result<String, queue_core::Error> {
        Ok(match step {
            TopicStep::Publish { .. } => {
                self.published += 1;
                let request = Enqueue::new(topic_address(&self.topic), self.producer.clone(), self.published, events.to_vec());
                format!("{:?}", self.broker.enqueue(&request).await?)
            }
            TopicStep::Turn { of, claims, endings } => {
                let lane = &mut self.lanes[*of];
                let handed = endings.len().min(lane.held.len());
                let finishes = lane.held.drain(..handed).zip(endings).map(|(delivery, how)| Finish::new(&delivery, ending(*how))).collect();
                // One after the other: one broker reads on before what is handed in has ended, and
                // the other one behind that.
                let stale = self.broker.turn(&lane.next().finish(finishes)).await?.stale;
                // Of several that may start a broker is free to choose, and how far it reads on
                // depends on that: a claim takes all.
                let mut deliveries = self.broker.turn(&lane.next().claim(if *claims { 500 } else { 0 })).await?.deliveries;
                // Events of one group are in order, those without a group in any.
                let mut groups = BTreeMap::new();
                for delivery in &deliveries {
                    let job = self.broker.show(&lane.queue, &delivery.id).await?;
                    groups.insert(delivery.id.clone(), job.and_then(|job| job.group).map(|group| group.to_string()));
                }
                let loose = |delivery: &Delivery| groups[&delivery.id].is_none().then(|| delivery.id.clone());
                deliveries.sort_by(|a, b| (&groups[&a.id], loose(a)).cmp(&(&groups[&b.id], loose(b))));
                let told = format!("{:?}, stale {stale:?}", deliveries.iter().map(face).collect::<Vec<_>>());
                lane.held.extend(deliveries);
                told
            }
            TopicStep::Subscribe { of, start, skip } => {
                let mut request = Subscribe::new(self.topic.clone(), NAMES[*of], if *start { Begin::Start } else { Begin::Now });
                if let Some(skip) = skip {
                    request = request.unknown(if *skip { Unknown::Skip } else { Unknown::Park }).types(vec!["known".to_owned()]);
                }
                self.broker.subscribe(&request).await?.to_string()
            }
            TopicStep::Unsubscribe { of } => self.broker.unsubscribe(&self.topic, NAMES[*of]).await?.to_string(),
            TopicStep::Keep { count, wait } => {
                let lag = if *wait { LONG } else { Duration::ZERO };
                self.broker.set_retention(&self.topic, Retention { count: Some(*count), lag: Some(lag), ..Retention::default() }).await?;
                String::new()
            }
            TopicStep::Trim => format!("{:?}", self.broker.trim_topic(&self.topic).await?),
            TopicStep::Rewind { of, to, now, steps } => {
                let log = self.broker.read_topic(&self.topic, None, 100).await?;
                let mark = match to {
                    Some(at) if !log.is_empty() => RewindTarget::Event(log[usize::from(*at) % log.len()].position.clone()),
                    _ if *now => Begin::Now.into(),
                    _ => Begin::Start.into(),
                };
                let inspector = Client::with_broker(self.broker.clone()).inspector();
                let mut rewinding = inspector.rewind(&self.topic, NAMES[*of], mark);
                for _ in 0..*steps {
                    match rewinding.step().await {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) => return Ok(error.to_string()),
                    }
                }
                format!("{} again, {} cancelled, short {}", rewinding.again(), rewinding.cancelled(), rewinding.is_short())
            }
            TopicStep::Pause { of, paused } => {
                self.broker.set_pause(&SetPause::of_queue(&*self.lanes[*of].queue, *paused)).await?;
                String::new()
            }
            TopicStep::Follow { of } => {
                let lane = &mut self.lanes[*of];
                let now = Instant::now();
                let followed = self.broker.follow(&lane.queue, FOLLOWED).await?;
                let after = lane.followed.map(|(after, _)| after).or(followed.last);
                lane.followed = after.map(|after| (after, now));
                format!("{:?}", followed.last.is_some())
            }
        })
    }

    /// What is told of the jobs of a subscription since the last call; `None`: no mark stands, or
    /// it might be over.
    async fn told(&mut self, of: usize) -> Result<Option<Vec<StoredTransition>>, queue_core::Error> {
        let lane = &mut self.lanes[of];
        let Some((after, at)) = lane.followed.filter(|(_, at)| at.elapsed() < FOLLOWED / 2) else { return Ok(None) };
        let read = self.broker.transitions(&lane.queue, after, 500).await?;
        lane.followed = Some((read.upto, at));
        Ok(Some(by_job(read.entries)))
    }

    /// What there is: how many events, each subscription, and each queue by state.
    async fn seen(&self) -> Result<Sight, queue_core::Error> {
        let topic = self.broker.topic(&self.topic).await?;
        let subscriptions = topic
            .iter()
            .flat_map(|topic| &topic.subscriptions)
            .map(|of| (of.name.clone(), of.behind, of.lost, of.skipped, of.next_ms.is_some(), of.rewinding));
        let (counts, subscriptions) = (topic.as_ref().map(|topic| (topic.entries, topic.added)), subscriptions.collect());
        let mut jobs = Vec::new();
        for lane in &self.lanes {
            for state in JobState::ALL {
                let page = self.broker.list(&lane.queue, state, 0, 500).await?;
                let mut ids: Vec<String> = page.jobs.iter().map(|job| job.id.to_string()).collect();
                ids.sort();
                jobs.push(ids);
            }
        }
        Ok((counts, subscriptions, jobs))
    }
}

fn ending(how: u8) -> Ending {
    match how {
        0 => Ending::Ack { result: None, keep: None },
        1 => Ending::Ack { result: None, keep: Some(LONG) },
        2 => Ending::Bury { reason: BuryReason::Buried, error: None },
        _ => Ending::Nack { error: "no".to_owned(), delay: LONG },
    }
}

fn event((id, group, known): &(Option<u8>, Option<u8>, bool)) -> NewJob {
    let envelope = Envelope::new(if *known { "known" } else { "strange" }, &[0x80]).encode().expect("a small envelope can be encoded");
    let id = id.map_or_else(JobId::make, |n| JobId::given(&format!("given-{n}")).expect("it is a name"));
    let mut event = NewJob::new(id, envelope);
    event.group = group.map(|group| GroupName::new(format!("group-{group}")).expect("it is a name"));
    event
}

/// Tells a story.
pub(crate) async fn tell(sides: &Sides, story: &[TopicStep]) -> Check {
    let told = |error: queue_core::Error| error.to_string();
    let topic: Arc<str> = format!("story-{:016x}", fastrand::u64(..)).into();
    let mut redis = Side::new(sides.brokers[0].clone(), topic.clone()).await.map_err(told)?;
    let mut sqlite = Side::new(sides.second(), topic).await.map_err(told)?;
    let same = |what: &str, sqlite: &dyn Debug, redis: &dyn Debug| sides.equal(what, &format!("{redis:?}"), &format!("{sqlite:?}"));
    let mut published = 0;
    for (n, step) in story.iter().enumerate() {
        let events: Vec<NewJob> = match step {
            TopicStep::Publish { events } => events.iter().map(event).collect(),
            _ => Vec::new(),
        };
        if published + events.len() > EVENTS {
            continue;
        }
        published += events.len();
        if matches!(step, TopicStep::Trim) || !events.is_empty() {
            // So that each event of the log is older than the clock when it is trimmed.
            sides.advance(2);
        }
        let at = |what: &str| format!("step {}, {step:?}: {what}", n + 1);
        let known = sqlite.act(step, &events).await.map_err(told)?;
        let found = redis.act(step, &events).await.map_err(told)?;
        same(&at("the answer"), &known, &found)?;
        let (known, mut found) = (sqlite.seen().await.map_err(told)?, redis.seen().await.map_err(told)?);
        // On Redis that is not known behind some marks.
        for (known, found) in known.1.iter().zip(&mut found.1) {
            found.1 = found.1.or(known.1);
        }
        same(&at("the topic"), &known, &found)?;
        for of in 0..NAMES.len() {
            if let (Some(known), Some(found)) = (sqlite.told(of).await.map_err(told)?, redis.told(of).await.map_err(told)?) {
                same(&at("transitions"), &known, &found)?;
            }
        }
    }
    Ok(())
}

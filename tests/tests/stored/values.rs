//! Each value is the same through every interface: enqueued by its type, by JSON, edited, duplicated, published, and returned.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt::Debug,
    net::IpAddr,
    path::PathBuf,
    sync::Mutex,
    time::Duration,
};

use queue_core::{Edit, Error, JobState, Publication, RawJob, Stored, codec, handler::Runnable, prelude::*, registry::Registry};
use queue_worker::Worker;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned};

const PATIENCE: Duration = Duration::from_secs(20);

/// A type with two forms, as those of the crates `uuid`, `time` and `chrono`: a text for people, and bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Id([u8; 4]);

impl Serialize for Id {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Id([a, b, c, d]) = self;
        if serializer.is_human_readable() {
            serializer.collect_str(&format_args!("{a:02x}{b:02x}-{c:02x}{d:02x}"))
        } else {
            serializer.serialize_bytes(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?.replace('-', "");
        u32::from_str_radix(&text, 16).map(|id| Id(id.to_be_bytes())).map_err(serde::de::Error::custom)
    }
}

const ID: Id = Id([0x55, 0x0e, 0x84, 0x00]);

/// Bytes, as `serde_bytes` has them.
#[derive(Clone, Debug, PartialEq)]
struct Bytes(Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Bytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Bytes, E> {
                Ok(Bytes(bytes.to_vec()))
            }
        }
        deserializer.deserialize_bytes(Visitor)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum External {
    Unit,
    New(Id),
    Tuple(u8, f32),
    Struct { zulu: Option<u8>, alpha: IpAddr },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Internal {
    Struct { zulu: u64, alpha: Id },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Small(u8),
    Address(IpAddr),
    Id { id: Id },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    zulu: u8,
    #[serde(flatten)]
    rest: BTreeMap<String, Id>,
}

/// The table of types.
#[derive(Task, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[task(queue = "values", name = "all", group = id, unique(by = [id, address]), tag(order = id), limit(name = "each", by = [id], concurrency = 5))]
struct All {
    id: Id,
    address: IpAddr,
    wide: (u64, i64, u128, i128),
    single: f32,
    double: f64,
    bytes: Bytes,
    data: Vec<u8>,
    more: Vec<Vec<u8>>,
    external: Vec<External>,
    internal: Internal,
    untagged: Vec<Untagged>,
    flat: Flat,
    numbers: HashMap<i16, Id>,
    ids: HashMap<Id, Option<Option<u8>>>,
    set: HashSet<String>,
    value: serde_json::Value,
    path: PathBuf,
    lasts: Duration,
    unit: (),
    boxed: Box<Id>,
    text: std::borrow::Cow<'static, str>,
    missing: Option<Id>,
    there: Option<Id>,
    #[serde(rename = "letter")]
    renamed: char,
    note: u8,
}

fn all() -> All {
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    All {
        id: ID,
        address,
        wide: (u64::MAX, i64::MIN, 7, -7),
        single: 0.1,
        double: 0.1 + 0.2,
        bytes: Bytes(vec![0, 255]),
        data: vec![1, 200],
        more: vec![vec![1, 200]],
        external: vec![External::Unit, External::New(ID), External::Tuple(1, 0.1), External::Struct { zulu: None, alpha: address }],
        internal: Internal::Struct { zulu: 1, alpha: ID },
        untagged: vec![Untagged::Small(7), Untagged::Address(address), Untagged::Id { id: ID }],
        flat: Flat { zulu: 1, rest: BTreeMap::from([("extra".to_owned(), ID)]) },
        numbers: (0..20).map(|number| (number, ID)).collect(),
        ids: HashMap::from([(ID, None)]),
        set: ["b", "a", "c"].map(str::to_owned).into(),
        value: serde_json::json!({"z": 1, "a": [1.5, null, -1]}),
        path: PathBuf::from("/tmp/x"),
        lasts: Duration::from_millis(1500),
        unit: (),
        boxed: Box::new(ID),
        text: "ü".into(),
        missing: None,
        there: Some(ID),
        renamed: 'x',
        note: 1,
    }
}

#[derive(Event)]
#[event(topic = "values", name = "all", tag(order = id))]
struct Happened {
    id: Id,
    all: All,
}

static SEEN: Mutex<Vec<All>> = Mutex::new(Vec::new());

impl Handler for All {
    type Output = Result<All, String>;

    async fn run(self, ctx: JobContext) -> Self::Output {
        ctx.progress_value(&self).map_err(|error| error.to_string())?;
        Ok(self)
    }
}

#[subscribe(name = "readers", from = "start")]
async fn read(event: Happened) {
    SEEN.lock().unwrap().push(event.all);
}

/// Runs until a job has ended, and gives its result.
async fn result<T: Runnable, R: DeserializeOwned + Debug + Send>(client: &Client, handle: &queue_core::JobAddress) -> R {
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<T>();
    let mut found = None;
    let ended = async {
        while found.is_none() {
            let record = client.inspector().show(handle).await.unwrap();
            assert!(record.state != JobState::Dead, "{:?}", record.last_error());
            found = record.result::<R>().unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, worker.run(ended)).await.expect("the job ends").unwrap();
    found.unwrap()
}

#[tokio::test]
async fn a_value_is_the_same_through_every_interface() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let inspector = client.inspector();
    let keep = Duration::from_secs(600);
    let typed = all().job().retention(keep).enqueue(&client).await.unwrap();
    let record = inspector.show(typed.address()).await.unwrap();
    let json = record.payload_json().unwrap();
    for part in
        [r#""id":"550e-8400""#, r#""single":0.1,"#, r#""bytes":{"$base64":"AP8="}"#, r#""more":[[1,200]]"#, r#""set":["a","b","c"]"#]
    {
        assert!(json.contains(part), "{part} in {json}");
    }
    assert!(!json.contains("missing"), "{json}");
    assert_eq!((record.group.unwrap().as_str(), &*record.tags["order"], &*record.limits["each"]), ("550e-8400", "550e-8400", "550e-8400"));
    let mut search = inspector.search("payload~550e-84".parse().unwrap()).queue("values");
    assert_eq!(search.next().await.unwrap().unwrap().jobs.len(), 1);

    // An edit without a change, and one of another field.
    let same = inspector.edit(typed.address(), &Edit::new().task(All::definition()).payload_json(&*json)).await.unwrap();
    assert_eq!(same.changes.len(), 0, "{:?}", same.changes);
    let unknown = inspector.edit(typed.address(), &Edit::new().payload_json(&*json)).await.unwrap();
    assert_eq!(unknown.changes.len(), 0, "{:?}", unknown.changes);
    let other = json.replace(r#""note":1"#, r#""note":2"#);
    inspector.edit(typed.address(), &Edit::new().task(All::definition()).payload_json(&*other)).await.unwrap();
    inspector.edit(typed.address(), &Edit::new().task(All::definition()).payload_json(&*json)).await.unwrap();

    // By JSON it is the same job, and a second one of its key.
    let by_json = RawJob::from_json(All::definition(), &json).unwrap();
    let (address, stored) = client.enqueue_raw(by_json).await.unwrap();
    assert_eq!((&address, stored), (typed.address(), Stored::Existing));
    assert_eq!(result::<All, All>(&client, typed.address()).await, all());
    assert_eq!(inspector.log(typed.address(), 0).await.unwrap().progress.unwrap().value::<All>().unwrap().unwrap(), all());

    // A given id is that of the same job, whatever the order of a map.
    for _ in 0..5 {
        all().job().id("given").unique_key("k").enqueue(&client).await.unwrap();
    }
    let raw = RawJob::from_json(All::definition(), &json).unwrap().id("given").unique_key("k");
    assert_eq!(client.enqueue_raw(raw).await.unwrap().1, Stored::Existing);

    // Of a program that does not have the task.
    let foreign = RawJob::new("all", codec::from_json(&json).unwrap()).queue("values").retention(keep);
    let (address, _) = client.enqueue_raw(foreign).await.unwrap();
    assert_eq!(result::<All, All>(&client, &address).await, all());
}

#[tokio::test]
async fn an_event_is_the_same_as_json_and_by_its_type() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    client.publish(Happened { id: ID, all: all() }).await.unwrap();
    let json = client.inspector().events("values", None, 10).await.unwrap()[0].payload.clone().unwrap();
    Publication::from_json("values", "all", &json).unwrap().publish(&client).await.unwrap();
    let worker = Worker::new(client.clone()).registry(Registry::empty()).register::<read>();
    let both = queue_tests::patience::until("both events", async || SEEN.lock().unwrap().len() == 2);
    tokio::time::timeout(PATIENCE, worker.run(both)).await.expect("both are read").unwrap();
    assert_eq!(*SEEN.lock().unwrap(), [all(), all()]);
}

#[tokio::test]
async fn what_json_does_not_have_is_refused_at_enqueue() {
    let client = Client::connect("sqlite://:memory:").await.unwrap();
    let refused = async |all: All| match all.job().enqueue(&client).await {
        Err(Error::Encode { task, problem }) => format!("{task}: {problem}"),
        other => panic!("{other:?}"),
    };
    let number = refused(All { external: vec![External::Tuple(1, f32::NAN)], ..all() }).await;
    assert!(number.starts_with("all: parameter `external[0][1]`: NaN"), "{number}");
    let wide = refused(All { wide: (0, 0, u128::MAX, 0), ..all() }).await;
    assert!(wide.starts_with("all: parameter `wide[2]`: ") && wide.contains("beyond 64 bits"), "{wide}");
}

//! Code of the application before every enqueue.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, SystemTime},
};

use queue_core::{
    __private::SqliteBroker,
    Draft, Error, JobAddress, Middleware, RawJob, Result,
    broker::{Durability, JobState},
    prelude::*,
};
use queue_tests::{
    folder::folder,
    patience::WatchBroker,
    server::{Kind, Server},
};

#[task(queue = "numbers")]
async fn number(n: u32) {
    let _ = n;
}

#[task(queue = "letters", priority = "high", retention = "1h")]
async fn letter(to: String) {
    drop(to);
}

macro_rules! on_every_broker {
    ($($case:ident)*) => {
        $(mod $case {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                let folder = folder();
                let url = format!("sqlite://{}", folder.path().join("queue.db").display());
                super::$case(Client::connect(&url).await.unwrap().watched()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis() {
                let server = Server::start(Kind::Redis);
                super::$case(Client::connect(&server.url()).await.unwrap().watched()).await;
            }
        })*
    };
}

on_every_broker! {
    what_a_middleware_changes_is_stored
    of_many_jobs_each_is_refused_by_itself
}

fn memory() -> Client {
    Client::with_broker(SqliteBroker::open("sqlite::memory:").unwrap())
}

/// A middleware that does what the test says.
struct Each<F>(F);

impl<F: Fn(&mut Draft<'_>) -> Result<()> + Send + Sync + 'static> Middleware for Each<F> {
    fn enqueue(&self, draft: &mut Draft<'_>) -> Result<()> {
        (self.0)(draft)
    }
}

/// The client with a middleware that does this.
fn with(client: &Client, each: impl Fn(&mut Draft<'_>) -> Result<()> + Send + Sync + 'static) -> Client {
    client.with_middleware(Each(each))
}

/// Adds its name to the header `path`.
fn signs(name: &'static str) -> Each<impl Fn(&mut Draft<'_>) -> Result<()> + Send + Sync + 'static> {
    Each(move |draft: &mut Draft<'_>| {
        let path = format!("{}{name}", draft.header("path").unwrap_or_default());
        draft.set_header("path", path);
        Ok(())
    })
}

/// A header of a stored job.
async fn header(client: &Client, job: &JobAddress, name: &str) -> Option<String> {
    client.inspector().show(job).await.unwrap().headers.remove(name)
}

/// How many jobs wait in a queue.
async fn ready(client: &Client, queue: &str) -> u64 {
    client.inspector().stats(queue).await.unwrap().count(JobState::Ready)
}

async fn what_a_middleware_changes_is_stored(client: Client) {
    let changing = with(&client, |draft| {
        draft.set_priority(Priority::Low);
        draft.set_delay(Duration::from_secs(600));
        draft.set_retention(Duration::from_secs(60));
        draft.set_max_attempts(7);
        draft.set_timeout(Duration::from_secs(5));
        draft.set_expires(Duration::from_secs(1200));
        draft.set_header("tenant", "7");
        assert_eq!(draft.remove_header("secret").as_deref(), Some("s"));
        Ok(())
    });
    let handle = number::job(1).header("secret", "s").header("trace", "t").priority(Priority::High).enqueue(&changing).await.unwrap();
    let record = client.inspector().show(handle.address()).await.unwrap();
    assert_eq!((record.state, record.priority), (JobState::Scheduled, Priority::Low));
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!((record.retention, record.max_attempts, record.timeout), (seconds(60), Some(7), seconds(5)));
    assert!(record.expires_at.is_some());
    let headers = [("tenant", "7"), ("trace", "t")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(record.headers, headers.into());

    let at_once = with(&client, |draft| {
        draft.set_delay(Duration::ZERO);
        Ok(())
    });
    number::job(2).delay(Duration::from_secs(600)).enqueue(&at_once).await.unwrap();
    assert_eq!(ready(&client, "numbers").await, 1);
    let later = with(&client, |draft| {
        draft.set_at(SystemTime::now() + Duration::from_secs(600));
        Ok(())
    });
    let handle = number::job(3).enqueue(&later).await.unwrap();
    assert_eq!(handle.status().await.unwrap(), Some(JobState::Scheduled));
}

async fn of_many_jobs_each_is_refused_by_itself(client: Client) {
    let called = Arc::new(AtomicU32::new(0));
    let calls = called.clone();
    let picky = with(&client, move |draft| {
        calls.fetch_add(1, Ordering::SeqCst);
        match draft.id() {
            Some("2") => Err(draft.refused("it is the second")),
            Some("3") => panic!("as it must"),
            _ => Ok(()),
        }
    });
    let answers = picky.enqueue_all((0..6).map(|n| number::job(n).id(n.to_string()))).await.unwrap_err();
    assert_eq!(called.load(Ordering::SeqCst), 6, "once for each job");
    assert_eq!((answers.stored(), ready(&client, "numbers").await), (4, 4));
    for (n, answer) in answers.answers.iter().enumerate() {
        match (n, answer) {
            (2, Err(error)) => assert!(matches!(error, Error::Refused { .. }) && error.to_string().ends_with(": it is the second")),
            (3, Err(error)) => assert!(matches!(error, Error::Refused { .. }) && error.to_string().contains(": it panicked: as it must")),
            (n, answer) => assert_eq!(answer.as_ref().unwrap().id().to_string(), n.to_string()),
        }
    }
}

#[tokio::test]
async fn a_draft_shows_the_job_with_the_options_of_its_task() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sees = seen.clone();
    let client = with(&memory(), move |draft| {
        let who = format!("{} {:?} in {}", draft.task(), draft.id(), draft.queue());
        let options = (draft.priority(), draft.delay(), draft.at(), draft.retention(), draft.max_attempts(), draft.timeout());
        sees.lock().unwrap().push(format!(
            "{who}, {} bytes: {options:?} {:?} {:?}",
            draft.payload_size(),
            draft.expires(),
            draft.headers()
        ));
        Ok(())
    });
    letter::job("Ada".to_owned()).enqueue(&client).await.unwrap();
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(1500);
    let job =
        letter::job("Bob".to_owned()).at(at).queue("post").id("one").retention(Duration::from_secs(2)).expires(Duration::from_secs(3));
    job.max_attempts(4).timeout(Duration::from_secs(5)).header("a", "b").enqueue(&client).await.unwrap();
    number::job(1).delay(Duration::from_secs(6)).priority(Priority::Critical).enqueue(&client).await.unwrap();
    let given = (Priority::High, None::<Duration>, Some(at), Some(Duration::from_secs(2)), Some(4), Some(Duration::from_secs(5)));
    assert_eq!(
        *seen.lock().unwrap(),
        [
            "letter None in letters, 8 bytes: (High, None, None, None, None, None) None {}".to_owned(),
            format!(r#"letter Some("one") in post, 8 bytes: {given:?} Some(3s) {{"a": "b"}}"#),
            "number None in numbers, 4 bytes: (Critical, Some(6s), None, None, None, None) None {}".to_owned(),
        ]
    );
}

#[tokio::test]
async fn the_first_that_was_added_is_called_first_and_a_refusal_ends_the_way() {
    let client = memory();
    let signed = client.with_middleware(signs("a")).with_middleware(Arc::new(signs("b")));
    let handle = number::job(1).enqueue(&signed).await.unwrap();
    assert_eq!(header(&client, handle.address(), "path").await.unwrap(), "ab");
    let after = Arc::new(AtomicU32::new(0));
    let counts = after.clone();
    let refused = with(&signed, |draft| Err(draft.refused(draft.header("path").unwrap().to_owned())));
    let refused = with(&refused, move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    let error = number::job(2).enqueue(&refused).await.unwrap_err();
    assert_eq!(error.to_string(), "a middleware refused the job of task `number`, and nothing was stored: ab");
    assert_eq!((after.load(Ordering::SeqCst), ready(&client, "numbers").await), (0, 1));
    assert!(!error.is_ambiguous() && !error.is_transient());
}

#[tokio::test]
async fn an_error_of_any_kind_is_a_refusal_and_keeps_its_cause() {
    // It would mean that the job may be stored, or that waiting helps.
    let client = with(&memory(), |_| Err(Error::ambiguous("elsewhere", "it has not answered")));
    let error = number::job(1).enqueue(&client).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }) && !error.is_ambiguous() && !error.is_transient(), "{error:?}");
    let Error::Refused { cause, .. } = error else { unreachable!() };
    assert!(matches!(cause.downcast_ref(), Some(Error::Ambiguous { .. })), "{cause:?}");
    let client = with(&memory(), |draft| Err(draft.refused(std::io::Error::other("disk on fire"))));
    let error = number::job(1).enqueue(&client).await.unwrap_err();
    assert!(error.to_string().ends_with("nothing was stored: disk on fire"), "{error}");
    assert!(matches!(&error, Error::Refused { cause, .. } if cause.is::<std::io::Error>()), "{error:?}");
    assert!(std::error::Error::source(&error).is_some());
}

#[tokio::test]
async fn a_panic_refuses_its_job_and_does_not_unwind_into_the_caller() {
    let client = memory();
    let panics = with(&client, |draft| {
        assert_ne!(draft.header("bad"), Some("yes"), "as it must");
        Ok(())
    });
    let error = number::job(1).header("bad", "yes").enqueue(&panics).await.unwrap_err();
    assert!(
        matches!(error, Error::Refused { .. }) && error.to_string().contains("it panicked: ") && error.to_string().contains("as it must")
    );
    number::job(2).enqueue(&panics).await.unwrap();
    assert_eq!(ready(&client, "numbers").await, 1);
}

#[tokio::test]
async fn what_a_middleware_adds_is_checked_like_the_jobs_own() {
    let client = with(&memory(), |draft| {
        match draft.task() {
            "number" => draft.set_header("big", "x".repeat(5_000)),
            _ => draft.set_delay(Duration::MAX),
        }
        Ok(())
    });
    assert!(number::job(1).enqueue(&client).await.unwrap_err().to_string().starts_with("headers "));
    assert!(letter::job(String::new()).enqueue(&client).await.unwrap_err().to_string().starts_with("delay "));
}

#[tokio::test]
async fn a_job_by_the_name_of_its_task_passes_too() {
    let client = memory();
    let signed = client.with_middleware(signs("a"));
    let (address, _) = signed.enqueue_raw(RawJob::new("number", vec![0x80]).queue("numbers")).await.unwrap();
    assert_eq!(header(&client, &address, "path").await.unwrap(), "a");
    let (address, _) = signed.enqueue_raw(RawJob::from_json(number::definition(), r#"{"n": 1}"#).unwrap()).await.unwrap();
    assert_eq!(header(&client, &address, "path").await.unwrap(), "a");
}

#[tokio::test]
async fn clients_that_are_made_of_it_keep_its_middleware_and_the_one_before_has_none() {
    let client = memory();
    let signed = client.with_middleware(signs("a"));
    let made = [
        signed.clone(),
        signed.with_deadline(Duration::from_secs(1)),
        signed.with_durability(Durability::Volatile),
        signed.with_replicas(0),
    ];
    for made in made {
        let handle = number::job(1).enqueue(&made).await.unwrap();
        assert_eq!(header(&client, handle.address(), "path").await.unwrap(), "a");
    }
    let handle = number::job(1).enqueue(&client).await.unwrap();
    assert_eq!(header(&client, handle.address(), "path").await, None);
}

//! A new version of a task reads the jobs of the old one, and the old version those of the new one,
//! as a deployment has both.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use queue_core::{__private::Runnable, Registry, prelude::*};
use queue_tests::patience::{WatchBroker, patience, wait};
use queue_worker::Worker;
use tokio::sync::Notify;

/// What the handlers were called with.
#[derive(Default)]
struct Calls {
    seen: Mutex<Vec<String>>,
    one_more: Notify,
}

impl Calls {
    fn note(&self, call: String) {
        self.seen.lock().unwrap().push(call);
        self.one_more.notify_one();
    }
}

/// Runs one job with the task `T` in the place of the one that made it, and tells how the handler
/// was called.
async fn run_as<T: Runnable>(enqueue: impl AsyncFnOnce(&Client)) -> String {
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    enqueue(&client).await;
    let calls = Arc::new(Calls::default());
    // Not the linked ones: both versions are linked into this program.
    let worker = Worker::new(client).registry(Registry::empty()).register::<T>().shared_data(calls.clone());
    let called = async { calls.one_more.notified().await };
    wait("the handler is called").end_of(worker.run(called)).await.unwrap();
    let seen = calls.seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    seen[0].clone()
}

/// Runs one job with the task `T` in the place of the one that made it, and tells why it is a dead
/// letter.
async fn dead_as<T: Runnable, Made: Task>(job: Job<Made>) -> String
where
    queue_core::TaskOutput<Made>: serde::de::DeserializeOwned + std::marker::Send,
{
    let client = Client::connect("sqlite://:memory:").await.unwrap().watched();
    let handle = job.enqueue(&client).await.unwrap();
    let worker = Worker::new(client).registry(Registry::empty()).register::<T>().data(Calls::default()).unreadable_for(Duration::ZERO);
    let mut why = String::new();
    let buried = async {
        if let JobResult::Dead(reason) = handle.wait(patience()).await.unwrap() {
            why = reason;
        }
    };
    wait("the job ends").times(2).end_of(worker.run(buried)).await.unwrap();
    why
}

mod first {
    use super::*;

    #[task(name = "send")]
    pub(super) async fn send(order_id: u64, to: String, calls: Data<Calls>) {
        calls.note(format!("first {order_id} {to}"));
    }

    #[derive(Task)]
    #[task(name = "send")]
    pub(super) struct Send {
        pub(super) order_id: u64,
        pub(super) to: String,
    }

    impl Handler for Send {
        type Output = Result<(), String>;

        async fn run(self, ctx: JobContext) -> Self::Output {
            ctx.data::<Calls>().ok_or("no calls")?.note(format!("first struct {} {}", self.order_id, self.to));
            Ok(())
        }
    }
}

mod with_more {
    use super::*;

    fn copies() -> u8 {
        3
    }

    #[task(name = "send")]
    pub(super) async fn send(
        order_id: u64,
        to: String,
        cc: Option<String>,
        #[default] urgent: bool,
        #[default(copies())] copies: u8,
        calls: Data<Calls>,
    ) {
        calls.note(format!("more {order_id} {to} {cc:?} {urgent} {copies}"));
    }

    #[derive(Task)]
    #[task(name = "send")]
    pub(super) struct Send {
        order_id: u64,
        to: String,
        cc: Option<String>,
        #[default]
        urgent: bool,
        #[default(copies())]
        copies: u8,
    }

    impl Handler for Send {
        type Output = Result<(), String>;

        async fn run(self, ctx: JobContext) -> Self::Output {
            let Send { order_id, to, cc, urgent, copies } = self;
            ctx.data::<Calls>().ok_or("no calls")?.note(format!("more struct {order_id} {to} {cc:?} {urgent} {copies}"));
            Ok(())
        }
    }
}

mod with_fewer {
    use super::*;

    #[task(name = "send")]
    pub(super) async fn send(order_id: u64, calls: Data<Calls>) {
        calls.note(format!("fewer {order_id}"));
    }
}

mod in_another_order {
    use super::*;

    #[task(name = "send")]
    pub(super) async fn send(calls: Data<Calls>, to: String, order_id: u64) {
        calls.note(format!("reordered {order_id} {to}"));
    }
}

mod under_another_name {
    use super::*;

    #[task(alias = "send")]
    pub(super) async fn send_mail(order_id: u64, to: String, calls: Data<Calls>) {
        calls.note(format!("renamed {order_id} {to}"));
    }
}

mod blocking {
    use super::*;

    #[task(name = "send", blocking)]
    pub(super) fn send(order_id: u32, to: String, calls: Data<Calls>) {
        calls.note(format!("blocking {order_id} {to}"));
    }
}

mod with_one_more_required {
    use super::*;

    #[task(name = "send", max_attempts = 1)]
    pub(super) async fn send(order_id: u64, shop: String, calls: Data<Calls>) {
        calls.note(format!("{order_id} {shop}"));
    }
}

mod of_another_type {
    use super::*;

    #[task(name = "send", max_attempts = 1)]
    pub(super) async fn send(order_id: u64, to: u64, calls: Data<Calls>) {
        calls.note(format!("{order_id} {to}"));
    }
}

async fn first(client: &Client) {
    first::send::job(7, "Ada".to_owned()).enqueue(client).await.unwrap();
}

async fn with_more(client: &Client) {
    with_more::send::job(7, "Ada".to_owned(), Some("Bob".to_owned()), true, 9).enqueue(client).await.unwrap();
}

#[tokio::test]
async fn added_optional_and_defaulted_parameters_get_their_defaults() {
    assert_eq!(run_as::<with_more::send>(first).await, "more 7 Ada None false 3");
    assert_eq!(run_as::<with_more::Send>(first).await, "more struct 7 Ada None false 3");
}

#[tokio::test]
async fn given_optional_and_defaulted_parameters_are_kept() {
    assert_eq!(run_as::<with_more::send>(with_more).await, "more 7 Ada Some(\"Bob\") true 9");
}

#[tokio::test]
async fn an_old_worker_skips_what_it_does_not_know() {
    assert_eq!(run_as::<first::send>(with_more).await, "first 7 Ada");
}

#[tokio::test]
async fn a_removed_parameter_is_skipped() {
    assert_eq!(run_as::<with_fewer::send>(first).await, "fewer 7");
    assert_eq!(run_as::<with_fewer::send>(with_more).await, "fewer 7");
}

#[tokio::test]
async fn the_order_of_parameters_means_nothing() {
    assert_eq!(run_as::<in_another_order::send>(first).await, "reordered 7 Ada");
    assert_eq!(run_as::<in_another_order::send>(with_more).await, "reordered 7 Ada");
}

#[tokio::test]
async fn a_renamed_task_takes_the_jobs_of_its_alias() {
    assert_eq!(run_as::<under_another_name::send_mail>(first).await, "renamed 7 Ada");
}

#[tokio::test]
async fn a_function_and_a_struct_of_the_same_parameters_read_each_others_jobs() {
    assert_eq!(run_as::<first::Send>(first).await, "first struct 7 Ada");
    let from_struct = async |client: &Client| {
        first::Send { order_id: 8, to: "Bob".to_owned() }.job().enqueue(client).await.unwrap();
    };
    assert_eq!(run_as::<first::send>(from_struct).await, "first 8 Bob");
}

#[tokio::test]
async fn an_async_task_may_become_a_blocking_one_with_a_narrower_number() {
    assert_eq!(run_as::<blocking::send>(first).await, "blocking 7 Ada");
}

#[tokio::test]
async fn a_job_that_lacks_a_required_parameter_is_buried_naming_it() {
    let why = dead_as::<with_one_more_required::send, _>(first::send::job(7, "Ada".to_owned())).await;
    assert!(why.contains("parameter `shop` is missing"), "{why}");
}

#[tokio::test]
async fn a_job_whose_parameter_has_another_type_is_buried_naming_it() {
    let why = dead_as::<of_another_type::send, _>(first::send::job(7, "Ada".to_owned())).await;
    assert!(why.contains("parameter `to`"), "{why}");
}

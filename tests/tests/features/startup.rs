//! What a worker refuses to start with, and what it says.

use queue_core::{Registry, prelude::*};
use queue_tests::patience::WatchBroker;
use queue_worker::Worker;

struct Shop;
struct Mailer;

mod one {
    use super::*;

    #[task]
    pub(super) async fn close(_order_id: u64) {}
    pub(super) const LINE: u32 = line!() - 2;
}

mod other {
    use super::*;

    #[task(alias = "shut")]
    pub(super) async fn close(_order_id: u64) {}
    pub(super) const LINE: u32 = line!() - 2;
}

mod old_name {
    use super::*;

    #[task]
    pub(super) async fn shut(_order_id: u64) {}
}

#[task(queue = "mail")]
async fn send(_shop: Data<Shop>, _mailer: Data<Mailer>) {}

#[task(queue = "mail", blocking)]
fn print(_shop: Data<Shop>) {}

async fn worker() -> Worker {
    Worker::new(Client::connect("sqlite://:memory:").await.unwrap().watched()).registry(Registry::empty())
}

fn problem(worker: &Worker) -> String {
    worker.check().expect_err("it is refused").to_string()
}

#[tokio::test]
async fn two_tasks_of_one_name_are_refused_naming_both_places() {
    let worker = worker().await.register::<other::close>().register::<one::close>();
    let problem = problem(&worker);
    let (one, other) = (format!("startup.rs:{}", one::LINE), format!("startup.rs:{}", other::LINE));
    assert!(problem.contains("two tasks are named `close`"), "{problem}");
    assert!(problem.find(&one).unwrap() < problem.find(&other).unwrap(), "{problem}");
    assert!(problem.contains("#[task(name = \"...\")]"), "{problem}");
}

#[tokio::test]
async fn a_name_that_is_anothers_alias_is_refused_naming_both() {
    let problem = problem(&worker().await.register::<other::close>().register::<old_name::shut>());
    assert!(problem.contains("two tasks are named `shut`") && problem.contains("as an alias of `close`"), "{problem}");
}

#[tokio::test]
async fn the_same_task_may_be_registered_twice() {
    worker().await.register::<one::close>().register::<one::close>().check().unwrap();
}

#[tokio::test]
async fn a_missing_state_is_refused_naming_it_and_its_tasks() {
    let worker = worker().await.register::<send>().register::<print>().data(Mailer);
    let problem = problem(&worker);
    assert!(problem.contains("startup::Shop") && problem.contains("`print`") && problem.contains("`send`"), "{problem}");
    assert!(problem.contains(".data("), "{problem}");
    assert!(!problem.contains("Mailer"), "{problem}");
    worker.data(Shop).check().unwrap();
}

#[tokio::test]
async fn a_state_that_only_other_queues_need_is_not_asked_for() {
    worker().await.register::<send>().register::<one::close>().queue("default").check().unwrap();
}

#[tokio::test]
async fn a_worker_without_any_task_is_refused_saying_how_they_are_found() {
    let problem = problem(&worker().await);
    assert!(problem.contains("has no task") && problem.contains("use shop_tasks as _;"), "{problem}");
}

#[tokio::test]
async fn a_refused_worker_does_not_run() {
    worker().await.run(std::future::pending()).await.expect_err("it is refused");
}

//! Programs in other languages publish events. `cargo xtask foreign` gets the libraries that they
//! need, and runs this.

use std::{process::Command, sync::Arc, time::Duration};

use queue_core::{Registry, prelude::*, topics::Begin};
use queue_tests::{
    patience::{WatchBroker, output, until},
    server::{Kind, Server},
};
use queue_worker::Worker;

#[derive(Event)]
#[event(topic = "foreign", name = "order.paid")]
struct OrderPaid {
    order: u64,
    from: String,
}

/// Who has published which orders, as they were handled.
#[derive(Default)]
struct Heard(std::sync::Mutex<Vec<(String, u64)>>);

#[subscribe(name = "billing", from = "start", ordered)]
async fn bill(event: OrderPaid, heard: Data<Arc<Heard>>) {
    heard.0.lock().unwrap().push((event.from, event.order));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "`cargo xtask foreign` runs it: the programs need libraries of their languages"]
async fn programs_in_other_languages_publish() {
    const EVENTS: u64 = 20;
    let server = Server::start(Kind::Redis);
    let client = Client::connect(&server.url()).await.unwrap().watched();
    client.inspector().subscribe("foreign", "billing", Begin::Start).await.unwrap();
    for (variable, program) in [("QUEUE_TEST_PYTHON", "publish.py"), ("QUEUE_TEST_NODE", "publish.mjs")] {
        let named = std::env::var(variable)
            .unwrap_or_else(|_| panic!("{variable} names the interpreter and the program; `cargo xtask foreign` does"));
        let (interpreter, folder) = named.split_once('=').expect("INTERPRETER=FOLDER");
        let mut command = Command::new(interpreter);
        command.arg(format!("{folder}/{program}")).args([server.url(), "foreign".to_owned(), EVENTS.to_string()]);
        let output = output(&mut command).unwrap();
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count() as u64, EVENTS, "{program}");
    }
    let heard = Arc::new(Heard::default());
    let worker = Worker::new(client).registry(Registry::empty()).data(heard.clone()).lease(Duration::from_secs(2)).register::<bill>();
    worker.run(until("the events are handled", &async || heard.0.lock().unwrap().len() as u64 == 2 * EVENTS)).await.unwrap();
    let heard = heard.0.lock().unwrap();
    for (language, first) in [("Python", 101), ("Node", 201)] {
        let orders: Vec<u64> =
            heard.iter().filter(|(from, _)| *from == format!("{language}, größer als ASCII")).map(|(_, order)| *order).collect();
        assert_eq!(orders, (first..first + EVENTS).collect::<Vec<_>>(), "{language}: in the order of its group");
    }
}

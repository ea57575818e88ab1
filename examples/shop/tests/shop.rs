//! The web application and the worker, as two processes, over HTTP.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use queue_tests::{
    folder::folder,
    patience::{Lines, exit, patience, wait_for},
    server::{Kind, Server},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The destination of exported spans.
const COLLECTOR: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A running shop.
struct Shop {
    folder: TempDir,
    url: String,
    pay_within: &'static str,
    web: Child,
    address: String,
    worker: Option<Child>,
    collector: Option<String>,
}

impl Shop {
    fn open(pay_within: &'static str, url: impl FnOnce(&Path) -> String) -> Self {
        Shop::traced(pay_within, url, None)
    }

    /// A shop whose programs export their spans to this address.
    fn traced(pay_within: &'static str, url: impl FnOnce(&Path) -> String, collector: Option<String>) -> Self {
        let folder = folder();
        let url = url(folder.path());
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        let command = surroundings(&mut command, &folder, &url, pay_within).stdout(Stdio::piped());
        let mut web = command.envs(collector.iter().map(|collector| (COLLECTOR, collector))).spawn().unwrap();
        let line = Lines::of(web.stdout.take().unwrap()).next();
        let address = line.strip_prefix("http://").expect("it says where it listens").to_owned();
        let mut shop = Shop { folder, url, pay_within, web, address, worker: None, collector };
        shop.start_worker();
        shop
    }

    fn on_sqlite(pay_within: &'static str) -> Self {
        Shop::open(pay_within, |folder| format!("sqlite://{}", folder.join("queue.db").display()))
    }

    fn start_worker(&mut self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop-worker"));
        let command = surroundings(&mut command, &self.folder, &self.url, self.pay_within).stdout(Stdio::null());
        let worker = command.envs(self.collector.iter().map(|collector| (COLLECTOR, collector))).spawn().unwrap();
        self.worker = Some(worker);
    }

    fn kill_worker(&mut self) {
        let mut worker = self.worker.take().unwrap();
        worker.kill().unwrap();
        exit(&mut worker);
    }

    /// Sends a request, and gives status and body.
    fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = body.to_string();
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(patience())).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    fn order(&self) -> String {
        let (status, body) = self.ask("POST", "/orders", &json!({ "customer": "ada", "article": "ink" }));
        assert_eq!((status, &body["state"]), (201, &json!("open")), "{body}");
        body["id"].as_str().unwrap().to_owned()
    }

    fn state(&self, order: &str) -> String {
        let (status, body) = self.ask("GET", &format!("/orders/{order}"), &Value::Null);
        assert_eq!(status, 200, "{body}");
        body["state"].as_str().unwrap().to_owned()
    }

    fn wait_for_state(&self, order: &str, state: &str) {
        wait_for(&format!("order {order} to be {state}"), || (self.state(order) == state).then_some(()));
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        for child in self.worker.iter_mut().chain([&mut self.web]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn surroundings<'a>(command: &'a mut Command, folder: &TempDir, url: &str, pay_within: &str) -> &'a mut Command {
    command.env_remove("DATABASE_URL");
    command.current_dir(folder.path()).env("QUEUE_URL", url).env("SHOP_DB", folder.path().join("shop.db"));
    command.env("SHOP_ADDRESS", "127.0.0.1:0").env("SHOP_PAY_WITHIN", pay_within).env("SHOP_ACTIVATION_MAILS", "200ms,400ms");
    // The default delay is five seconds.
    command.env_remove(COLLECTOR).env("OTEL_BSP_SCHEDULE_DELAY", "50");
    command.stdin(Stdio::null()).stderr(Stdio::null())
}

#[test]
fn an_unpaid_order_is_closed_and_a_paid_one_is_not() {
    let shop = Shop::on_sqlite("1s");
    let (paid, unpaid) = (shop.order(), shop.order());
    assert_eq!(shop.ask("POST", &format!("/orders/{paid}/pay"), &Value::Null).0, 200);
    wait_for("the payment to be booked", || (shop.ask("GET", "/sales/ink", &Value::Null).1["sold"] == 1).then_some(()));
    shop.wait_for_state(&unpaid, "closed");
    assert_eq!(shop.ask("POST", &format!("/orders/{unpaid}/pay"), &Value::Null).0, 409);

    // The job of the paid order was due before this one.
    let later = shop.order();
    shop.wait_for_state(&later, "closed");
    assert_eq!(shop.state(&paid), "paid");
}

#[test]
fn an_order_is_not_closed_early() {
    let shop = Shop::on_sqlite("2s");
    let ordered = Instant::now();
    let order = shop.order();
    shop.wait_for_state(&order, "closed");
    assert!(ordered.elapsed() >= Duration::from_secs(2));
}

#[test]
fn orders_are_closed_on_redis_too() {
    let server = Server::start(Kind::Redis);
    let shop = Shop::open("200ms", |_| server.url());
    let order = shop.order();
    shop.wait_for_state(&order, "closed");
}

#[test]
fn an_order_is_closed_although_the_worker_was_killed_before_its_time() {
    let mut shop = Shop::on_sqlite("300ms");
    shop.kill_worker();
    let order = shop.order();
    assert_eq!(shop.state(&order), "open");
    shop.start_worker();
    shop.wait_for_state(&order, "closed");
}

#[test]
fn only_a_customer_who_buys_nothing_is_written_to() {
    let mut shop = Shop::on_sqlite("1h");
    shop.kill_worker(); // until both have joined
    let join = |email: &str| shop.ask("POST", "/customers", &json!({ "email": email })).1["id"].as_str().unwrap().to_owned();
    let (ada, ben) = (join("ada@example.com"), join("ben@example.com"));
    let order = shop.ask("POST", "/orders", &json!({ "customer": ben, "article": "ink" })).1["id"].as_str().unwrap().to_owned();
    assert_eq!(shop.ask("POST", &format!("/orders/{order}/pay"), &Value::Null).0, 200);

    shop.start_worker();
    let mails = |customer: &str| shop.ask("GET", &format!("/customers/{customer}"), &Value::Null).1["mails"].clone();
    wait_for("both mails to Ada", || (mails(&ada) == json!([1, 2])).then_some(()));
    let last = shop.ask("POST", "/customers", &json!({ "email": "cleo@example.com" })).1["id"].as_str().unwrap().to_owned();
    wait_for("the mails to one who joined later", || (mails(&last) == json!([1, 2])).then_some(()));
    assert_eq!(mails(&ben), json!([]));
}

#[test]
fn what_is_not_there_is_not_found() {
    let shop = Shop::on_sqlite("1h");
    assert_eq!(shop.ask("GET", "/orders/1", &Value::Null).0, 404);
    assert_eq!(shop.ask("POST", "/orders/1/pay", &Value::Null).0, 404);
    assert_eq!(shop.ask("GET", "/customers/1", &Value::Null).0, 404);
}

/// A collector of OpenTelemetry receives the spans of an order: those of the request and its
/// enqueue from the web application, and that of the run from the worker.
#[cfg(feature = "otel")]
mod traces {
    use std::sync::{Arc, Mutex};

    use axum::{Router, body::Bytes, routing::post};
    use opentelemetry_proto::tonic::{
        collector::trace::v1::ExportTraceServiceRequest,
        trace::v1::{Span, span::SpanKind},
    };
    use prost::Message;

    use super::*;

    /// The received spans, each with its service.
    type Arrived = Arc<Mutex<Vec<(String, Span)>>>;

    /// A collector, and its address.
    fn collector() -> (String, Arrived) {
        let arrived = Arrived::default();
        let (listener, noted) = (std::net::TcpListener::bind("127.0.0.1:0").unwrap(), arrived.clone());
        let address = format!("http://{}", listener.local_addr().unwrap());
        listener.set_nonblocking(true).unwrap();
        std::thread::spawn(move || {
            let app = Router::new().route("/v1/traces", post(async move |body: Bytes| note(&noted, &body)));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async { axum::serve(tokio::net::TcpListener::from_std(listener).unwrap(), app).await })
        });
        (address, arrived)
    }

    fn note(arrived: &Arrived, body: &[u8]) {
        for group in ExportTraceServiceRequest::decode(body).expect("it is the protocol's").resource_spans {
            let attributes = group.resource.unwrap_or_default().attributes;
            let name = attributes.into_iter().find(|attribute| attribute.key == "service.name").and_then(|name| name.value);
            let service = format!("{:?}", name.and_then(|name| name.value));
            let spans = group.scope_spans.into_iter().flat_map(|scope| scope.spans);
            arrived.lock().unwrap().extend(spans.map(|span| (service.clone(), span)));
        }
    }

    fn wait_for_span(arrived: &Arrived, service: &str, name: &str) -> Span {
        let fits = |(of, span): &&(String, Span)| of.contains(&format!("\"{service}\"")) && span.name == name;
        wait_for(&format!("the span {name} of {service}"), || Some(arrived.lock().unwrap().iter().find(fits)?.1.clone()))
    }

    #[test]
    fn a_collector_sees_the_request_its_enqueue_and_the_run() {
        let (address, arrived) = collector();
        let shop = Shop::traced("200ms", |folder| format!("sqlite://{}", folder.join("queue.db").display()), Some(address));
        assert_eq!(shop.ask("POST", "/customers", &json!({ "email": "ada@example.com" })).0, 201);

        let request = wait_for_span(&arrived, "shop", "POST /customers");
        // One of two mails.
        let enqueue = wait_for_span(&arrived, "shop", "send mails");
        assert_eq!((&enqueue.trace_id, &enqueue.parent_span_id), (&request.trace_id, &request.span_id));
        assert_eq!(enqueue.kind(), SpanKind::Producer);
        let call = wait_for_span(&arrived, "shop", "enqueue");
        assert_eq!((&call.trace_id, &call.parent_span_id, call.kind()), (&request.trace_id, &enqueue.span_id, SpanKind::Client));

        // The job had to wait for its time. Its run has a separate trace with a link to the
        // enqueue.
        let run = wait_for_span(&arrived, "shop-worker", "process mails");
        assert_eq!(run.kind(), SpanKind::Consumer);
        assert_ne!(run.trace_id, request.trace_id);
        let [link] = &run.links[..] else { panic!("one link: {run:?}") };
        assert_eq!(link.trace_id, request.trace_id);
        wait_for("the enqueue that the run names", || {
            let arrived = arrived.lock().unwrap();
            arrived.iter().any(|(_, span)| span.name == "send mails" && span.span_id == link.span_id).then_some(())
        });
        let says = |name: &str| run.attributes.iter().any(|attribute| attribute.key == name);
        assert!(["job", "task", "attempt", "outcome", "messaging.system", "messaging.destination.name"].into_iter().all(says), "{run:?}");
    }
}

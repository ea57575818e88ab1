//! The web application: what it enqueues, and when.

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use queue_core::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    settings::Settings,
    store::{Customer, Order, Store},
    tasks::{close_unpaid_order, send_activation_mail},
};

/// What all requests share.
#[derive(Clone)]
struct Shop {
    store: Arc<Store>,
    queue: Client,
    settings: Arc<Settings>,
}

/// Every route of the shop.
pub fn router(store: Arc<Store>, queue: Client, settings: Settings) -> Router {
    Router::new()
        .route("/orders", post(place_order))
        .route("/orders/{id}", get(show_order))
        .route("/orders/{id}/pay", post(pay_order))
        .route("/customers", post(join))
        .route("/customers/{id}", get(show_customer))
        .with_state(Shop { store, queue, settings: Arc::new(settings) })
}

#[derive(Deserialize)]
struct NewOrder {
    customer: String,
    article: String,
}

/// The job is stored before the order. If this process dies between the two, a job finds no order and does nothing; the other
/// way round, an order would stay open for ever.
async fn place_order(State(shop): State<Shop>, Json(new): Json<NewOrder>) -> Result<(StatusCode, Json<Value>), Problem> {
    let id = Uuid::now_v7().to_string();
    close_unpaid_order::job(id.clone())
        .delay(shop.settings.pay_within)
        .id(format!("close-{id}")) // printed and looked for by people
        .enqueue(&shop.queue)
        .await?;
    let order = id.clone();
    shop.stored(move |store| store.place_order(&order, &new.customer, &new.article)).await?;
    Ok((StatusCode::CREATED, Json(json!({ "id": id, "state": "open" }))))
}

async fn show_order(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Json<Order>, Problem> {
    shop.stored(move |store| store.order(&id)).await?.map(Json).ok_or(Problem::NotFound)
}

async fn pay_order(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    let order = id.clone();
    if shop.stored(move |store| store.pay(&order)).await? {
        return Ok(Json(json!({ "id": id, "state": "paid" })));
    }
    match shop.stored(move |store| store.order(&id)).await? {
        Some(order) => Err(Problem::NotOpen(order)),
        None => Err(Problem::NotFound),
    }
}

#[derive(Deserialize)]
struct NewCustomer {
    email: String,
}

async fn join(State(shop): State<Shop>, Json(new): Json<NewCustomer>) -> Result<(StatusCode, Json<Value>), Problem> {
    let id = Uuid::now_v7().to_string();
    // One call for all mails: it sends them to the queue together.
    let mails = (1..).zip(shop.settings.activation_mails.iter().copied()).map(|(number, after)| {
        let job = send_activation_mail::job(id.clone(), number);
        job.delay(after).id(format!("mail-{number}-{id}"))
    });
    shop.queue.enqueue_all(mails).await.map_err(|error| Problem::Other(error.to_string()))?;
    let customer = id.clone();
    shop.stored(move |store| store.join(&customer, &new.email)).await?;
    Ok((StatusCode::CREATED, Json(json!({ "id": id }))))
}

async fn show_customer(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Json<Customer>, Problem> {
    shop.stored(move |store| store.customer(&id)).await?.map(Json).ok_or(Problem::NotFound)
}

impl Shop {
    /// Asks the store, on a thread that may block.
    async fn stored<T: Send + 'static>(&self, ask: impl FnOnce(&Store) -> rusqlite::Result<T> + Send + 'static) -> Result<T, Problem> {
        let store = self.store.clone();
        let answer = tokio::task::spawn_blocking(move || ask(&store)).await;
        answer.map_err(|error| Problem::Other(error.to_string()))?.map_err(|error| Problem::Other(error.to_string()))
    }
}

/// What a request may be answered with instead.
enum Problem {
    NotFound,
    NotOpen(Order),
    Queue(queue_core::Error),
    Other(String),
}

impl From<queue_core::Error> for Problem {
    fn from(error: queue_core::Error) -> Self {
        Problem::Queue(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Problem::NotFound => (StatusCode::NOT_FOUND, "there is no such thing".to_owned()),
            Problem::NotOpen(order) => (StatusCode::CONFLICT, format!("the order is {}", order.state)),
            // No order without the job that closes it: the customer may try again.
            Problem::Queue(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            Problem::Other(error) => (StatusCode::INTERNAL_SERVER_ERROR, error),
        };
        if status.is_server_error() {
            eprintln!("{status}: {text}");
        }
        (status, Json(json!({ "error": text }))).into_response()
    }
}

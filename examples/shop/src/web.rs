//! The web application and its enqueues.

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
    tasks::{book_payment, close_unpaid_order, send_activation_mail},
};

/// The state that all requests share.
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
        .route("/sales/{article}", get(show_sales))
        .route("/customers", post(join))
        .route("/customers/{id}", get(show_customer))
        .with_state(Shop { store, queue, settings: Arc::new(settings) })
}

#[derive(Deserialize)]
struct NewOrder {
    customer: String,
    article: String,
}

/// The order and the job that closes it are stored in one transaction: both or neither, even if
/// this process crashes. The queue need not be reachable.
async fn place_order(State(shop): State<Shop>, Json(new): Json<NewOrder>) -> Result<(StatusCode, Json<Value>), Problem> {
    let id = Uuid::now_v7().to_string();
    let close = close_unpaid_order::job(id.clone()).delay(shop.settings.pay_within).id(format!("close-{id}")); // printed and looked for by people
    shop.store.place_order(&id, &new.customer, &new.article, close).await?;
    Ok((StatusCode::CREATED, Json(json!({ "id": id, "state": "open" }))))
}

async fn show_order(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Json<Order>, Problem> {
    shop.store.order(&id).await?.map(Json).ok_or(Problem::NotFound)
}

async fn pay_order(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Json<Value>, Problem> {
    if shop.store.pay(&id, book_payment::job(id.clone())).await? {
        return Ok(Json(json!({ "id": id, "state": "paid" })));
    }
    match shop.store.order(&id).await? {
        Some(order) => Err(Problem::NotOpen(order)),
        None => Err(Problem::NotFound),
    }
}

async fn show_sales(State(shop): State<Shop>, Path(article): Path<String>) -> Result<Json<Value>, Problem> {
    let sold = shop.store.sold(&article).await?;
    Ok(Json(json!({ "article": article, "sold": sold })))
}

#[derive(Deserialize)]
struct NewCustomer {
    email: String,
}

/// Enqueues the mails without a transaction, and before it stores the customer. If the process
/// crashes between the two steps, the jobs find no customer and do nothing. With the opposite
/// order, that customer would never get a mail.
async fn join(State(shop): State<Shop>, Json(new): Json<NewCustomer>) -> Result<(StatusCode, Json<Value>), Problem> {
    let id = Uuid::now_v7().to_string();
    for (number, after) in (1..).zip(shop.settings.activation_mails.iter().copied()) {
        send_activation_mail::job(id.clone(), number).delay(after).id(format!("mail-{number}-{id}")).enqueue(&shop.queue).await?;
    }
    shop.store.join(&id, &new.email).await?;
    Ok((StatusCode::CREATED, Json(json!({ "id": id }))))
}

async fn show_customer(State(shop): State<Shop>, Path(id): Path<String>) -> Result<Json<Customer>, Problem> {
    shop.store.customer(&id).await?.map(Json).ok_or(Problem::NotFound)
}

/// The error answers of requests.
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

impl From<std::io::Error> for Problem {
    fn from(error: std::io::Error) -> Self {
        Problem::Other(error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, text) = match self {
            Problem::NotFound => (StatusCode::NOT_FOUND, "there is no such thing".to_owned()),
            Problem::NotOpen(order) => (StatusCode::CONFLICT, format!("the order is {}", order.state)),
            // The customer is not stored without the mails, and may try again.
            Problem::Queue(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            Problem::Other(error) => (StatusCode::INTERNAL_SERVER_ERROR, error),
        };
        if status.is_server_error() {
            eprintln!("{status}: {text}");
        }
        (status, Json(json!({ "error": text }))).into_response()
    }
}

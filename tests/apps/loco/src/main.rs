//! The initializer of `docs/web.md` for loco: it compiles.

use async_trait::async_trait;
use axum::{Extension, Router, extract::Path, http::StatusCode, routing::post};
use loco_rs::app::{AppContext, Initializer};
use queue_core::prelude::*;

#[task(queue = "orders")]
async fn close_order(order: u64) {
    println!("order {order} is closed");
}

async fn order_placed(Extension(queue): Extension<Client>, Path(order): Path<u64>) -> (StatusCode, String) {
    match close_order::job(order).enqueue(&queue).await {
        Ok(handle) => (StatusCode::ACCEPTED, handle.address().to_string()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    }
}

/// `Hooks::initializers` returns it: `Ok(vec![Box::new(Queue)])`.
pub struct Queue;

#[async_trait]
impl Initializer for Queue {
    fn name(&self) -> String {
        "queue".to_owned()
    }

    async fn after_routes(&self, router: Router, _: &AppContext) -> loco_rs::Result<Router> {
        let queue = Client::from_env().await.map_err(|error| loco_rs::Error::Any(error.into()))?;
        Ok(router.route("/orders/{order}", post(order_placed)).layer(Extension(queue)))
    }
}

fn main() {
    let _: Box<dyn Initializer> = Box::new(Queue);
}

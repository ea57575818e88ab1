//! `/metrics`: the metrics of every queue, for Prometheus.

use std::sync::Arc;

use axum::{
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use queue_core::__private::error_text;

use crate::{problem::Problem, shared::Shared};

const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(crate) async fn page(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(_permit) = shared.list_permit().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many pages are read at once").into_response();
    };
    match shared.inspector.exposition().await {
        Ok(metrics) => ([(CONTENT_TYPE, KIND)], metrics).into_response(),
        Err(error) => {
            let text = error_text(&error);
            let mut answer = (StatusCode::SERVICE_UNAVAILABLE, format!("cannot read the queues: {text}\n")).into_response();
            *answer.status_mut() = Problem::from(error).status;
            answer
        }
    }
}

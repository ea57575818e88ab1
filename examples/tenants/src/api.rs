//! The API: tenants enqueue imports, and request their progress.

use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::post,
};
use queue_core::{
    Client,
    inspect::{GroupName, StoredGroup},
};
use serde::{Deserialize, Serialize};

use crate::tasks::{QUEUE, import};

/// Most rows of one import.
const ROWS: u32 = 10_000;

#[derive(Deserialize)]
struct Import {
    rows: u32,
}

#[derive(Serialize)]
struct Depth {
    waiting: u64,
    running: u64,
}

/// `POST /tenants/acme/imports` with `{"rows": 100}`, and `GET` for the number of waiting and
/// running jobs.
pub(crate) fn router(client: Client) -> Router {
    Router::new().route("/tenants/{tenant}/imports", post(begin).get(depth)).with_state(client)
}

async fn begin(
    State(client): State<Client>,
    Path(tenant): Path<String>,
    Json(wanted): Json<Import>,
) -> Result<StatusCode, (StatusCode, String)> {
    if wanted.rows > ROWS {
        return Err((StatusCode::BAD_REQUEST, format!("rows `{}` is more than {ROWS}; send several imports", wanted.rows)));
    }
    import(&client, &tenant, wanted.rows).await.map_err(|error| problem(&error))?;
    Ok(StatusCode::ACCEPTED)
}

async fn depth(State(client): State<Client>, Path(tenant): Path<String>) -> Result<Json<Depth>, (StatusCode, String)> {
    let name = GroupName::new(tenant).map_err(|error| problem(&error))?;
    let StoredGroup { ready, active, .. } = client.inspector().group(QUEUE, &name).await.map_err(|error| problem(&error))?;
    Ok(Json(Depth { waiting: ready, running: active }))
}

/// An invalid request is a 400, and an unavailable broker is a 503.
fn problem(error: &queue_core::Error) -> (StatusCode, String) {
    let status = if matches!(error, queue_core::Error::Invalid { .. }) { StatusCode::BAD_REQUEST } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, error.to_string())
}

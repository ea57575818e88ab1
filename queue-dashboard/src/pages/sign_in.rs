//! The page that asks for the token.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::State,
    http::{
        StatusCode,
        header::{LOCATION, SET_COOKIE},
    },
    response::{IntoResponse, Response},
};

use super::{Content, is_local, with_frame};
use crate::{
    cookie::set,
    guard::{Form, Viewer},
    shared::Shared,
};

#[derive(Template)]
#[template(path = "sign_in.html")]
struct Page<'a> {
    viewer: &'a Viewer,
    wrong: bool,
}

pub(crate) fn page(viewer: &Viewer, wrong: bool) -> Response {
    match (Page { viewer, wrong }).render() {
        Ok(html) => with_frame(
            viewer,
            &Content { title: "Sign in".to_owned(), tab: "", html, status: StatusCode::UNAUTHORIZED, live: None, notice: None },
            "",
        ),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

pub(crate) async fn sign_in(
    State(shared): State<Arc<Shared>>,
    Extension(mut viewer): Extension<Viewer>,
    Extension(form): Extension<Form>,
) -> Response {
    let Some(sign_in) = &shared.settings.sign_in else { return StatusCode::NOT_FOUND.into_response() };
    match sign_in.open(form.0.get("token").unwrap_or_default().trim()) {
        Some(session) => {
            let page = form.0.get("page").filter(|page| is_local(page)).unwrap_or(viewer.home());
            let headers = [(SET_COOKIE, set(sign_in.cookie(), &session, &viewer.base)), (LOCATION, page.to_owned())];
            (StatusCode::SEE_OTHER, headers).into_response()
        }
        None => {
            tracing::warn!(target: "queue_dashboard::audit", "sign-in failed: invalid token");
            viewer.page = form.0.get("page").filter(|page| is_local(page)).map(str::to_owned);
            page(&viewer, true)
        }
    }
}

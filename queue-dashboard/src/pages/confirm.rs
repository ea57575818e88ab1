//! The page that asks for confirmation of an action.

use askama::Template;
use axum::http::StatusCode;

use super::{Content, act::Answer, full_page, render};
use crate::{format::Moment, guard::Viewer, shared::Shared};

/// A question. The answer is the form again, with the field `sure`.
#[derive(Default)]
pub(super) struct Confirm<'a> {
    /// The tab of the navigation.
    pub(super) tab: &'static str,
    pub(super) question: String,
    /// The first and the last tick whose jobs are created.
    pub(super) ticks: Option<[Moment; 2]>,
    /// What the action does.
    pub(super) text: String,
    /// What an operator may not expect.
    pub(super) warning: &'static str,
    /// A text of a job, if it is about one.
    pub(super) quote: String,
    /// The jobs or the schedule.
    pub(super) items: Vec<String>,
    /// The path that carries it out.
    pub(super) action: String,
    /// The fields of the form.
    pub(super) fields: Vec<(&'static str, String)>,
    pub(super) asks_reason: bool,
    pub(super) button: String,
    /// Whether it neither ends nor deletes a job. The button is then not red.
    pub(super) is_harmless: bool,
    /// The page of the answer no.
    pub(super) back_to: &'a str,
}

impl Confirm<'_> {
    pub(super) fn page(&self, shared: &Shared, viewer: &Viewer) -> Answer {
        #[derive(Template)]
        #[template(path = "confirm.html")]
        struct Page<'a> {
            viewer: &'a Viewer,
            confirm: &'a Confirm<'a>,
        }
        let html = render(&Page { viewer, confirm: self })?;
        let content = Content { title: self.question.clone(), tab: self.tab, html, status: StatusCode::OK, live: None, notice: None };
        Ok(full_page(shared, viewer, &content))
    }
}

/// The verb with a capital letter, as on a button.
pub(super) fn capitalized(verb: &str) -> String {
    let (first, rest) = verb.split_at(verb.len().min(1));
    first.to_uppercase() + rest
}

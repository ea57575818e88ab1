//! The error answers of requests.

use axum::{http::StatusCode, response::Response};
use queue_core::{__private::error_text, Error};

use crate::{
    guard::Viewer,
    pages::{self, operation, sign_in},
    role::Role,
};

/// An error answer: the problem and the fix.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    pub(crate) text: String,
    /// The page of the cause, relative to the base.
    pub(crate) link: Option<String>,
}

impl Problem {
    fn new(status: StatusCode, title: &'static str, text: impl Into<String>) -> Self {
        Problem { status, title, text: text.into(), link: None }
    }

    pub(crate) fn not_found(text: impl Into<String>) -> Self {
        Problem::new(StatusCode::NOT_FOUND, "Not found", text)
    }

    pub(crate) fn no_schedule() -> Self {
        Problem::not_found("There is no such schedule. Nothing was changed.")
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Problem::new(StatusCode::BAD_REQUEST, "The request cannot be read", text)
    }

    pub(crate) fn late(text: impl Into<String>) -> Self {
        Problem::new(StatusCode::CONFLICT, "Too late", text)
    }

    pub(crate) fn busy() -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "Busy", "Too many pages are being built at once. Try again in a moment.")
    }

    pub(crate) fn method() -> Self {
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Not possible here", "This page does not support this request method.")
    }

    pub(crate) fn host(host: &str) -> Self {
        let text = format!(
            "The dashboard does not accept the host name “{host}”. If this is its name, allow it: `--host {host}` on the command line, or \
             `.hosts([\"{host}\"])` in the application."
        );
        Problem::new(StatusCode::MISDIRECTED_REQUEST, "Another address", text)
    }

    fn unavailable(title: &'static str, text: impl Into<String>) -> Self {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, title, text)
    }

    pub(crate) fn unauthenticated() -> Self {
        Problem::new(StatusCode::UNAUTHORIZED, "Sign in first", "You are not signed in, or may not view the queues.")
    }

    pub(crate) fn forbidden(least: Role) -> Self {
        Problem::new(StatusCode::FORBIDDEN, "Not allowed", format!("This needs the role `{least}`. Nothing was changed."))
    }

    fn wrong_page(text: impl Into<String>) -> Self {
        Problem::new(StatusCode::FORBIDDEN, "Not from this dashboard", text)
    }

    pub(crate) fn form() -> Self {
        Problem::wrong_page("A change must be sent by a form of this dashboard. Nothing was changed.")
    }

    pub(crate) fn cross_site(site: &str) -> Self {
        Problem::wrong_page(format!(
            "A change must come from a page of this dashboard. The browser reports another page (Sec-Fetch-Site: {site}). Nothing was \
             changed."
        ))
    }

    pub(crate) fn no_origin() -> Self {
        Problem::wrong_page(
            "A change must come from a page of this dashboard, and the request does not name its page. If a proxy removes the header \
             Origin, let it pass. Nothing was changed.",
        )
    }

    pub(crate) fn origin(origin: &str, host: &str) -> Self {
        Problem::wrong_page(format!(
            "The form was sent by a page of “{origin}” (Origin), but to “{host}” (Host). Nothing was changed. If “{origin}” is where you \
             open this dashboard, a proxy replaces the header Host: let it pass the browser's (nginx: `proxy_set_header Host \
             $http_host;`), or allow the address with `--host {origin}` on the command line, or `.hosts([\"{origin}\"])` in the \
             application. Otherwise another site has sent the form."
        ))
    }

    pub(crate) fn token() -> Self {
        Problem::new(
            StatusCode::FORBIDDEN,
            "The page was too old",
            "Go back, load the page again, and repeat what you did. Nothing was changed.",
        )
    }

    pub(crate) fn too_large() -> Self {
        Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Too much at once",
            "The form is larger than any form of this dashboard. Nothing was changed.",
        )
    }

    pub(crate) fn timed_out() -> Self {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "Too slow", "The form did not arrive in time. Nothing was changed.")
    }

    /// The page with the problem.
    pub(crate) fn page(self, viewer: &Viewer) -> Response {
        if self.status == StatusCode::UNAUTHORIZED && viewer.signs_in {
            return sign_in::page(viewer, false);
        }
        pages::problem(viewer, &self)
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let text = error_text(&error);
        match error {
            Error::NoSuchJob(_) => Problem::not_found("There is no such job. It may be done and not kept, or an operator has deleted it."),
            Error::NoSuchSchedule { .. } => Problem::no_schedule(),
            Error::NoSuchQueue { .. } => Problem::not_found(text),
            Error::Invalid { .. } => Problem::invalid(text),
            Error::NoSuchOperation(_) => Problem::not_found("There is no such operation. The last twenty of a queue are kept."),
            Error::OperationUnderWay(address) => {
                let problem = Problem::new(StatusCode::CONFLICT, "Another operation is running", format!("{text}. Nothing was changed."));
                Problem { link: address.split_once('/').map(|(queue, id)| operation::of(queue, id)), ..problem }
            }
            Error::WrongState { .. } => Problem::late(text),
            Error::EditConflict { .. } => {
                Problem::new(StatusCode::CONFLICT, "The job has changed", format!("{text}. Nothing was changed."))
            }
            Error::KeyHeld { .. } => Problem::new(StatusCode::CONFLICT, "The key is held", format!("{text}. Nothing was changed.")),
            Error::GroupFull { .. } => Problem::new(StatusCode::CONFLICT, "The group is full", text),
            Error::WrongType { .. } => {
                Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Damaged", format!("{text}; `doctor --repair` repairs it"))
            }
            Error::Unavailable { .. } | Error::Ambiguous { .. } | Error::Unknown { .. } => {
                Problem::unavailable("The broker does not answer", text)
            }
            Error::BrokerFull { .. } => Problem::unavailable("The broker is full", text),
            Error::AccessDenied { .. } => Problem::unavailable("Access denied", text),
            Error::FeatureUnknown { .. } => Problem::unavailable("An older worker serves the queue", text),
            _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Unexpected error", text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_names_the_condition_of_the_broker() {
        let (broker, problem) = ("redis://db".to_owned(), "OOM".to_owned());
        let cases = [
            (Error::BrokerFull { broker: broker.clone(), problem: problem.clone() }, "The broker is full"),
            (Error::AccessDenied { broker: broker.clone(), problem: problem.clone() }, "Access denied"),
            (Error::Unavailable { broker, problem, cause: None }, "The broker does not answer"),
            (Error::Config("a setting".to_owned()), "Unexpected error"),
        ];
        for (error, title) in cases {
            assert_eq!(Problem::from(error).title, title);
        }
    }
}

//! Changes of a limit by operators: setting it, and removing the setting. Each change is a line of
//! the audit log.

use std::str::FromStr;

use queue_core::{Error, inspect::Rate};

use super::{
    act::{Answer, redirect_here, user_and_role},
    act_groups::field,
    limit::limit_of_request,
    limits::of_limit,
};
use crate::{
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// An empty field has the value from code.
pub(crate) async fn set_limit(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let (queue, limit) = limit_of_request(shared, form).await?;
    let (concurrency, burst) = (field(form, "concurrency")?, field(form, "burst")?);
    let rate = Some(form.text::<40>("rate")).filter(|rate| !rate.is_empty()).map(|rate| Rate::from_str(&rate)).transpose()?;
    if (concurrency, rate, burst) == (None, None, None) {
        let problem = "All fields are empty: enter a concurrency or a rate. To use the declared limit again, remove the setting. \
                       Nothing was changed.";
        return Err(Problem::invalid(problem));
    }
    let set = shared.inspector.set_limit(&queue, &limit.name, |rule| {
        (rule.concurrency, rule.rate, rule.burst) = (concurrency, rate, burst);
    });
    write_audit_line(viewer, "set", &queue, &limit.name, set.await)?;
    Ok(redirect_here(viewer, &of_limit(&queue, &limit.name), &query(&[("did", "set")])))
}

pub(crate) async fn reset_limit(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let (queue, limit) = limit_of_request(shared, form).await?;
    if limit.set.is_none() {
        return Err(Problem::invalid("This limit has no setting: the declared limit applies. Nothing was changed.".to_owned()));
    }
    write_audit_line(viewer, "remove", &queue, &limit.name, shared.inspector.remove_limit(&queue, &limit.name).await)?;
    let page = if limit.declared.is_some() { of_limit(&queue, &limit.name) } else { "limits?".to_owned() };
    Ok(redirect_here(viewer, &page, &query(&[("did", "removed")])))
}

/// Logs who did what. A change without an answer of the broker is also logged, because it may have
/// been carried out.
fn write_audit_line<T>(
    viewer: &Viewer,
    action: &'static str,
    queue: &str,
    limit: &str,
    answer: queue_core::Result<T>,
) -> Result<T, Problem> {
    if !matches!(&answer, Err(Error::Invalid { .. })) {
        let (who, role) = user_and_role(viewer);
        tracing::info!(target: "queue_dashboard::audit", ?who, role, action, queue, limit, answered = answer.is_ok(), "changed by an operator");
    }
    answer.map_err(Problem::from)
}

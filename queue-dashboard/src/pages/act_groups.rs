//! Changes of a group by operators: pause, resume, a new rule, and the cancel of its jobs. A cancel
//! that takes longer than a few seconds continues in the background. Each change is a line of the
//! audit log.

use std::{str::FromStr, sync::Arc, time::Duration};

use axum::response::Response;
use queue_core::{
    Error,
    inspect::{ClearGroup, Cleared, GroupName, GroupOrder, PauseOf, RuleOf, StoredGroup},
};
use tokio::time::timeout;

use super::{
    act::{Answer, redirect_here, user_and_role},
    act_all::{PAUSE, TRIES},
    confirm::Confirm,
    group::group_of_request,
    groups::{back_to_list, encoded, jobs, of_group},
    pauses::pause_of_form,
};
use crate::{
    format::{number, short},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// The maximum time for which a request waits for the end of a cancel.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn set_paused(shared: &Shared, viewer: &Viewer, form: &Params, paused: bool) -> Answer {
    let (queue, group) = group_of_request(shared, form).await?;
    let inspector = &shared.inspector;
    let (action, did) = if paused { ("pause", "paused") } else { ("resume", "resumed") };
    let of = PauseOf::Group(group.clone());
    let changed =
        if paused { inspector.pause_as(&queue, of, pause_of_form(viewer, form)?).await } else { inspector.resume_of(&queue, of).await };
    write_audit_line(viewer, action, &queue, &group, None, changed)?;
    Ok(redirect_back(viewer, form, &queue, &group, &query(&[("did", did)])))
}

/// A number in a field of the form, if it has one.
pub(super) fn field<T: FromStr>(form: &Params, name: &'static str) -> Result<Option<T>, Problem> {
    let text = form.text::<40>(name);
    let wrong = || Problem::invalid(format!("The field “{}” is not an integer in range. Nothing was changed.", name.replace('_', " ")));
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(|_| wrong()) }
}

pub(crate) async fn set_rule(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let (queue, group) = group_of_request(shared, form).await?;
    let (weight, cap, max_size) = (field(form, "weight")?, field(form, "cap")?, field(form, "max_size")?);
    let order = form.get("order").map(GroupOrder::from_str).transpose()?;
    let of = RuleOf::Group(group.clone());
    let set = shared.inspector.set_group_rule(&queue, &of, |rule| {
        (rule.weight, rule.cap, rule.max_size, rule.order) = (weight, cap, max_size, order);
    });
    let set = set.await.map(drop);
    write_audit_line(viewer, "set", &queue, &group, None, set)?;
    Ok(redirect_back(viewer, form, &queue, &group, &query(&[("did", "set")])))
}

pub(crate) async fn clear(shared: &Arc<Shared>, viewer: &Viewer, form: &Params, which: Cleared) -> Answer {
    let (queue, group) = group_of_request(shared, form).await?;
    let (verb, title) = if which == Cleared::All { ("cancel", "Cancel all jobs") } else { ("drain", "Cancel the waiting jobs") };
    if form.get("sure") != Some("yes") {
        let StoredGroup { ready, active, .. } = shared.inspector.group(&queue, &group).await?;
        let running = if which == Cleared::All {
            "Running jobs are asked to stop, and their results are discarded."
        } else {
            "Running jobs continue."
        };
        let confirm = Confirm {
            tab: "groups",
            question: format!("{title} of {}?", short(group.as_str(), 120)),
            text: format!(
                "{} of it {} ready in {queue}, and {} {}. {running} Jobs of the group that are scheduled, parked, or wait for a retry or a key are cancelled, too. Jobs enqueued in the meantime may be included.",
                jobs(ready),
                if ready == 1 { "is" } else { "are" },
                number(active),
                if active == 1 { "runs" } else { "run" },
            ),
            action: format!("groups/{verb}"),
            fields: vec![("queue", queue.clone()), ("group_encoded", encoded(group.as_str()))],
            asks_reason: true,
            button: title.to_owned(),
            back_to: &of_group(&queue, group.as_str()),
            ..Confirm::default()
        };
        return confirm.page(shared, viewer);
    }
    let _permit = shared.list_permit().await?;
    let clearing = shared.inspector.clone().because(form.text::<1024>("reason")).clear_group(&queue, &group, which);
    let (behind, whose, of, name) = (shared.clone(), viewer.clone(), queue.clone(), group.clone());
    let task = tokio::spawn(async move {
        let (cancelled, ended) = take_all_steps(clearing).await;
        behind.expire_snapshot().await;
        if let Err(error) = &ended {
            tracing::warn!(%error, queue = of, group = ?name.as_str(), cancelled, "the cancellation of a group was interrupted; start it again");
        }
        write_audit_line(&whose, verb, &of, &name, Some(cancelled), ended).map(|()| cancelled).map_err(|mut problem| {
            problem.text = format!("{}. {} were cancelled before.", problem.text.trim_end_matches('.'), jobs(cancelled));
            problem
        })
    });
    let notice = match timeout(PATIENCE, task).await {
        Ok(ended) => {
            let cancelled = ended.map_err(|_| Error::Internal("the cancellation failed: see the log".to_owned()))??;
            query(&[("did", "cleared"), ("n", &cancelled.to_string())])
        }
        Err(_) => {
            // The log reports that the cancel continues. At its end, the log reports the number of
            // cancelled jobs.
            write_audit_line(viewer, verb, &queue, &group, None, Ok(()))?;
            query(&[("did", "clearing")])
        }
    };
    shared.expire_snapshot().await;
    Ok(redirect_here(viewer, &of_group(&queue, group.as_str()), &notice))
}

/// Executes all steps, and returns the number of cancelled jobs. A step that the broker could not
/// execute is retried, because the operator may have left the page.
async fn take_all_steps(mut clearing: ClearGroup) -> (u64, queue_core::Result<()>) {
    let mut failed = 0;
    loop {
        match clearing.step().await {
            Ok(true) => failed = 0,
            Ok(false) => return (clearing.cancelled(), Ok(())),
            Err(error) if error.is_transient() && failed < TRIES => {
                failed += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return (clearing.cancelled(), Err(error)),
        }
    }
}

/// Redirects to the page with the button.
fn redirect_back(viewer: &Viewer, form: &Params, queue: &str, group: &GroupName, notice: &str) -> Response {
    let list = form.get("back").and_then(back_to_list);
    redirect_here(viewer, &list.unwrap_or_else(|| of_group(queue, group.as_str())), notice)
}

/// Logs who did what. A change without an answer of the broker is also logged, because it may have
/// been carried out. The name of a group may contain any characters, so it is quoted.
fn write_audit_line<T>(
    viewer: &Viewer,
    action: &'static str,
    queue: &str,
    group: &GroupName,
    changed: Option<u64>,
    answer: queue_core::Result<T>,
) -> Result<T, Problem> {
    if matches!(&answer, Err(Error::Invalid { .. })) {
        return answer.map_err(Problem::from);
    }
    let (who, role) = user_and_role(viewer);
    let (group, answered) = (group.as_str(), answer.is_ok());
    tracing::info!(target: "queue_dashboard::audit", ?who, role, action, queue, ?group, changed, answered, "changed by an operator");
    answer.map_err(Problem::from)
}

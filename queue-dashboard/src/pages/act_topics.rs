//! A rewind of a subscription by an operator. If it takes longer than a few seconds, it continues
//! in the background, and the page of the topic shows that. Each rewind is a line of the audit log.

use std::time::{Duration, Instant};

use queue_core::{
    Error,
    topics::{Begin, RewindPreview, RewindTarget, Rewinding},
};

use super::{
    act::{Answer, redirect_here, user_and_role},
    confirm::Confirm,
    topics::of_topic,
};
use crate::{
    format::{count, number},
    guard::Viewer,
    params::{Params, query},
    problem::Problem,
    shared::Shared,
};

/// The maximum time for which a request waits for a rewind.
const PATIENCE: Duration = Duration::from_secs(5);

/// The maximum number of retries of a step in the background, with a pause before each.
const TRIES: u32 = 60;

/// The pause before a failed step is retried.
const PAUSE: Duration = Duration::from_secs(1);

/// `start`, `now`, a time in UTC in the format of a form, or a position.
fn parse_target(text: &str) -> Option<RewindTarget> {
    match text {
        "start" => return Some(Begin::Start.into()),
        "now" => return Some(Begin::Now.into()),
        _ => {}
    }
    if text.contains(':') {
        let at = humantime::parse_rfc3339_weak(text.trim_end_matches('Z')).ok()?;
        let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
        return i64::try_from(since.as_millis()).ok().map(|at| Begin::AtMs(at).into());
    }
    (!text.is_empty()).then(|| RewindTarget::Event(text.to_owned()))
}

pub(crate) async fn start_rewind(shared: &Shared, viewer: &Viewer, form: &Params) -> Answer {
    let (topic, subscription, to) = (form.text::<128>("topic"), form.text::<128>("subscription"), form.text::<64>("to"));
    if topic.is_empty() || subscription.is_empty() {
        return Err(Problem::not_found("There is no such subscription. Choose one on the page of its topic."));
    }
    let Some(target) = parse_target(&to) else {
        return Err(Problem::invalid(
            "Enter the new position: start, now, a time in UTC as 2026-01-31T12:00:00, or a position of the log.",
        ));
    };
    if form.get("sure") != Some("yes") {
        let _permit = shared.list_permit().await?;
        let RewindPreview { again, waiting, is_short, .. } = shared.inspector.preview_rewind(&topic, &subscription, target).await?;
        let short = "The events at this position are no longer kept: it starts at the oldest event.";
        let wait = if waiting == 1 { "1 of its jobs waits".to_owned() } else { format!("{} of its jobs wait", number(waiting)) };
        let confirm = Confirm {
            tab: "topics",
            question: format!("Rewind {subscription} to {to}?"),
            text: format!(
                "{} of {topic} that it has read will be read again, including handled ones. {wait}, and will be cancelled. Running jobs continue.",
                count(again, "event"),
            ),
            warning: if is_short { short } else { "" },
            action: "topics/rewind".to_owned(),
            back_to: &of_topic(&topic),
            fields: vec![("topic", topic.clone()), ("subscription", subscription), ("to", to)],
            button: "Rewind".to_owned(),
            ..Confirm::default()
        };
        return confirm.page(shared, viewer);
    }
    let mut rewinding = shared.inspector.clone().because(format!("a rewind to {to}")).rewind(&topic, &subscription, target);
    let end = Instant::now() + PATIENCE;
    let ended = loop {
        match rewinding.step().await {
            Ok(true) if Instant::now() < end => {}
            Ok(more) => break Ok(more),
            Err(error) => break Err(error),
        }
    };
    let (again, cancelled) = (rewinding.again(), rewinding.cancelled());
    if !matches!(&ended, Err(Error::Invalid { .. } | Error::Config(_))) {
        let ((who, role), answered) = (user_and_role(viewer), ended.is_ok());
        let (topic, subscription) = (topic.as_str(), subscription.as_str());
        tracing::info!(target: "queue_dashboard::audit", ?who, role, action = "rewind", topic, subscription, to = ?to, changed = cancelled, answered, "changed by an operator");
    }
    shared.expire_snapshot().await;
    let goes_on = ended?;
    if goes_on {
        let name = format!("{subscription}@{topic}");
        tokio::spawn(async move {
            if let Err(error) = run_in_background(rewinding, PAUSE).await {
                tracing::warn!(subscription = name, %error, "a rewind was interrupted, and its subscription reads nothing: run the rewind again");
            }
        });
    }
    let left = u8::from(goes_on).to_string();
    let notice = query(&[("did", "rewound"), ("n", &again.to_string()), ("cancelled", &cancelled.to_string()), ("left", &left)]);
    Ok(redirect_here(viewer, &of_topic(&topic), &notice))
}

/// Runs the rewind to its end. Steps that failed because the broker was unreachable are retried.
async fn run_in_background(mut rewinding: Rewinding, pause: Duration) -> queue_core::Result<()> {
    let mut failed = 0;
    loop {
        match rewinding.step().await {
            Ok(true) => failed = 0,
            Ok(false) => return Ok(()),
            Err(error) if error.is_transient() && failed < TRIES => {
                failed += 1;
                tokio::time::sleep(pause).await;
            }
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use queue_conformance::failing::{FailingBroker, Fault};
    use queue_core::{__private::SqliteBroker, Client};

    use super::*;

    #[tokio::test]
    async fn a_rewind_goes_on_when_the_broker_is_back() {
        let broker = FailingBroker::new(SqliteBroker::open("sqlite::memory:").unwrap());
        let inspector = Client::with_broker(broker.clone()).inspector();
        inspector.subscribe("orders", "billing", Begin::Start).await.unwrap();
        let rewinding = async || inspector.topic("orders").await.unwrap().unwrap().subscriptions[0].rewinding;
        let begun = async || {
            let mut rewind = inspector.rewind("orders", "billing", Begin::Now);
            for what in ["it looks", "it begins"] {
                assert!(rewind.step().await.expect(what));
            }
            rewind
        };
        let pause = Duration::from_millis(1);

        let rewind = begun().await;
        broker.fail(Fault::RequestLost, 3);
        broker.fail(Fault::ReplyLost, 2);
        run_in_background(rewind, pause).await.unwrap();
        assert!(!rewinding().await);

        let rewind = begun().await;
        broker.fail(Fault::RequestLost, u32::MAX);
        let error = run_in_background(rewind, pause).await.unwrap_err();
        assert!(error.is_transient(), "{error}");
        broker.fail(Fault::RequestLost, 0);
        assert!(rewinding().await, "it has given up");

        let first = begun().await;
        begun().await;
        assert!(!run_in_background(first, pause).await.unwrap_err().is_transient(), "another one has taken over");
    }

    #[test]
    fn a_rewind_target_is_read_as_a_form_has_it() {
        assert_eq!(parse_target("start"), Some(Begin::Start.into()));
        for time in ["2026-01-31T12:00:00", "2026-01-31T12:00:00Z", "2026-01-31 12:00:00"] {
            assert_eq!(parse_target(time), Some(Begin::AtMs(1_769_860_800_000).into()), "{time}");
        }
        assert_eq!(parse_target("17-3"), Some(RewindTarget::Event("17-3".to_owned())));
        assert_eq!(parse_target("12:00"), None);
        assert_eq!(parse_target(""), None);
    }
}

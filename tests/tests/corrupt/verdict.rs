//! Whether a queue is one again.

use std::collections::BTreeMap;

use queue_core::{
    Error, JobId, Result,
    broker::{Audit, Ending, JobState, MAX_ITEMS, ProcessId, Register, Turn},
};

use super::{
    deeds::{Deed, finish},
    state::{Case, Hands, LONG, RULE, UNKNOWN},
};

/// What was done to a queue.
pub(crate) trait Harm {
    /// Whether jobs have lost their bodies by it.
    fn takes_bodies(&self) -> bool;

    /// Whether a job may run twice by it: its id is in two places.
    fn may_double(&self) -> bool;

    /// Whether it is a reason for this refusal.
    fn explains(&self, error: &Error) -> bool;

    /// Whether a request may stop at it in the middle, and leave to the auditor what it has begun.
    fn may_interrupt(&self) -> bool;
}

/// How often the auditor may need another look.
const LOOKS: usize = 4;

/// Whether a refusal has its reason, and has left everything as it was.
pub(crate) fn judge_answer(harm: &impl Harm, done: Result<()>, is_changed: bool) -> Result<(), String> {
    match done {
        Err(error) if !harm.explains(&error) => Err(format!("is refused: {error}")),
        Err(error) if is_changed && !harm.may_interrupt() => Err(format!("is refused, and has changed something: {error}")),
        _ => Ok(()),
    }
}

/// Says what is wrong with what comes of it.
pub(crate) async fn judge(case: &Case, hands: &mut dyn Hands, harm: &(impl Harm + Sync), deed: Deed) -> Result<(), String> {
    let mut ran = BTreeMap::new();
    // What is hidden, as by a tombstone, is found when it has come out.
    while mend(case).await? || ran.is_empty() {
        drain(case, hands, &mut ran).await.map_err(|problem| format!("does not drain: {problem}"))?;
        if ran.values().any(|times| *times > LOOKS) {
            return Err(format!("runs again and again: {ran:?}"));
        }
        if harm.takes_bodies() {
            mend(case).await?;
            break;
        }
    }
    if harm.takes_bodies() {
        return Ok(());
    }
    for (name, id) in &case.scene.contents.pending {
        let times = ran.get(id).copied().unwrap_or(0);
        let may_end = deed.ends().contains(&name.as_str());
        if times == 0 && !may_end {
            return Err(format!("{name} is lost"));
        }
        if times > 1 && !harm.may_double() {
            return Err(format!("{name} runs {times} times"));
        }
    }
    Ok(())
}

/// Lets the auditor work until it finds nothing. Says whether it has found anything.
async fn mend(case: &Case) -> Result<bool, String> {
    let mut found = Vec::new();
    for look in 0..LOOKS {
        found = case.broker.audit(&case.queue, Audit { repair: true, thorough: true }).await.map_err(|error| format!("audit: {error}"))?;
        if found.is_empty() {
            return Ok(look > 0);
        }
        // What nobody holds is taken back like the jobs of a worker that died.
        sweep(case).await?;
    }
    Err(format!("the auditor is never content: {found:?}"))
}

async fn sweep(case: &Case) -> Result<(), String> {
    for _ in 0..10 {
        let reclaimed = case.broker.reclaim(&case.queue, &RULE).await.map_err(|error| format!("sweep: {error}"))?;
        if reclaimed.moved() + reclaimed.forgotten == 0 {
            return Ok(());
        }
    }
    Err("the sweep never ends".to_owned())
}

/// Ends all leases, makes everything due, runs all there is, and counts who ran how often.
async fn drain(case: &Case, hands: &mut dyn Hands, ran: &mut BTreeMap<JobId, usize>) -> Result<(), String> {
    let say = |what: &'static str| move |error: Error| format!("{what}: {error}");
    let Case { broker, queue, .. } = case;
    hands.end_leases(case).await;
    for _ in 0..2 {
        let suspects = broker.overdue(queue, 0, MAX_ITEMS).await.map_err(say("suspects"))?;
        broker.fence(queue, &suspects.expired).await.map_err(say("fence"))?;
    }
    let left = broker.overdue(queue, 0, MAX_ITEMS).await.map_err(say("suspects"))?.expired;
    if !left.is_empty() {
        return Err(format!("lanes that cannot be fenced: {left:?}"));
    }
    sweep(case).await?;
    hands.make_due(case).await;
    let lane = broker.register(&Register::lane(queue.clone(), ProcessId::random(), LONG)).await.map_err(say("register"))?.name;
    let mut turn = Turn::new(queue.clone(), lane, 0, LONG).claim(100);
    turn.resume = vec![UNKNOWN.into()];
    let mut idle = 0;
    while idle < 2 {
        turn.seq += 1;
        if turn.seq > 60 {
            return Err("there is always more".to_owned());
        }
        let answer = broker.turn(&turn).await.map_err(say("turn"))?;
        if !answer.stale.is_empty() {
            return Err("a finish of a fresh delivery is stale".to_owned());
        }
        idle = if answer.deliveries.is_empty() && !answer.more && !answer.suspects { idle + 1 } else { 0 };
        let ack = || Ending::Ack { result: None, keep: None };
        turn.finishes = answer.deliveries.iter().map(|delivery| finish(delivery, ack())).collect();
        for delivery in answer.deliveries {
            *ran.entry(delivery.id).or_default() += 1;
        }
    }
    let stats = broker.stats(queue).await.map_err(say("stats"))?;
    for state in [JobState::Ready, JobState::Scheduled, JobState::Retry, JobState::Active, JobState::Parked] {
        match stats.count(state) {
            0 => {}
            left => return Err(format!("{left} stay {state:?}")),
        }
    }
    Ok(())
}

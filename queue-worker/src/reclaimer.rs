//! Takes back the jobs of workers that died, in two looks: a lane whose lease has run out is a suspect, and is fenced only if
//! it has not been heard of when it is looked at again, by this process's own clock. After any failure of the broker the
//! looks start over: a Redis that stood still makes nobody a suspect.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use queue_core::{
    Result,
    broker::{MAX_ITEMS, Suspect, Suspects},
};

use crate::{engine::Shared, patience::Patience, time::now};

/// Steps of one pass over a queue; the next pass goes on.
const STEPS: usize = 200;

/// Queues that are asked for together: what is sent in one write is answered in one.
const TOGETHER: usize = 16;

/// Between two looks at least.
const SHORTEST: Duration = Duration::from_millis(20);

/// The lanes whose leases have run out, of which queues, and since when that is known.
type Seen = HashMap<(usize, Suspect), Instant>;

pub(crate) async fn run(shared: Arc<Shared>) {
    let (pass, confirm) = shared.settings.reclaim();
    let groups = shared.queues.len().div_ceil(TOGETHER).max(1);
    // Many queues are looked at one group after the other, evenly, and not all at once.
    let step = pass / u32::try_from(groups).unwrap_or(u32::MAX);
    let (mut group, mut step_at) = (0, now());
    let mut seen = Seen::new();
    let mut refusals = Patience::new(pass);
    loop {
        let asked = now();
        let mut queues = due(&seen, asked, confirm);
        if queues.is_empty() && step_at <= asked {
            let from = group * TOGETHER;
            queues = (from..shared.queues.len().min(from + TOGETHER)).collect();
            (group, step_at) = ((group + 1) % groups, asked + step);
        }
        let answers = join_all(queues.iter().map(|queue| shared.broker.suspects(&shared.queues[*queue], MAX_ITEMS))).await;
        for (queue, suspects) in queues.into_iter().zip(answers) {
            if let Err(error) = look(&shared, queue, asked, suspects, &mut seen, confirm).await {
                seen.clear();
                if error.is_transient() {
                    tracing::debug!(queue = %shared.queues[queue], "the reclaimer starts over: {error}");
                    continue;
                }
                refusals.failed();
                if refusals.is_news() {
                    tracing::error!(queue = %shared.queues[queue], "jobs of workers that died are not taken back from here: {error}");
                }
            }
        }
        let next = seen.values().map(|first| *first + confirm).fold(step_at, Instant::min);
        tokio::time::sleep(next.saturating_duration_since(now()).max(SHORTEST)).await;
    }
}

/// Some queues with suspects whose time for the second look has come.
fn due(seen: &Seen, now: Instant, confirm: Duration) -> Vec<usize> {
    let due: BTreeSet<usize> = seen.iter().filter(|(_, first)| **first + confirm <= now).map(|((queue, _), _)| *queue).collect();
    due.into_iter().take(TOGETHER).collect()
}

async fn look(shared: &Shared, queue: usize, asked: Instant, suspects: Result<Suspects>, seen: &mut Seen, confirm: Duration) -> Result<()> {
    let name = &*shared.queues[queue];
    let suspects = suspects?;
    // An idle worker polls rarely; this look comes often enough to tell that the broker is in reach.
    shared.heard();
    // Who is no longer a suspect, or has been renewed and is one anew, starts from the beginning.
    seen.retain(|(of, suspect), _| *of != queue || suspects.expired.contains(suspect));
    let mut confirmed = Vec::new();
    for suspect in suspects.expired {
        let first = *seen.entry((queue, suspect.clone())).or_insert(asked);
        if asked.duration_since(first) >= confirm {
            confirmed.push(suspect);
        }
    }
    let mut fenced = suspects.fenced > 0;
    if !confirmed.is_empty() {
        let answers = shared.broker.fence(name, &confirmed).await?;
        for (suspect, done) in confirmed.into_iter().zip(answers) {
            fenced |= done;
            seen.remove(&(queue, suspect));
        }
    }
    for _ in 0..STEPS {
        if !fenced {
            break;
        }
        let reclaimed = shared.broker.sweep_fenced(name, &shared.settings.crashes).await?;
        let moved = reclaimed.released + reclaimed.charged + reclaimed.buried;
        if moved > 0 {
            tracing::warn!(
                queue = name,
                released = reclaimed.released,
                charged = reclaimed.charged,
                buried = reclaimed.buried,
                "took back the jobs of workers that were not heard of"
            );
        }
        fenced = moved + reclaimed.forgotten > 0;
    }
    Ok(())
}

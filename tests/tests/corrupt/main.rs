//! Every request, on every state that other hands can leave behind: one key of Redis is of another
//! type, gone, or holds what is not ours; one column of SQLite holds what it should not. A request
//! is answered or refused in words, and whatever it has done by then, the auditor makes a queue of
//! it in which every job that still has its body runs once more, exactly once, and nobody waits for
//! ever.
//!
//! A run tries an eighth of all cases, on each kind of server another one. `QUEUE_TEST_PART=1/8`
//! chooses the eighth. `QUEUE_TEST_CORRUPT=` tries all cases and shows them;
//! `QUEUE_TEST_CORRUPT=active` those whose name contains this.

mod damage;
mod deeds;
mod late;
mod rows;
mod state;
mod verdict;

use queue_core::{__private::RedisBroker, broker::DynBroker};
use queue_tests::server::{Kind, Server};

use self::{
    damage::Damage,
    deeds::Deed,
    state::{Keeper, Scene},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis_no_corrupt_state_loses_doubles_or_wedges_a_job() {
    every_state(Kind::Redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_valkey_no_corrupt_state_loses_doubles_or_wedges_a_job() {
    every_state(Kind::Valkey).await;
}

/// Tasks that go through cases beside each other.
const HANDS: usize = 4;

/// Which cases are tried: those of part `.0` of `.1`.
fn part() -> (usize, usize) {
    let read = |text: &str| {
        let (part, parts) = text.split_once('/')?;
        Some((part.parse().ok()?, parts.parse().ok().filter(|parts| *parts > 0)?))
    };
    let named = std::env::var("QUEUE_TEST_PART").ok();
    named.map_or((0, 8), |text| read(&text).unwrap_or_else(|| panic!("QUEUE_TEST_PART=`{text}`: write it like 1/8")))
}

async fn every_state(kind: Kind) {
    let server = Server::start(kind);
    let scene = Scene::build(&server).await;
    let wanted = std::env::var("QUEUE_TEST_CORRUPT").ok();
    let mut cases: Vec<(Damage, Deed)> = Vec::new();
    let (part, parts) = part();
    // After half of the days, one server or the other has met each case.
    let part = part + usize::from(kind == Kind::Valkey) * (parts / 2);
    for (number, damage) in damage::all(&scene).into_iter().enumerate() {
        let deeds = Deed::ALL.into_iter().enumerate().filter(|(deed, _)| wanted.is_some() || (number + deed) % parts == part % parts);
        cases.extend(deeds.map(|(_, deed)| (damage.clone(), deed)));
    }
    cases.retain(|(damage, deed)| wanted.as_ref().is_none_or(|wanted| format!("{damage} {deed:?}").contains(wanted.as_str())));
    assert!(!cases.is_empty(), "no case has such a name");
    let cases = std::sync::Arc::new(cases);
    let mut hands = Vec::new();
    for hand in 0..HANDS {
        let (scene, cases, shows) = (scene.clone(), cases.clone(), wanted.is_some());
        let broker: DynBroker = RedisBroker::connect(&server.url()).await.expect("the server is there");
        let mut keeper = Keeper::new(&server).await;
        hands.push(tokio::spawn(async move {
            let mut problems = Vec::new();
            for (number, (damage, deed)) in cases.iter().enumerate().filter(|(number, _)| number % HANDS == hand) {
                let case = scene.copied(&broker, &mut keeper, number).await;
                damage.inflict(&case, &mut keeper).await;
                let before = keeper.digest(&case).await;
                let done = deed.run(&case).await;
                let is_changed = keeper.digest(&case).await != before;
                if shows {
                    eprintln!("{damage}, {deed:?}: {done:?}, changed: {is_changed}");
                }
                let mut verdict = verdict::judge_answer(damage, done, is_changed);
                if verdict.is_ok() {
                    damage.remove(&case, &mut keeper).await;
                    verdict = verdict::judge(&case, &mut keeper, damage, *deed).await;
                }
                problems.extend(verdict.err().map(|problem| format!("{damage}, {deed:?}: {problem}")));
                keeper.remove(&case).await;
            }
            problems
        }));
    }
    let mut problems = Vec::new();
    for hand in hands {
        problems.extend(hand.await.expect("no case panics"));
    }
    none_of(problems, cases.len());
}

/// Fails with all problems.
fn none_of(mut problems: Vec<String>, cases: usize) {
    problems.sort();
    assert!(problems.is_empty(), "{} of {cases} cases:\n{}", problems.len(), problems.join("\n"));
}

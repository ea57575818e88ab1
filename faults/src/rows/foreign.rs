//! Another program that writes under our names.

use queue_core::broker::{Audit, DamageKind, JobState};

use super::{Grade, Harming, REDIS, Row, missed, no_duplicates};
use crate::{
    bed::{Bed, Setup},
    process::Mix,
    work::QUEUE,
};
use queue_conformance::patience::patience;

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M34b",
        name: "ids of jobs that wait, run and are done are put into `ready` once more, and the auditor repairs it",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { workers: 3, pause_ms: 1, jobs: 1_500, mix: Mix::plain(60), ..Setup::default() },
        harm: doubled,
        expect: no_duplicates,
    },
    Row {
        number: "M34c",
        name: "a list of `ready` is overwritten by a key of another type, which a repair renames",
        grade: Grade::S,
        columns: REDIS,
        setup: || Setup { workers: 3, pause_ms: 1, jobs: 1_500, mix: Mix::plain(20), ..Setup::default() },
        harm: overwritten,
        expect: no_duplicates,
    },
];

const REPAIR: Audit = Audit { repair: true, thorough: true };

fn key(kind: &str) -> String {
    format!("queue:{{{QUEUE}}}:{kind}")
}

/// Puts some ids of `ready`, of jobs that run, and of those that ran the last time into `ready`, at
/// either end.
const DOUBLE: &str = "
local ids = redis.call('LRANGE', KEYS[1], 100, 109)
for _, id in ipairs(redis.call('LRANGE', KEYS[3], 0, 9)) do ids[#ids + 1] = id end
redis.call('DEL', KEYS[3])
for _, id in ipairs(redis.call('HKEYS', KEYS[2])) do
  ids[#ids + 1] = id
  redis.call('RPUSH', KEYS[3], id)
end
for at, id in ipairs(ids) do
  redis.call(at % 2 == 0 and 'LPUSH' or 'RPUSH', KEYS[1], id)
end
return #ids";

fn doubled(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(50).await?;
        let mut put = 0;
        for turn in 0..12 {
            bed.harm("put ids into `ready` once more", "broker");
            let command = ["EVAL", DOUBLE, "3", &key("ready:2"), &key("active"), "ran before"];
            put += bed.server()?.ask_patiently::<u64>(&command, patience())?;
            if turn % 3 == 2 {
                bed.client.inspector().audit(QUEUE, REPAIR).await?;
            }
            let pause = bed.ms(50, 300);
            bed.pass(pause).await?;
        }
        bed.server()?.ask_patiently::<i64>(&["DEL", "ran before"], patience())?;
        if put < 50 { Err(missed(format!("only {put} ids were put")).into()) } else { Ok(()) }
    })
}

fn overwritten(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        let key = key("ready:2");
        for _ in 0..3 {
            bed.progress(50).await?;
            bed.harm("overwrite a key", "broker");
            let server = bed.server()?;
            let _: i64 = server.ask_patiently(&["DEL", &key], patience())?;
            let _: String = server.ask_patiently(&["SETEX", &key, "3600", "theirs"], patience())?;
            let pause = bed.ms(300, 2_000);
            bed.pass(pause).await?;
            let found = bed.client.inspector().audit(QUEUE, REPAIR).await?;
            if found.first().is_none_or(|damage| damage.kind != DamageKind::KeyOfAnotherType || !damage.subject.contains(&key)) {
                return Err(format!("the repair does not name {key}: {found:?}").into());
            }
            bed.until("jobs to be claimed again", async |bed| bed.depth(JobState::Active).await > 0).await?;
        }
        Ok(())
    })
}

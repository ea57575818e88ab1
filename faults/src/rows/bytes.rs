//! Jobs that cannot be read.

use queue_core::{
    __private::Envelope,
    JobId,
    broker::{Enqueue, Enqueued, JobState, NewJob, ProcessId, Register},
};

use super::{BOTH, Grade, Harming, Row, no_duplicates};
use crate::{
    bed::{Bed, Problem, Setup},
    history::{Operation, Phase, Wish},
    process::Mix,
    work::{QUEUE, key_and_digest},
};

pub(super) const ROWS: &[Row] = &[
    Row {
        number: "M16",
        name: "payloads of another deployment, which this release cannot read",
        grade: Grade::S,
        columns: BOTH,
        setup: || Setup { jobs: 600, mix: Mix { cancelled: 0, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                among_jobs(bed, wished(strangers(), Wish::Any)).await?;
                until_parked(bed, strangers().len()).await?;
                // Each says which release cannot read it.
                let parked = bed.client.inspector().list(QUEUE, JobState::Parked, 0, 100).await?.jobs;
                if let Some(job) = parked.iter().find(|job| job.unreadable.as_ref().is_none_or(|by| by.releases.len() != 1)) {
                    return Err(format!("{} does not say who could not read it", job.address).into());
                }
                delete_parked(bed).await
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M17",
        name: "envelopes of a version that is yet to come lie among the jobs",
        grade: Grade::A,
        columns: BOTH,
        setup: || Setup { jobs: 600, mix: Mix { cancelled: 0, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                among_jobs(bed, wished(newer(), Wish::Any)).await?;
                until_parked(bed, newer().len()).await?;
                delete_parked(bed).await
            })
        },
        expect: no_duplicates,
    },
    Row {
        number: "M59",
        name: "bombs for every decoder lie among the jobs",
        grade: Grade::S,
        columns: BOTH,
        setup: || Setup { jobs: 600, mix: Mix { cancelled: 0, ..Mix::default() }, ..Setup::default() },
        harm: |bed| {
            Box::pin(async move {
                let envelopes = wished(evils().into_iter().filter(|evil| !evil.is_empty()), Wish::Dead);
                let payloads = evils().into_iter().filter_map(|evil| Envelope::new("work", &evil).encode().ok());
                let payloads = wished(payloads, Wish::Any);
                let parked = payloads.len();
                among_jobs(bed, [envelopes, payloads].concat()).await?;
                until_parked(bed, parked).await?;
                delete_parked(bed).await
            })
        },
        expect: no_duplicates,
    },
];

/// Bytes at which decoders have died: nesting, and lengths that nothing stands behind.
fn evils() -> Vec<Vec<u8>> {
    let mut deep_arrays = vec![0x91; 100_000];
    deep_arrays.push(0xc0);
    let mut deep_maps = [0x81, 0xa1, b'a'].repeat(60_000);
    deep_maps.push(0xc0);
    vec![
        Vec::new(),
        vec![0xc1],
        deep_arrays,
        deep_maps,
        vec![0xdd, 0xff, 0xff, 0xff, 0xff],
        vec![0xdf, 0xff, 0xff, 0xff, 0xff],
        vec![0xc6, 0xff, 0xff, 0xff, 0xff],
        vec![0xdb, 0xff, 0xff, 0xff, 0xff, b'a'],
        vec![0xc9, 0xff, 0xff, 0xff, 0xff, 1],
        vec![0x80, 0x80],
        vec![0x81, 0xa3, b'k', b'e', b'y', 0xa1, b'x'],
        vec![0xff; 1000],
    ]
}

/// Envelopes of whose jobs this should become.
fn wished(envelopes: impl IntoIterator<Item = Vec<u8>>, wish: Wish) -> Vec<(Vec<u8>, Wish)> {
    envelopes.into_iter().map(|envelope| (envelope, wish)).collect()
}

/// Until so many jobs are set aside.
async fn until_parked(bed: &mut Bed, jobs: usize) -> Result<(), Problem> {
    bed.until("them to be set aside", async |bed| bed.depth(JobState::Parked).await == jobs as u64).await
}

/// Payloads in which parameters are missing or of another type.
fn strangers() -> Vec<Vec<u8>> {
    let payloads: [&[u8]; 5] = [
        b"\x80",
        b"\x81\xa3key\x01",
        b"\x83\xa3key\xa3one\xa3pad\xa1x\xa4plan\xc0",
        b"\x83\xa3key\x02\xa3pad\xa1x\xa4plan\x91\x01",
        b"\x83\xa3key\x03\xa3pad\xa1x\xa4plan\x82\xa2ms\x01\xa4deed\xa6resign",
    ];
    payloads.into_iter().filter_map(|payload| Envelope::new("work", payload).encode().ok()).collect()
}

/// Sound envelopes, but for their version.
fn newer() -> Vec<Vec<u8>> {
    let encoded = [2, 3, 100].map(|version| {
        // Its version is its key, too.
        let payload = [&b"\x83\xa3key"[..], &[version], b"\xa3pad\xa0\xa4plan\xc0"].concat();
        let mut envelope = Envelope::new("work", &payload);
        envelope.version = version;
        envelope.encode()
    });
    encoded.into_iter().filter_map(Result::ok).collect()
}

/// As a person does who has read why they wait.
async fn delete_parked(bed: &mut Bed) -> Result<(), Problem> {
    for job in bed.client.inspector().walk(QUEUE, JobState::Parked).at_most(100).next().await?.unwrap_or_default() {
        let note = || Operation::Delete { id: job.address.id.to_string() };
        bed.recorder().note(Phase::Invoke, note());
        bed.client.inspector().delete(&job.address).await?;
        bed.recorder().note(Phase::Ok, note());
    }
    Ok(())
}

/// Puts these envelopes into the queue, beside the jobs of the producers.
fn among_jobs(bed: &mut Bed, envelopes: Vec<(Vec<u8>, Wish)>) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(50).await?;
        let broker = bed.client.broker().clone();
        let producer = broker.register(&Register::producer(QUEUE, ProcessId::random())).await?.name;
        for (n, (envelope, wish)) in envelopes.into_iter().enumerate() {
            let (seq, id) = (n as u64 + 1, JobId::make());
            // Some name a key themselves.
            let key = key_and_digest(&envelope).0.unwrap_or(seq + 1_000);
            bed.harm("bytes", "broker");
            let note = |id| Operation::Enqueue {
                key,
                id,
                digest: key_and_digest(&envelope).1,
                delay_ms: 0,
                max_attempts: 25,
                existing: false,
                wish,
                unique: None,
            };
            bed.recorder().note(Phase::Invoke, note(Some(id.to_string())));
            let job = NewJob::new(id.clone(), envelope.clone());
            let answers = broker.enqueue(&Enqueue::new(QUEUE, producer.clone(), seq, vec![job])).await?;
            if answers != [Enqueued::Stored] {
                return Err(format!("a job of strange bytes was answered {answers:?}").into());
            }
            bed.recorder().note(Phase::Ok, note(Some(id.to_string())));
            let pause = bed.ms(0, 60);
            bed.pass(pause).await?;
        }
        Ok(())
    })
}

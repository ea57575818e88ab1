//! Jobs that cannot be read.

use queue_core::{
    JobId,
    broker::{Enqueue, Enqueued, NewJob, ProcessId, Register},
    envelope::Envelope,
};

use super::{BOTH, Grade, Harming, Row, no_duplicates};
use crate::{
    bed::{Bed, Setup},
    history::{Operation, Phase, Wish},
    process::Mix,
    work::{QUEUE, raw_digest},
};

pub(super) const ROWS: &[Row] = &[Row {
    number: "M59",
    name: "bombs for every decoder lie among the jobs",
    grade: Grade::S,
    columns: BOTH,
    setup: || Setup { jobs: 600, mix: Mix { cancelled: 0, ..Mix::default() }, ..Setup::default() },
    harm: bombs,
    expect: no_duplicates,
}];

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

/// Puts each into the queue as an envelope, and as the payload of a sound one, beside the jobs of the producers.
fn bombs(bed: &mut Bed) -> Harming<'_> {
    Box::pin(async move {
        bed.progress(50).await?;
        let broker = bed.client.broker().clone();
        let producer = broker.register(&Register::producer(QUEUE, ProcessId::random())).await?;
        let payloads = evils().into_iter().filter_map(|evil| Envelope::new("work", &evil).encode().ok());
        let envelopes: Vec<Vec<u8>> = evils().into_iter().filter(|evil| !evil.is_empty()).chain(payloads).collect();
        for (n, envelope) in envelopes.into_iter().enumerate() {
            let (n, id) = (n as u64, JobId::make());
            bed.harm("bomb", "broker");
            let note = |id| Operation::Enqueue {
                key: n,
                id,
                digest: raw_digest(&envelope),
                delay_ms: 0,
                max_attempts: 25,
                existing: false,
                wish: Wish::Dead,
            };
            bed.recorder().note(Phase::Invoke, note(Some(id.to_string())));
            let job = NewJob::new(id.clone(), envelope.clone());
            let answers = broker.enqueue(&Enqueue::new(QUEUE, producer.clone(), n + 1, vec![job])).await?;
            if answers != [Enqueued::Stored] {
                return Err(format!("a bomb was answered {answers:?}").into());
            }
            bed.recorder().note(Phase::Ok, note(Some(id.to_string())));
            let pause = bed.ms(0, 60);
            bed.pass(pause).await?;
        }
        Ok(())
    })
}

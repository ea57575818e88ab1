//! Entries of the index of tags without their jobs, and jobs whose tags are missing in the index.

use std::collections::BTreeSet;

use redis::Value;

use super::{Pass, STEP, damage};
use crate::{
    broker::{Damage, DamageKind},
    envelope::tags::{has_tags, indexed_tags},
    error::Result,
    redis::{keys::Kind, values::array},
};

/// Bytes of the digest of a tag.
const DIGEST: usize = 8;

/// Envelopes that one call reads.
const ENVELOPES: usize = 100;

/// Whether the index has exactly the tags of these jobs. `tagged`: pairs of an id and its envelope.
pub(super) fn are_indexed(members: &[Vec<u8>], tagged: &[Vec<u8>]) -> bool {
    let jobs = tagged.chunks(2).filter_map(|pair| Some((pair.first()?, pair.get(1)?)));
    let of_jobs = jobs.flat_map(|(id, envelope)| digests(envelope).into_iter().map(|digest| member(id, &digest)));
    of_jobs.collect::<BTreeSet<_>>() == members.iter().cloned().collect()
}

pub(super) async fn find(pass: &Pass<'_>, thorough: bool, damages: &mut Vec<Damage>) -> Result<()> {
    let mut cursor = "0".to_owned();
    loop {
        let (members, further) = pass.scan("ZSCAN", Kind::Tags, &cursor).await?;
        let members: Vec<Vec<u8>> = members.into_iter().map(|(member, _)| member).collect();
        for members in members.chunks(STEP) {
            add_damages(DamageKind::TagLeaked, &pass.check_each("tags", members).await?, damages);
        }
        for members in members.chunks(ENVELOPES).filter(|_| thorough) {
            let wrong = pass.check_each("wrong_tags", &find_wrong_members(pass, members).await?).await?;
            add_damages(DamageKind::TagLeaked, &wrong, damages);
        }
        cursor = further;
        if cursor == "0" {
            break;
        }
    }
    if !thorough {
        return Ok(());
    }
    loop {
        let (jobs, further) = pass.scan("HSCAN", Kind::Jobs, &cursor).await?;
        let tagged: Vec<(Vec<u8>, Vec<u8>)> = jobs.into_iter().filter(|(_, envelope)| has_tags(envelope)).collect();
        for jobs in tagged.chunks(ENVELOPES) {
            let missing = pass.check_each("untagged", &find_missing_members(pass, jobs).await?).await?;
            add_damages(DamageKind::TagMissing, &missing, damages);
        }
        cursor = further;
        if cursor == "0" {
            return Ok(());
        }
    }
}

/// The jobs of some members of the index, each once.
fn add_damages(kind: DamageKind, members: &[Vec<u8>], damages: &mut Vec<Damage>) {
    let mut ids: Vec<&[u8]> = members.iter().map(|member| id_in(member)).collect();
    ids.dedup();
    damages.extend(ids.into_iter().map(|id| damage(kind, id)));
}

/// A member is a digest and the id of a job.
fn member(id: &[u8], digest: &[u8; DIGEST]) -> Vec<u8> {
    [digest, id].concat()
}

fn id_in(member: &[u8]) -> &[u8] {
    member.get(DIGEST..).unwrap_or_default()
}

/// The digests of the tags of an envelope, as `doors/tags.lua` makes them: the first bytes of the
/// SHA-1 of `name=value`.
fn digests(envelope: &[u8]) -> Vec<[u8; DIGEST]> {
    let digest = |(name, value): (&String, &String)| {
        // The hash of a script is the SHA-1 of its text.
        let hash = redis::Script::new(&format!("{name}={value}"));
        u64::from_str_radix(&hash.get_hash()[..2 * DIGEST], 16).expect("it is hexadecimal").to_be_bytes()
    };
    indexed_tags(envelope).iter().map(digest).collect()
}

/// The members whose job does not have the tag, each with the envelope of its job.
async fn find_wrong_members(pass: &Pass<'_>, members: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let ids: Vec<&[u8]> = members.iter().map(|member| id_in(member)).collect();
    let envelopes = pass.broker.read(pass.queue, pass.broker.keys.on("HMGET", pass.queue, Kind::Jobs).arg(&ids)).await?;
    let mut wrong = Vec::new();
    for (member, envelope) in members.iter().zip(array(envelopes)?) {
        if let Value::BulkString(envelope) = envelope
            && !digests(&envelope).iter().any(|digest| member.starts_with(digest))
        {
            wrong.extend([member.clone(), envelope]);
        }
    }
    Ok(wrong)
}

/// The missing members of some jobs in the index, each with the envelope of its job.
async fn find_missing_members(pass: &Pass<'_>, jobs: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<Vec<u8>>> {
    let all = jobs.iter().flat_map(|(id, envelope)| digests(envelope).into_iter().map(move |digest| (member(id, &digest), envelope)));
    let all: Vec<(Vec<u8>, &Vec<u8>)> = all.collect();
    if all.is_empty() {
        return Ok(Vec::new());
    }
    let members: Vec<&Vec<u8>> = all.iter().map(|(member, _)| member).collect();
    let scores = pass.broker.read(pass.queue, pass.broker.keys.on("ZMSCORE", pass.queue, Kind::Tags).arg(members)).await?;
    let missing = all.iter().zip(array(scores)?).filter(|(_, score)| *score == Value::Nil);
    Ok(missing.flat_map(|((member, envelope), _)| [member.clone(), (*envelope).clone()]).collect())
}

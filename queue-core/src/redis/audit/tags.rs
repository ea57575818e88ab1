//! Entries of the index of tags without their jobs, and jobs whose tags it does not have.

use super::{Pass, STEP, damage};
use crate::{
    broker::{Damage, DamageKind},
    error::Result,
    redis::keys::Kind,
    tags::has_tags,
};

/// Envelopes that one call reads.
const ENVELOPES: usize = 100;

pub(super) async fn find(pass: &Pass<'_>, thorough: bool, damages: &mut Vec<Damage>) -> Result<()> {
    let (what, step) = if thorough { ("every_tag", ENVELOPES) } else { ("tags", STEP) };
    let mut cursor = "0".to_owned();
    loop {
        let (members, further) = pass.scan("ZSCAN", Kind::Tags, &cursor).await?;
        let members: Vec<Vec<u8>> = members.into_iter().map(|(member, _)| member).collect();
        for members in members.chunks(step) {
            damages.extend(pass.ask(what, members).await?.iter().map(|id| damage(DamageKind::TagLeaked, id)));
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
        let tagged: Vec<Vec<u8>> = jobs.into_iter().filter(|(_, envelope)| has_tags(envelope)).map(|(id, _)| id).collect();
        for ids in tagged.chunks(ENVELOPES) {
            damages.extend(pass.ask("untagged", ids).await?.iter().map(|id| damage(DamageKind::TagMissing, id)));
        }
        cursor = further;
        if cursor == "0" {
            return Ok(());
        }
    }
}

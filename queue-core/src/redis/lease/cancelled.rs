//! The cancelled jobs of a lane.

use redis::Value;

use crate::{
    address::JobId,
    error::Result,
    redis::values::{bytes, unexpected_answer},
};

/// Decodes the cancelled jobs of a lane as Lua packs them: pairs of an id and a claim number.
pub(in crate::redis) fn parse_cancelled(value: Value) -> Result<Vec<(JobId, u64)>> {
    let packed = bytes(value)?;
    if packed.is_empty() {
        return Ok(Vec::new());
    }
    let mut gone = Vec::new();
    let mut at = 0;
    // Lua packs ids as strings although they are arbitrary bytes, which serde would reject as text.
    let pairs = read_header(&packed, &mut at)?;
    for _ in 0..pairs {
        if read_header(&packed, &mut at)? != 2 {
            return Err(unexpected_answer("a cancelled job"));
        }
        let id = JobId::from_bytes(read_string(&packed, &mut at)?)?;
        let claim = std::str::from_utf8(read_string(&packed, &mut at)?).ok().and_then(|claim| claim.parse().ok());
        gone.push((id, claim.ok_or_else(|| unexpected_answer("a claim number"))?));
    }
    Ok(gone)
}

fn read_header(bytes: &[u8], at: &mut usize) -> Result<usize> {
    let (length, size) = match bytes.get(*at..) {
        Some([marker @ 0x90..=0x9f, ..]) => (usize::from(marker & 0x0f), 1),
        Some([0xdc, high, low, ..]) => (usize::from(u16::from_be_bytes([*high, *low])), 3),
        // Lua packs an empty table as a map.
        Some([0x80, ..]) => (0, 1),
        _ => return Err(unexpected_answer("a list")),
    };
    *at += size;
    Ok(length)
}

fn read_string<'a>(bytes: &'a [u8], at: &mut usize) -> Result<&'a [u8]> {
    let (length, size) = match bytes.get(*at..) {
        Some([marker @ 0xa0..=0xbf, ..]) => (usize::from(marker & 0x1f), 1),
        Some([0xd9, length, ..]) => (usize::from(*length), 2),
        Some([0xda, high, low, ..]) => (usize::from(u16::from_be_bytes([*high, *low])), 3),
        _ => return Err(unexpected_answer("a string")),
    };
    let start = *at + size;
    *at = start + length;
    bytes.get(start..*at).ok_or_else(|| unexpected_answer("a string"))
}

//! The group or the tag of a job, derived from a single parameter.

use super::find;
use crate::{
    codec::any_json,
    error::{Error, Result},
    group::GroupName,
};

/// The group of a job by the parameter that names it; `None` where that is `None`.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter whose value is not a valid name of a group.
pub(crate) fn group_of_payload(task: &str, parameter: &str, payload: &[u8]) -> Result<Option<GroupName>> {
    let refused = |problem: &str| {
        let advice = "use a string, an integer or a bool, or give the job a group with `.group(..)`";
        Error::invalid("group", format!("{task}: {parameter}"), format!("{problem}; {advice}"))
    };
    let text = text_of(parameter, payload, "which cannot name a group").map_err(|problem| refused(&problem))?;
    let Some(text) = text else { return Ok(None) };
    if text.is_empty() {
        return Err(refused("is empty, which cannot name a group"));
    }
    GroupName::new(text).map(Some)
}

/// The value of a tag, from its parameter; `None` if the parameter is `None` or empty.
///
/// # Errors
/// [`Error::Invalid`] names the parameter whose value cannot be the value of a tag.
pub(crate) fn tag_of_payload(task: &str, parameter: &str, payload: &[u8]) -> Result<Option<String>> {
    let refused = |problem: String| {
        let advice = "use a string, an integer or a bool, or give the job a tag with `.tag(..)`";
        Error::invalid("tag", format!("{task}: {parameter}"), format!("{problem}; {advice}"))
    };
    Ok(text_of(parameter, payload, "which cannot be the value of a tag").map_err(refused)?.filter(|text| !text.is_empty()))
}

/// The text of a parameter whose value is a text, an integer or a bool; `None` if it is `None`.
/// `no`: the error for other values.
fn text_of(parameter: &str, payload: &[u8], no: &str) -> Result<Option<String>, String> {
    let Some(value) = find(payload, parameter)? else { return Ok(None) };
    Ok(Some(match value.first() {
        Some(0xc0) | None => return Ok(None),
        Some(0xca | 0xcb) => return Err(format!("is a float, {no}: floats that look equal may differ")),
        Some(0x80..=0x9f | 0xdc..=0xdf) => return Err(format!("is a list or a map, {no}")),
        Some(0xa0..=0xbf | 0xd9..=0xdb) => rmp_serde::from_slice::<String>(value).map_err(|_| format!("is not UTF-8, {no}"))?,
        Some(0xc2) => "false".to_owned(),
        Some(0xc3) => "true".to_owned(),
        Some(0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff) => any_json::to_json(value).map_err(|_| format!("has no JSON form, {no}"))?,
        Some(_) => return Err(format!("is binary, {no}")),
    }))
}

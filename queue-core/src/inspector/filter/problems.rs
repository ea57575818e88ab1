//! Error messages for invalid filters.

use super::{FIELDS, Reason};
use crate::error::Error;

pub(super) fn no_operator(word: &str) -> Error {
    Error::invalid("filter", word, "has no operator; write for example `task=send_mail` or `error~timeout`")
}

pub(super) fn no_reason(value: &str) -> String {
    match crate::text::nearest(value, Reason::NAMES) {
        Some(near) => format!("has the unknown reason `{value}`; did you mean `{near}`?"),
        None => format!("has the unknown reason `{value}`; use one of {}", Reason::NAMES.join(", ")),
    }
}

pub(super) fn unknown(name: &str) -> String {
    match name {
        "tag" | "tags" | "tag." => return format!("has `{name}` without the name of a tag; write for example `tag.order=17`"),
        "header" | "headers" | "header." => {
            return format!("has `{name}` without the name of a header; write for example `header.tenant=ada`");
        }
        _ => {}
    }
    for (plural, single) in [("tags.", "tag."), ("headers.", "header.")] {
        if let Some(rest) = name.strip_prefix(plural).filter(|rest| !rest.is_empty()) {
            return format!("has the unknown field `{name}`; did you mean `{single}{rest}`?");
        }
    }
    let known = FIELDS.iter().map(|(known, _)| *known).chain(["attempts", "older", "newer", "header.NAME", "tag.NAME"]);
    match crate::text::nearest(name, known.clone()) {
        Some(near) => format!("has the unknown field `{name}`; did you mean `{near}`?"),
        None => format!("has the unknown field `{name}`; use one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

//! Tags: what an application says of a job, so that people find it again.

use std::collections::BTreeMap;

use crate::{
    address::check_name,
    error::{Error, Result},
};

/// Most tags of a job.
pub(crate) const TAGS_MAX: usize = 8;

/// Longest name of a tag, in bytes.
pub(crate) const TAG_NAME_MAX: usize = 64;

/// Longest value of a tag, in bytes.
pub(crate) const TAG_VALUE_MAX: usize = 256;

/// Whether a job may have these tags.
pub(crate) fn check_tags(tags: &BTreeMap<String, String>) -> Result<()> {
    if tags.len() > TAGS_MAX {
        return Err(Error::invalid("tags", tags.len().to_string(), format!("are more than the {TAGS_MAX} that a job may have")));
    }
    for (name, value) in tags {
        check_tag_name(name)?;
        let problem = match value.len() {
            0 => "has no value; leave the tag out instead".to_owned(),
            bytes if bytes > TAG_VALUE_MAX => {
                format!("has a value of {bytes} bytes; at most {TAG_VALUE_MAX} are allowed, put the rest into a parameter or a header")
            }
            // A filter puts a value with a space into double quotes.
            _ if value.contains(|c: char| c.is_control() || c == '"') => {
                "has a value with a control character or a double quote; leave that out".to_owned()
            }
            _ => continue,
        };
        return Err(Error::invalid("tag", format!("{name}={value}"), problem));
    }
    Ok(())
}

/// Whether a tag may have this name: 1 to 64 letters, digits, `.`, `_` and `-`.
pub(crate) fn check_tag_name(name: &str) -> Result<()> {
    check_name("tag", name)?;
    if name.len() > TAG_NAME_MAX {
        return Err(Error::invalid("tag", name, format!("has a name of {} characters; use 1 to {TAG_NAME_MAX}", name.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_tag_is_told_with_the_way_out() {
        let (long, longer) = ("n".repeat(TAG_NAME_MAX), "v".repeat(TAG_VALUE_MAX));
        let problem = |name: &str, value: &str| check_tags(&BTreeMap::from([(name.to_owned(), value.to_owned())])).err();
        assert!(problem(&long, &longer).is_none());
        assert!(problem("order.line_1-a", "Łódź, 17 = x \u{1f4e6}").is_none());
        for (name, value, says) in [
            ("", "1", "use 1 to 128"),
            ("a b", "1", "contains ' '"),
            ("a=b", "1", "contains '='"),
            (&format!("{long}n"), "1", "use 1 to 64"),
            ("order", "", "leave the tag out"),
            ("order", &format!("{longer}v"), "at most 256 are allowed"),
            ("order", "1\n2", "control character"),
            ("order", "1\"2", "double quote"),
        ] {
            let told = problem(name, value).unwrap_or_else(|| panic!("{name}={value} is taken")).to_string();
            assert!(told.contains(says), "{told}");
        }
        let many: BTreeMap<String, String> = (0..=TAGS_MAX).map(|n| (format!("t{n}"), "1".to_owned())).collect();
        assert!(check_tags(&many).unwrap_err().to_string().contains("more than the 8"));
    }
}

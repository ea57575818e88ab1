//! Texts for people: shortened, without passwords, with the word that was perhaps meant.

/// Cuts a text to at most `max` bytes, at a character's end.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max - '…'.len_utf8()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A text on one line, without what a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// A URL without its password, for messages.
pub(crate) fn redacted(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        // Not a URL, yet whoever wrote it may have put a password into it.
        return url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, host)| format!("***@{host}"));
    };
    let (authority, tail) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let mut parameters: Vec<&str> = query.split('&').filter(|pair| !pair.is_empty()).collect();
    for pair in &mut parameters {
        if pair.starts_with("sentinel_password=") {
            *pair = "sentinel_password=***";
        }
    }
    if !authority.contains('@') && (path.contains('@') || parameters.iter().any(|pair| pair.contains('@'))) {
        // Its password has a `/` or `?` in it that should have been written as %2F or %3F.
        return format!("{scheme}://***");
    }
    let mark = if parameters.is_empty() { "" } else { "?" };
    let tail = format!("{path}{mark}{}", parameters.join("&"));
    match authority.rsplit_once('@') {
        Some((user, host)) => {
            let user = user.split_once(':').map_or(user, |(user, _)| user);
            format!("{scheme}://{user}:***@{host}{tail}")
        }
        None => format!("{scheme}://{authority}{tail}"),
    }
}

/// The nearest of some words, for "did you mean".
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = word.chars().count() / 3 + 1;
    known.into_iter().map(|other| (distance(word, other), other)).filter(|(distance, _)| *distance <= limit).min().map(|(_, other)| other)
}

/// The Levenshtein distance.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut last: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = last[0];
        last[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(a != *b);
            diagonal = last[j + 1];
            last[j + 1] = replaced.min(last[j] + 1).min(diagonal + 1);
        }
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        assert_eq!(redacted("redis://app:geheim@host:1/2?x=y"), "redis://app:***@host:1/2?x=y");
        assert_eq!(redacted("redis://:p@ss@host"), "redis://:***@host");
        assert_eq!(redacted("redis://host/0"), "redis://host/0");
        let url = "redis+sentinel://one,two/main?sentinel_password=geheim&namespace=x";
        assert_eq!(redacted(url), "redis+sentinel://one,two/main?sentinel_password=***&namespace=x");
        assert_eq!(redacted("redis:app:geheim@host"), "***@host");
        assert_eq!(redacted("redis://:ge/heim@host"), "redis://***");
        assert_eq!(redacted("redis://:ge?heim@host/0"), "redis://***");
        assert_eq!(redacted("queue.db"), "queue.db");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = cut("ä".repeat(10_000), 1000);
        assert!(text.len() <= 1000 && text.ends_with('…'));
    }
}

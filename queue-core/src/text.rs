//! Texts for messages: shortened, without passwords, with suggestions.

/// Cuts a text to at most `max` bytes, at a character's end.
pub(crate) fn cut(mut text: String, max: usize) -> String {
    if text.len() > max {
        let end = (0..=max - '…'.len_utf8()).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A text on one line, without characters that control a terminal.
pub fn plain(text: &str) -> String {
    text.replace(is_control, " ")
}

/// Whether a character controls a terminal instead of being displayed: control characters, and
/// those that change the direction of the text.
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A URL without its password, for messages. Only the scheme of an invalid URL is shown, because
/// the password could be in any part of it.
pub fn redacted(url: &str) -> String {
    let scheme = url.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| is_made_of(scheme, "+-."));
    match (scheme, url.split_once("://")) {
        // A file has no password.
        (Some("sqlite"), _) => plain(url),
        (Some(scheme), Some((_, rest))) => format!("{scheme}://{}", shown(rest).as_deref().unwrap_or(HIDDEN)),
        (Some(scheme), None) => format!("{scheme}:{HIDDEN}"),
        // A path that was passed instead of a URL.
        (None, _) if is_made_of(url, "/._-") => url.to_owned(),
        (None, _) => HIDDEN.to_owned(),
    }
}

/// Replaces a part that may be a password.
pub(crate) const HIDDEN: &str = "***";

/// The part of a URL after its `://` that may be shown:
/// `[user:***@]host[:port],..[/path][?parameters]`. `None`: it has other parts.
fn shown(rest: &str) -> Option<String> {
    let (authority, tail) = rest.find(['/', '?', '#']).map_or((rest, ""), |at| rest.split_at(at));
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let (user, hosts) = authority.rsplit_once('@').map_or((None, authority), |(user, hosts)| (Some(user), hosts));
    // A `/`, `?` or `#` in a password ends the authority too early. Then an `@` follows, or the
    // port is invalid.
    if tail.contains('@') || !hosts.split(',').all(is_host) || !is_made_of(path, "/._~%+-:") {
        return None;
    }
    // Without a `:`, some write a password where the name of a user belongs.
    let name = user.and_then(|user| user.split_once(':')).map(|(name, _)| name).filter(|name| is_made_of(name, "._~%+-"));
    let user = user.map_or_else(String::new, |user| match name {
        Some(name) => format!("{name}:{HIDDEN}@"),
        None if user.starts_with(':') => format!(":{HIDDEN}@"),
        None => format!("{HIDDEN}@"),
    });
    let pair = |pair: &str| match pair.split_once('=') {
        Some((
            name @ ("namespace"
            | "password_file"
            | "db"
            | "ca"
            | "tls_name"
            | "cert"
            | "key"
            | "sentinel_user"
            | "sentinel_password_file"
            | "durability"),
            value,
        )) => Some(format!("{name}={}", plain(value))),
        Some((name, _)) if is_made_of(name, "_") => Some(format!("{name}={HIDDEN}")),
        _ => None,
    };
    let parameters: Vec<String> = query.split('&').filter(|pair| !pair.is_empty()).map(pair).collect::<Option<_>>()?;
    let mark = if parameters.is_empty() { "" } else { "?" };
    Some(format!("{user}{hosts}{path}{mark}{}", parameters.join("&")))
}

/// `name`, `name:port`, or an address in brackets.
fn is_host(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, port)) if is_made_of(address, ":.%") => ("", port.strip_prefix(':').unwrap_or(port)),
        Some(_) => return false,
        None => host.split_once(':').unwrap_or((host, "")),
    };
    is_made_of(name, "._-") && port.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text has letters, digits and these characters only.
fn is_made_of(text: &str, others: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || others.contains(c))
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
        for (url, shown) in [
            ("redis://app:geheim@host:1/2?x=y", "redis://app:***@host:1/2?x=***"),
            ("redis://:p@ss@host", "redis://:***@host"),
            ("redis://geheim@host", "redis://***@host"),
            ("redis://host/0", "redis://host/0"),
            ("redis+cluster://:pw@one:7000,[::1],[::2]:7002", "redis+cluster://:***@one:7000,[::1],[::2]:7002"),
            (
                "redis+sentinel://one,two/main?sentinel_password=geheim&namespace=x",
                "redis+sentinel://one,two/main?sentinel_password=***&namespace=x",
            ),
            // Invalid URLs.
            ("redis:app:geheim@host", "redis:***"),
            ("redis://:ge/heim@host", "redis://***"),
            ("redis://:ge?heim@host/0", "redis://***"),
            ("redis://app:ge#heim@host/0", "redis://***"),
            ("redis://app:p@ss/w0rd@db", "redis://***"),
            ("redis://app:geheim", "redis://***"),
            ("redis://app:ge heim", "redis://***"),
            ("geheim@host:6379", "***"),
            ("amqp://app:geheim@host", "amqp://app:***@host"),
            ("queue.db", "queue.db"),
            ("sqlite://queue.db", "sqlite://queue.db"),
        ] {
            assert_eq!(redacted(url), shown, "{url}");
        }
    }

    /// Passwords that are not percent-encoded, with characters that a parser misreads.
    #[test]
    fn no_part_of_any_password_is_shown() {
        const LETTERS: [char; 26] = [
            'X', 'Y', 'Z', 'X', 'Y', 'Z', 'X', 'Y', 'Z', '@', '/', '?', '#', ':', '%', '&', '=', '[', ']', ',', '.', '+', ' ', '\\', '\n',
            '\u{e4}',
        ];
        let mut random = fastrand::Rng::with_seed(17);
        for _ in 0..20_000 {
            // No other part of the URL has these letters.
            let password: String = (0..random.usize(1..12)).map(|_| random.choice(LETTERS.iter()).expect("some")).collect();
            let scheme = random.choice(["redis", "rediss", "redis+unix", "redis+sentinel", "redis+cluster", "valkey"]).expect("some");
            let user = random.choice(["app", "", "a-b"]).expect("some");
            let end =
                random.choice(["host", "host:1/2", "one,two:3/main", "host?namespace=a&sentinel_password=ZZ", "[::1]/0"]).expect("some");
            let url = format!("{scheme}://{user}:{password}@{end}");
            let shown = redacted(&url);
            assert!(!shown.contains(['X', 'Y', 'Z', '\u{e4}']), "{url:?} is shown as {shown:?}");
        }
    }

    #[test]
    fn a_terminal_obeys_no_text() {
        assert_eq!(plain("a\u{1b}[2Jb\u{202e}c\u{2066}d\ne"), "a [2Jb c d e");
        assert_eq!(plain("Größe “x” 漢字"), "Größe “x” 漢字");
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = cut("ä".repeat(10_000), 1000);
        assert!(text.len() <= 1000 && text.ends_with('…'));
    }
}

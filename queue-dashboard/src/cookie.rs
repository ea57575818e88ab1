//! Cookies, and the secrets in them.

use std::fmt::Write as _;

use axum::http::{HeaderMap, header::COOKIE};

/// An unguessable text of 128 random bits.
pub(crate) fn secret() -> Result<String, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Compares two secrets in a time that does not depend on the position of the difference.
pub(crate) fn is_same_secret(one: &str, other: &str) -> bool {
    let differing = one.bytes().zip(other.bytes()).fold(0, |differing, (a, b)| std::hint::black_box(differing | (a ^ b)));
    differing == 0 && one.len() == other.len()
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).into_iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(key, value)| (key == name).then_some(value))
}

/// A cookie that scripts cannot read. A link on another site sends it, so that a visitor from a
/// chat is signed in. A form or a script of another site does not send it.
pub(crate) fn set(name: &str, value: &str, base: &str) -> String {
    let path = if base.is_empty() { "/" } else { base };
    format!("{name}={value}; Path={path}; HttpOnly; SameSite=Lax")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_compared_whole() {
        let (one, other) = (secret().unwrap(), secret().unwrap());
        assert!(one != other && one.len() == 32);
        assert!(
            is_same_secret(&one, &one.clone())
                && !is_same_secret(&one, &other)
                && !is_same_secret(&one, &one[1..])
                && !is_same_secret("", &one)
        );
        assert!(!is_same_secret(&one, &format!("{one}0")) && is_same_secret("", ""));
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=1; queue_csrf=x".parse().unwrap());
        headers.append(COOKIE, "b=2".parse().unwrap());
        assert_eq!((cookie(&headers, "queue_csrf"), cookie(&headers, "b"), cookie(&headers, "csrf")), (Some("x"), Some("2"), None));
    }
}

//! Hides what looks like a secret, by the name of its field.

use std::collections::BTreeMap;

use serde_json::Value;

/// What stands in place of a secret.
pub(crate) const HIDDEN: &str = "••••••";

/// Parts of names that belong to secrets, in small letters without `_`, `-` and `.`.
const NAMES: [&str; 16] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "privatekey",
    "accesskey",
    "signature",
    "cardnumber",
    "cvv",
    "iban",
    "ssn",
];

/// Deepest nesting that is shown.
const DEPTH: usize = 64;

/// The names of fields that are hidden.
#[derive(Clone, Debug, Default)]
pub(crate) struct Secrets {
    more: Vec<String>,
}

impl Secrets {
    pub(crate) fn add(&mut self, name: &str) {
        let name = plain(name);
        if !name.is_empty() {
            self.more.push(name);
        }
    }

    fn is_secret(&self, name: &str) -> bool {
        let name = plain(name);
        NAMES.iter().any(|part| name.contains(part)) || self.more.contains(&name)
    }

    /// A JSON text for people, on several lines, with its secrets hidden.
    pub(crate) fn json(&self, text: &str) -> Result<String, String> {
        let mut value = queue_core::__private::json(text)?;
        self.hide(&mut value, 0);
        serde_json::to_string_pretty(&value).map_err(|error| error.to_string())
    }

    pub(crate) fn headers(&self, headers: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let shown =
            |(name, value): (&String, &String)| (name.clone(), if self.is_secret(name) { HIDDEN.to_owned() } else { value.clone() });
        headers.iter().map(shown).collect()
    }

    /// A text in which what stands behind the name of a secret is hidden: `password=…`, `"token": "…"`, `Authorization: Bearer …`.
    pub(crate) fn text(&self, text: &str) -> String {
        let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find(['=', ':']) {
            let (before, behind) = rest.split_at(at + 1);
            shown.push_str(before);
            rest = behind;
            let name = before[..at].trim_end_matches(['"', '\'', ' ']);
            let word = name.rsplit(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.')).next().unwrap_or_default();
            if !self.is_secret(word) {
                continue;
            }
            let value = rest.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let length = match quote {
                Some(quote) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
                // To the end of the clause: a secret may have spaces in it, as `Bearer …` has.
                None => value.find([',', ';', '&', '}', '\n']).unwrap_or(value.len()),
            };
            if length > 0 {
                shown.push_str(&rest[..rest.len() - value.len()]);
                shown.push_str(HIDDEN);
                rest = &value[length..];
            }
        }
        shown.push_str(rest);
        shown
    }

    fn hide(&self, value: &mut Value, depth: usize) {
        match value {
            _ if depth > DEPTH => *value = Value::String("…".to_owned()),
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    match self.is_secret(name) {
                        true if !value.is_null() => *value = Value::String(HIDDEN.to_owned()),
                        _ => self.hide(value, depth + 1),
                    }
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.hide(item, depth + 1)),
            _ => {}
        }
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_at_any_depth_and_whatever_their_spelling() {
        let mut secrets = Secrets::default();
        secrets.add("birth_date");
        let json = r#"{"user":{"Pass-Word":"a1","name":"Ada","apiKey":{"deep":"b2"}},"list":[{"ACCESS_TOKEN":"c3"}],"birthDate":"d4","token":null}"#;
        let shown = secrets.json(json).unwrap();
        for secret in ["a1", "b2", "c3", "d4"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("Ada") && shown.contains("null") && shown.contains(HIDDEN), "{shown}");
        let text = r#"signed in: user=ada, password=a1 b2; {"accessToken": "c3 \u00fc", "n": 1} … «birthDate: d4"#;
        let shown = secrets.text(text);
        for secret in ["a1", "b2", "c3", "d4"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        assert!(shown.contains("user=ada") && shown.contains("\"n\": 1"), "{shown}");
        for plain in ["", "=", "at 12:30:05 all is well", "ü=1", "token=", "password"] {
            assert_eq!(secrets.text(plain), plain);
        }
        let headers = BTreeMap::from([("x-authorization".to_owned(), "e5".to_owned()), ("trace".to_owned(), "f6".to_owned())]);
        assert_eq!(secrets.headers(&headers), [("trace".to_owned(), "f6".to_owned()), ("x-authorization".to_owned(), HIDDEN.to_owned())]);
    }
}

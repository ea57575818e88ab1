//! Hides values that look like secrets, by the names of their fields.

use std::collections::BTreeMap;

use queue_core::inspect::JobRecord;
use serde_json::Value;

/// The replacement of a secret.
pub(crate) const HIDDEN: &str = "••••••";

/// Names of secrets that no other word contains, in lower case without `_`, `-` and `.`. They are
/// hidden at any position in a name.
const ANYWHERE: [&str; 8] = ["password", "passwd", "passphrase", "apikey", "authorization", "privatekey", "accesskey", "cardnumber"];

/// Names of secrets that other words contain. They are hidden if they are a word of a name, or its
/// end, as in `accesstoken`.
const WORDS: [&str; 5] = ["secret", "token", "cookie", "credential", "signature"];

/// Short names of secrets. They are hidden only as a whole word, because `class_name` contains
/// `ssn`.
const SHORT: [&str; 4] = ["cvv", "iban", "ssn", "pwd"];

/// The maximum nesting that is shown.
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

    /// Whether a value is hidden. `max_tokens` is a secret only if its value is not a number.
    fn is_secret(&self, name: &str, is_number: bool) -> bool {
        let whole = plain(name);
        let is_word = |word: &str| {
            let one = word.strip_suffix('s').filter(|_| !is_number).unwrap_or(word);
            SHORT.contains(&one) || WORDS.iter().any(|secret| one.ends_with(secret))
        };
        ANYWHERE.iter().any(|part| whole.contains(part)) || words(name).iter().any(|word| is_word(word)) || self.more.contains(&whole)
    }

    /// A JSON text in readable form, on several lines, with its secrets hidden.
    pub(crate) fn json(&self, text: &str) -> Result<String, String> {
        let mut value = queue_core::__private::json(text)?;
        self.hide(&mut value, 0);
        serde_json::to_string_pretty(&value).map_err(|error| error.to_string())
    }

    pub(crate) fn headers(&self, headers: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let shown =
            |(name, value): (&String, &String)| (name.clone(), if self.is_secret(name, false) { HIDDEN.to_owned() } else { value.clone() });
        headers.iter().map(shown).collect()
    }

    /// The reason for the state of a job: its last error, or other known facts.
    pub(crate) fn error_of(&self, job: &JobRecord) -> Option<String> {
        let reason = job.reason.map(|reason| reason.name());
        let error = job.last_error().or(job.undecodable.as_deref()).or(job.note.as_deref()).or(reason);
        error.map(|error| self.text(error))
    }

    /// A text in which the values after the names of secrets are hidden: `password=…`, `"token":
    /// "…"`, `Authorization: Bearer …`.
    pub(crate) fn text(&self, text: &str) -> String {
        let (mut shown, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find(['=', ':']) {
            let (before, behind) = rest.split_at(at + 1);
            shown.push_str(before);
            rest = behind;
            let name = before[..at].trim_end_matches(['"', '\'', ' ']);
            let word = name.rsplit(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-' | '.')).next().unwrap_or_default();
            let value = rest.trim_start();
            let number = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
            if !self.is_secret(word, number > 0 && !value[number..].starts_with(|c: char| c.is_alphanumeric())) {
                continue;
            }
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let length = match quote {
                Some(quote) => value[1..].find(quote).map_or(value.len(), |end| end + 2),
                // Up to the end of the clause, because a secret may contain spaces, as in `Bearer
                // …`.
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
                    match self.is_secret(name, value.is_number()) {
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

/// The words of a name in lower case: `maxTokens` and `max_tokens` have two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_small) {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| c.is_alphanumeric()) {
            word.extend(c.to_lowercase());
        }
        was_small = c.is_lowercase() || c.is_numeric();
    }
    words
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
        for name in ["business_name", "class_name", "className", "wifi_band", "secretary", "tokenizer", "cookiecutter"] {
            let json = format!("{{\n  \"{name}\": \"shown\"\n}}");
            assert_eq!(secrets.json(&json).unwrap(), json);
            assert_eq!(secrets.text(&format!("{name}=shown")), format!("{name}=shown"));
        }
        for (name, value) in [("max_tokens", "400"), ("promptTokens", "7")] {
            assert!(secrets.json(&format!("{{\"{name}\":{value}}}")).unwrap().contains(value));
            assert_eq!(secrets.text(&format!("{name}: {value}, ok")), format!("{name}: {value}, ok"));
        }
        for name in ["device_tokens", "clientsecret", "accessToken", "IBAN", "x-session-cookie", "credentials", "ssn", "cvv"] {
            let shown = secrets.json(&format!("{{\"{name}\":\"a1\"}}")).unwrap();
            assert!(!shown.contains("a1"), "{shown}");
        }
        assert!(!secrets.json(r#"{"cvv":123}"#).unwrap().contains("123"));
        let headers = BTreeMap::from([("x-authorization".to_owned(), "e5".to_owned()), ("trace".to_owned(), "f6".to_owned())]);
        assert_eq!(secrets.headers(&headers), [("trace".to_owned(), "f6".to_owned()), ("x-authorization".to_owned(), HIDDEN.to_owned())]);
    }
}

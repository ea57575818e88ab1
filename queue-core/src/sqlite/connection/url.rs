//! `sqlite://` URLs.

use std::path::{Path, PathBuf};

use crate::{
    broker::Durability,
    error::{Error, Result},
};

/// The parts of a URL.
#[derive(Debug)]
pub(crate) struct Target {
    /// `None`: in memory.
    pub(crate) path: Option<PathBuf>,
    /// The failures that an answered call survives.
    pub(crate) durability: Durability,
}

pub(crate) fn target(url: &str) -> Result<Target> {
    let (base, query) = url.split_once('?').unwrap_or((url, ""));
    let path = path(base)?;
    let mut durability = if path.is_some() { Durability::PowerLoss } else { Durability::Volatile };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        durability = match pair.split_once('=') {
            Some(("durability", "power-loss")) if path.is_some() => Durability::PowerLoss,
            Some(("durability", "process-crash")) if path.is_some() => Durability::ProcessCrash,
            Some(("durability", value)) => {
                let problem = if path.is_some() { "is not one of `power-loss` (the default) and `process-crash`" } else { "is for files" };
                return Err(Error::invalid("durability", value, problem));
            }
            _ => {
                return Err(Error::invalid("URL parameter", pair, "is unknown; there is `durability=` (write `?` in a path as %3F)"));
            }
        };
    }
    Ok(Target { path, durability })
}

/// The path of a URL's database; `None`: in memory.
///
/// `sqlite://queue.db` and `sqlite:queue.db` are relative to the working directory,
/// `sqlite:///var/lib/queue.db` is absolute, `sqlite://:memory:` is in memory. `%XX` encodes any
/// byte of a path.
fn path(url: &str) -> Result<Option<PathBuf>> {
    let rest = url.strip_prefix("sqlite:").unwrap_or(url);
    let rest = rest.strip_prefix("//").unwrap_or(rest);
    let path = rest;
    if path.is_empty() {
        return Err(Error::invalid("URL", url, "names no file; write for example `sqlite://queue.db`"));
    }
    if path == ":memory:" {
        return Ok(None);
    }
    let path = decoded(path)
        .ok_or_else(|| Error::invalid("URL", url, "has a `%` that is not followed by two hexadecimal digits; write it as %25"))?;
    std::path::absolute(&path)
        .map(Some)
        .map_err(|error| Error::invalid("SQLite path", path.to_string_lossy(), format!("cannot be made absolute: {error}")))
}

/// The URL of a database file. [`path`] decodes it.
pub(crate) fn url(path: &Path) -> String {
    let mut url = String::from("sqlite://");
    for byte in bytes(path) {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' | b':' | b'\\' => url.push(char::from(byte)),
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url
}

fn decoded(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok())?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    from_bytes(bytes)
}

#[cfg(unix)]
fn from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    Some(std::ffi::OsString::from_vec(bytes).into())
}

#[cfg(unix)]
fn bytes(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    path.as_os_str().as_bytes().to_vec()
}

#[cfg(not(unix))]
fn from_bytes(bytes: Vec<u8>) -> Option<PathBuf> {
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(not(unix))]
fn bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_files() {
        assert_eq!(path("sqlite:///var/lib/q.db").unwrap().unwrap(), Path::new("/var/lib/q.db"));
        assert!(path("sqlite://q.db").unwrap().unwrap().is_absolute());
        assert_eq!(path("sqlite://:memory:").unwrap(), None);
        assert_eq!(path("sqlite::memory:").unwrap(), None);
        assert!(path("sqlite://").is_err());
        assert!(target("sqlite://a?mode=ro").unwrap_err().to_string().contains("mode=ro"));
        assert!(path("sqlite://100%").is_err());
    }

    #[test]
    fn a_url_may_ask_for_less_durability() {
        let durability = |url: &str| target(url).map(|target| target.durability);
        assert_eq!(durability("sqlite://q.db").unwrap(), Durability::PowerLoss);
        assert_eq!(durability("sqlite://q.db?durability=process-crash").unwrap(), Durability::ProcessCrash);
        assert_eq!(durability("sqlite://:memory:").unwrap(), Durability::Volatile);
        assert!(durability("sqlite://q.db?durability=none").unwrap_err().to_string().contains("`process-crash`"));
        assert!(durability("sqlite://:memory:?durability=power-loss").unwrap_err().to_string().contains("for files"));
    }

    #[test]
    fn any_path_survives_its_url() {
        for file in ["/tmp/plain.db", "/tmp/with space & ümlaut?#%.db"] {
            assert_eq!(path(&url(Path::new(file))).unwrap().unwrap(), Path::new(file));
        }
    }
}

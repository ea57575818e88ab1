//! Payloads: maps by parameter name, in MessagePack in storage and in JSON on the command line.

use serde::de::DeserializeOwned;

use crate::{
    codec,
    error::{Error, Result},
    task::ParamDef,
};

/// Decodes a payload. On failure says which parameter does not fit.
pub(crate) fn decode<P: DeserializeOwned>(bytes: &[u8]) -> Result<P, String> {
    codec::scan(bytes)?;
    rmp_serde::from_slice(bytes).map_err(|error| {
        // Only on failure is the second, slower way taken, which knows the path.
        let mut deserializer = rmp_serde::Deserializer::from_read_ref(bytes);
        match serde_path_to_error::deserialize::<_, P>(&mut deserializer) {
            Err(error) if error.path().iter().len() > 0 => format!("parameter `{}`: {}", error.path(), error.inner()),
            _ => error.to_string(),
        }
    })
}

/// Reads the JSON object of a command line into a payload of type `P`, checking names against `params`.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter that is unknown, missing or of the wrong type.
pub fn from_json<P: DeserializeOwned + serde::Serialize>(task: &str, params: &[ParamDef], json: &str) -> Result<Vec<u8>> {
    let value: serde_json::Value =
        serde_json::from_str(json).map_err(|error| Error::invalid("args", json, format!("is not JSON: {error}")))?;
    let known = || params.iter().map(|param| format!("`{}`", param.name)).collect::<Vec<_>>().join(", ");
    let Some(object) = value.as_object() else {
        return Err(Error::invalid(
            "args",
            json,
            format!("is not a JSON object; task `{task}` takes {}", if params.is_empty() { "{}".to_owned() } else { known() }),
        ));
    };
    for name in object.keys() {
        if !params.iter().any(|param| param.name == name) {
            let problem = if params.is_empty() {
                format!("is no parameter of task `{task}`; it takes none")
            } else {
                format!("is no parameter of task `{task}`; it takes {}", known())
            };
            return Err(Error::invalid("parameter", name, problem));
        }
    }
    for param in params {
        if param.required && !object.contains_key(param.name) {
            return Err(Error::invalid("parameter", param.name, format!("is missing; task `{task}` wants it as `{}`", param.ty)));
        }
    }
    let payload: P = serde_path_to_error::deserialize(&value).map_err(|error| {
        let path = error.path().to_string();
        let ty =
            params.iter().find(|param| path == param.name || path.starts_with(&format!("{}.", param.name))).map_or("", |param| param.ty);
        Error::invalid("parameter", &path, format!("does not fit `{ty}`: {}", error.inner()))
    })?;
    codec::encode(&payload).map_err(|problem| Error::Encode { task: task.to_owned(), problem })
}

/// A payload or result as JSON, for people. Binary becomes an array of numbers.
///
/// # Errors
/// What cannot be read.
pub fn to_json(bytes: &[u8]) -> Result<serde_json::Value, String> {
    codec::scan(bytes)?;
    rmp_serde::from_slice(bytes).map_err(|error| error.to_string())
}

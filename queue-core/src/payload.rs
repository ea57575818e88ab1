//! Payloads: maps by parameter name, in MessagePack in storage and in JSON on the command line.
//!
//! A payload is written and read one parameter at a time, so that a new `Option` or defaulted
//! parameter, a removed one and another order are compatible, and so that an error can name the
//! parameter that does not fit.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    codec::{
        self, Form, ParamDef, Writer,
        any_json::{self, FromJson},
    },
    error::{Error, Result},
    outcome::Outcome,
};

mod check;
mod fields;

pub use self::fields::{Fields, OfEvent, OfTask, check_fields, fields_from_json, given_fields, read_fields};
pub use crate::codec::any_json::to_json;
pub(crate) use crate::codec::any_json::to_value;

/// The requirements for a parameter of a task in a payload: every owned, serializable type meets
/// them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a parameter of a task",
    label = "not serialisable",
    note = "derive `serde::Serialize` and `serde::Deserialize` for `{Self}`, or for the type inside it that lacks them",
    note = "what the worker provides is a parameter `Data<T>` of a function, or a type of your own with `#[inject]` before it; in a `Handler` it is `ctx.data::<T>()`"
)]
pub trait Payload: Serialize + DeserializeOwned + 'static {}

// Users should read the message above, and not which trait of serde is missing first. `Send` is not
// checked here, because the future that holds the value requires it anyway.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + 'static> Payload for T {}

/// The access of generated code to a payload parameter of type `T`. Only [`of`](Self::of) has a
/// bound, so an unsuitable type gives one compiler error. The bound is on the function and not on
/// the type, so that the error has the text of this crate.
pub struct Param<T> {
    encode: fn(&mut Vec<u8>, &T, Form) -> Result<(), codec::Problem>,
    decode: fn(&[u8]) -> Result<T, String>,
    json: fn(&mut Vec<u8>, &serde_json::Value, Form) -> Result<(), JsonProblem>,
    form: Form,
    /// Whether the parameter is left out when it is nil, and is nil when it is missing.
    option: bool,
}

/// Why a JSON value is not a valid value of a parameter.
enum JsonProblem {
    /// It does not fit its type: where, and why.
    Misfit(String, String),
    /// It cannot be encoded.
    Encode(codec::Problem),
}

impl<T> Param<T> {
    /// The access.
    pub const fn of() -> Self
    where
        T: Payload,
    {
        Param { encode: encode::<T>, decode: codec::decode_placed::<T>, json: encode_json::<T>, form: Form::Array, option: false }
    }

    /// The same of a type that is an `Option` without another default, is written as binary, or as
    /// a sorted list.
    #[must_use]
    pub const fn stored(mut self, option: bool, bytes: bool, sorted: bool) -> Self {
        self.option = option;
        self.form = Form::of(bytes, sorted);
        self
    }
}

impl<T> fmt::Debug for Param<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Param<{}>", std::any::type_name::<T>())
    }
}

/// Writes a payload, parameter by parameter. The first problem is kept, and
/// [`finish`](Self::finish) returns it.
#[derive(Debug)]
pub struct PayloadWriter {
    bytes: Vec<u8>,
    /// The start of the parameters, their number, the start of the last one, and whether all are in
    /// the order of their names.
    body: usize,
    count: usize,
    last: Option<usize>,
    is_sorted: bool,
    problem: Option<String>,
}

impl PayloadWriter {
    /// A payload of at most `count` parameters.
    pub fn new(count: usize) -> Self {
        let mut bytes = Vec::with_capacity(codec::USUAL);
        let problem = codec::open_map(&mut bytes, count).err().map(|problem| problem.to_string());
        PayloadWriter { body: bytes.len(), bytes, count: 0, last: None, is_sorted: true, problem }
    }

    /// The payload that the fields of a struct are.
    pub fn of<F: Fields<Of>, Of>(fields: &F) -> Self {
        let mut bytes = Vec::with_capacity(codec::USUAL);
        let mut writer = Writer::of_payload(&mut bytes, F::PARAMS);
        let (mut written, is_doubtful) = (fields.write(&mut writer), writer.is_doubtful);
        if is_doubtful {
            written = written.and_then(|()| fields::check_read::<F, Of>(&bytes));
        }
        PayloadWriter::written(bytes, written)
    }

    /// A payload that is written as a whole.
    fn written(bytes: Vec<u8>, written: Result<(), codec::Problem>) -> Self {
        let problem = written.err().map(|problem| match problem.path.is_empty() {
            true => problem.message,
            false => format!("parameter {problem}"),
        });
        PayloadWriter { body: 0, bytes, count: 0, last: None, is_sorted: true, problem }
    }

    /// Writes a parameter.
    pub fn field<T>(&mut self, name: &str, value: &T, param: &Param<T>) {
        if self.problem.is_none() {
            self.problem =
                self.write(name, param.option, |bytes| (param.encode)(bytes, value, param.form)).err().map(|problem| named(name, &problem));
        }
    }

    /// Writes a parameter if the JSON object has it.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming the parameter that is of the wrong type.
    pub fn json<T>(&mut self, name: &'static str, param: &Param<T>, object: &JsonObject<'_>) -> Result<()> {
        let Some(value) = object.values.get(name) else { return Ok(()) };
        match self.write(name, param.option, |bytes| (param.json)(bytes, value, param.form)) {
            Ok(()) => Ok(()),
            Err(JsonProblem::Encode(problem)) => {
                self.problem.get_or_insert(named(name, &problem));
                Ok(())
            }
            Err(JsonProblem::Misfit(path, problem)) => {
                let ty = object.params.iter().find(|param| param.name == name).map_or("", |param| param.ty);
                Err(misfit(object.task, format!("{name}{path}"), ty, &problem))
            }
        }
    }

    fn write<E: From<codec::Problem>>(
        &mut self,
        name: &str,
        option: bool,
        value: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bytes.len();
        codec::encode_into(&mut self.bytes, name, Form::Array)?;
        let at = self.bytes.len();
        value(&mut self.bytes)?;
        if option && self.bytes[at..] == [0xc0] {
            self.bytes.truncate(start);
            return Ok(());
        }
        let is_behind = |last| codec::text_at(&self.bytes, last) < codec::text_at(&self.bytes, start);
        self.is_sorted &= self.last.is_none_or(is_behind);
        (self.last, self.count) = (Some(start), self.count + 1);
        Ok(())
    }

    /// Checks that a field of a parameter is where a key looks for it: serde may store it under
    /// another name.
    pub fn expects<T: Serialize>(&mut self, path: &str, value: &T) {
        if self.problem.is_none() {
            let expected = codec::encode(value);
            let found = match self.body {
                0 => crate::key::find(&self.bytes, path),
                body => crate::key::find_entry(&self.bytes[body..], self.count, path),
            };
            let is_there = matches!((&expected, found), (Ok(expected), Ok(found)) if found.unwrap_or(&[0xc0]) == expected.as_slice());
            if !is_there {
                let problem =
                    format!("`{path}` of `unique(by = [..])` has another name in the payload: serde renames, skips or flattens it");
                self.problem = Some(problem);
            }
        }
    }

    /// The payload.
    ///
    /// # Errors
    /// [`Error::Encode`] with the parameter that cannot be encoded, or that is nested too deeply to
    /// be decoded.
    pub fn finish(mut self, task: &str) -> Result<Vec<u8>> {
        let closed = match self.problem {
            Some(problem) => Err(problem),
            // Of fields, it is whole.
            None if self.body == 0 => Ok(()),
            None => codec::close_map(&mut self.bytes, self.body, self.count, self.is_sorted).map_err(|problem| problem.to_string()),
        };
        match closed.and_then(|()| codec::scan(&self.bytes)) {
            Ok(()) => Ok(self.bytes),
            Err(problem) => Err(Error::Encode { task: task.to_owned(), problem: codec::shortened(problem) }),
        }
    }
}

impl From<codec::Problem> for JsonProblem {
    fn from(problem: codec::Problem) -> Self {
        JsonProblem::Encode(problem)
    }
}

/// Why a parameter cannot be encoded.
fn named(name: &str, problem: &codec::Problem) -> String {
    format!("parameter `{name}{}`: {}", problem.path, problem.message)
}

fn misfit(task: &str, path: String, ty: &str, problem: &str) -> Error {
    let ty = if ty.is_empty() { String::new() } else { format!("`{ty}` of ") };
    Error::invalid("parameter", path, format!("does not fit {ty}task `{task}`: {problem}"))
}

/// Reads a payload, parameter by parameter, without allocating.
#[derive(Debug)]
pub struct PayloadReader<'a> {
    /// The task, if the payload is only checked.
    task: &'a str,
    bytes: &'a [u8],
    entries: usize,
    first: usize,
    /// Where the search for the next parameter begins, and the entry at this place: usually the
    /// parameters are in order.
    cursor: (usize, usize),
}

impl<'a> PayloadReader<'a> {
    /// Reads an encoded payload.
    ///
    /// # Errors
    /// If it is not a map, or out of bounds.
    pub fn new(payload: &'a [u8]) -> std::result::Result<Self, Outcome> {
        Self::of(payload).map_err(Outcome::Undecodable)
    }

    fn of(bytes: &'a [u8]) -> Result<Self, String> {
        if bytes.first() == Some(&b'{') {
            // Another program has written JSON, which is translated where that is possible.
            let problem = str::from_utf8(bytes).map_err(|error| error.to_string()).and_then(codec::from_json).err();
            return Err(format!(
                "the payload is JSON, {}",
                problem.map_or("and not MessagePack".to_owned(), |problem| format!("which cannot be stored: {problem}"))
            ));
        }
        codec::scan(bytes)?;
        let (entries, first) = match *bytes {
            [marker @ 0x80..=0x8f, ..] => (usize::from(marker & 0x0f), 1),
            [0xde, high, low, ..] => (usize::from(u16::from_be_bytes([high, low])), 3),
            [0xdf, a, b, c, d, ..] => (u32::from_be_bytes([a, b, c, d]) as usize, 5),
            _ => return Err("the payload is not a map by parameter name".to_owned()),
        };
        Ok(PayloadReader { task: "", bytes, entries, first, cursor: (first, 0) })
    }

    /// A parameter that must be present unless it is an `Option`.
    ///
    /// # Errors
    /// When it is missing or does not fit.
    pub fn required<T>(&mut self, name: &str, param: &Param<T>) -> std::result::Result<T, Outcome> {
        match self.find(name)? {
            Some(value) => decoded(name, param, value),
            None if param.option => decoded(name, param, &[0xc0]),
            None => Err(Outcome::Undecodable(format!("parameter `{name}` is missing"))),
        }
    }

    /// A parameter that may be missing.
    ///
    /// # Errors
    /// If it is present and does not fit.
    pub fn optional<T>(&mut self, name: &str, param: &Param<T>, default: impl FnOnce() -> T) -> std::result::Result<T, Outcome> {
        match self.find(name)? {
            Some(value) => decoded(name, param, value),
            None => Ok(default()),
        }
    }

    fn find(&mut self, name: &str) -> std::result::Result<Option<&'a [u8]>, Outcome> {
        let (mut at, mut index) = self.cursor;
        for _ in 0..self.entries {
            if index == self.entries {
                (at, index) = (self.first, 0);
            }
            // Both ends were walked by the scan already.
            let key_end = codec::value_end(self.bytes, at).map_err(Outcome::Undecodable)?;
            let value_end = codec::value_end(self.bytes, key_end).map_err(Outcome::Undecodable)?;
            let found = is_text(&self.bytes[at..key_end], name);
            (at, index) = (value_end, index + 1);
            if found {
                self.cursor = (at, index);
                return Ok(Some(&self.bytes[key_end..value_end]));
            }
        }
        Ok(None)
    }
}

/// Whether `bytes` are the MessagePack string `text`.
fn is_text(bytes: &[u8], text: &str) -> bool {
    let skip = match bytes.first() {
        Some(0xa0..=0xbf) => 1,
        Some(0xd9) => 2,
        Some(0xda) => 3,
        _ => return false,
    };
    bytes.get(skip..) == Some(text.as_bytes())
}

fn decoded<T>(name: &str, param: &Param<T>, value: &[u8]) -> std::result::Result<T, Outcome> {
    (param.decode)(value).map_err(|problem| Outcome::Undecodable(codec::shortened(format!("parameter `{name}`{problem}"))))
}

fn encode<T: Payload>(bytes: &mut Vec<u8>, value: &T, form: Form) -> Result<(), codec::Problem> {
    codec::encode_readable(bytes, value, form)
}

/// By the stored form, so that JSON is decoded like a stored value.
fn encode_json<T: Payload>(bytes: &mut Vec<u8>, value: &serde_json::Value, form: Form) -> Result<(), JsonProblem> {
    let mut stored = Vec::new();
    codec::encode_into(&mut stored, &FromJson(value), Form::Array)?;
    codec::scan(&stored).map_err(|problem| JsonProblem::Misfit(String::new(), problem))?;
    let value: T = codec::decode_placed(&stored).map_err(|problem| {
        let (path, problem) = problem.split_once(": ").unwrap_or(("", &problem));
        JsonProblem::Misfit(path.to_owned(), codec::shortened(problem.to_owned()))
    })?;
    encode(bytes, &value, form).map_err(JsonProblem::Encode)
}

/// The arguments of a command line: a JSON object whose names were checked.
#[derive(Debug)]
pub struct JsonObject<'a> {
    values: serde_json::Map<String, serde_json::Value>,
    task: &'a str,
    params: &'a [ParamDef],
}

impl JsonObject<'_> {
    /// How many parameters it has.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True when it has none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

/// Reads the JSON object of a command line, checking its names against the task's parameters.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter that is unknown or missing.
pub fn json_object<'a>(task: &'a str, params: &'a [ParamDef], json: &str) -> Result<JsonObject<'a>> {
    let values = object(task, params, json)?;
    let known = |name: &str| params.iter().any(|param| param.name == name);
    check_names(task, params, known, &values.keys().map(String::as_str).collect::<Vec<_>>())?;
    Ok(JsonObject { values, task, params })
}

fn object(task: &str, params: &[ParamDef], json: &str) -> Result<serde_json::Map<String, serde_json::Value>> {
    let takes = || takes(task, params);
    match read_json(task, "args", json, &takes)? {
        serde_json::Value::Object(values) => Ok(values),
        _ => Err(Error::invalid("args", json, format!("is not a JSON object by parameter name; {}", takes()))),
    }
}

fn read_json(task: &str, field: &'static str, json: &str, takes: &dyn Fn() -> String) -> Result<serde_json::Value> {
    any_json::read(json).map_err(|problem| match problem.path.is_empty() {
        true => Error::invalid(field, json, format!("is not JSON: {problem}; {}", takes())),
        false => refused(task, &problem),
    })
}

/// A payload from the JSON object of a task that this program may not have, and whose parameters it
/// does not know.
///
/// # Errors
/// [`Error::Invalid`] if it is not a JSON object; [`Error::Encode`] naming the parameter that
/// cannot be stored.
pub fn map_from_json(task: &str, field: &'static str, json: &str) -> Result<Vec<u8>> {
    let takes = || format!("`{task}` takes an object: {{\"order\": 17}}");
    let value = read_json(task, field, json, &takes)?;
    if !value.is_object() {
        return Err(Error::invalid(field, json, format!("is not a JSON object; {}", takes())));
    }
    let mut bytes = Vec::new();
    codec::encode_into(&mut bytes, &FromJson(&value), Form::Array).map_err(|problem| refused(task, &problem))?;
    match codec::scan(&bytes) {
        Ok(()) if codec::is_map(&bytes) => Ok(bytes),
        // The marker of binary.
        Ok(()) => Err(Error::invalid(field, json, format!("is not a JSON object; {}", takes()))),
        Err(problem) => Err(Error::Encode { task: task.to_owned(), problem }),
    }
}

/// Why a payload cannot be stored.
fn refused(task: &str, problem: &codec::Problem) -> Error {
    let problem = if problem.path.is_empty() { problem.message.clone() } else { format!("parameter {problem}") };
    Error::Encode { task: task.to_owned(), problem: codec::shortened(problem) }
}

fn check_names(task: &str, params: &[ParamDef], known: impl Fn(&str) -> bool, names: &[&str]) -> Result<()> {
    check_known(task, params, known, names)?;
    match params.iter().find(|param| param.required && !names.contains(&param.name)) {
        Some(param) => Err(Error::invalid("parameter", param.name, missing(task, param))),
        None => Ok(()),
    }
}

fn check_known(task: &str, params: &[ParamDef], known: impl Fn(&str) -> bool, names: &[&str]) -> Result<()> {
    match names.iter().find(|name| !known(name)) {
        Some(name) => Err(Error::invalid("parameter", *name, unknown(task, params))),
        None => Ok(()),
    }
}

fn takes(task: &str, params: &[ParamDef]) -> String {
    match params {
        [] => format!("task `{task}` takes none: {{}}"),
        params => format!("task `{task}` takes {}", params.iter().map(|param| format!("`{}`", param.name)).collect::<Vec<_>>().join(", ")),
    }
}

fn unknown(task: &str, params: &[ParamDef]) -> String {
    format!("is unknown; {}", takes(task, params))
}

fn missing(task: &str, param: &ParamDef) -> String {
    format!("is missing; task `{task}` declares it as `{}`", param.ty)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBER: Param<u32> = Param::of();
    const TEXT: Param<String> = Param::of();
    const PARAMS: &[ParamDef] = &[
        ParamDef { name: "number", ty: "u32", required: true, option: false },
        ParamDef { name: "text", ty: "String", required: false, option: false },
    ];

    fn written(write: impl FnOnce(&mut PayloadWriter), count: usize) -> Vec<u8> {
        let mut writer = PayloadWriter::new(count);
        write(&mut writer);
        writer.finish("task").unwrap()
    }

    #[test]
    fn parameters_are_found_in_any_order_and_strangers_are_skipped() {
        let bytes = written(
            |payload| {
                payload.field("text", &"x".repeat(40), &TEXT);
                payload.field("stranger", &1, &NUMBER);
                payload.field("number", &7, &NUMBER);
            },
            3,
        );
        let mut reader = PayloadReader::of(&bytes).unwrap();
        assert_eq!(reader.required("number", &NUMBER), Ok(7));
        assert_eq!(reader.required("text", &TEXT).unwrap().len(), 40);
        assert_eq!(reader.optional("missing", &NUMBER, || 5), Ok(5));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let bytes = written(|payload| payload.field("number", &"seven".to_owned(), &TEXT), 1);
        let mut reader = PayloadReader::of(&bytes).unwrap();
        let Err(Outcome::Undecodable(problem)) = reader.required("number", &NUMBER) else { panic!("it was accepted") };
        assert!(problem.starts_with("parameter `number`: "), "{problem}");
        assert_eq!(reader.required("other", &NUMBER), Err(Outcome::Undecodable("parameter `other` is missing".into())));
    }

    #[test]
    fn json_that_cannot_be_stored_is_named_as_such() {
        let problem = |json: &[u8]| PayloadReader::of(json).unwrap_err();
        assert!(problem(br#"{"total": 18446744073709551616}"#).contains("JSON, which cannot be stored: `total`: 18446744073709551616"));
        assert!(problem(b"{broken").contains("JSON, which cannot be stored: key must be a string"), "{}", problem(b"{broken"));
        assert!(problem(b"{\xff").contains("JSON, which cannot be stored: invalid utf-8"), "{}", problem(b"{\xff"));
        assert_eq!(problem(b"{}"), "the payload is JSON, and not MessagePack");
    }

    #[test]
    fn what_does_not_fit_is_not_quoted_at_length() {
        let bytes = written(|payload| payload.field("number", &"7".repeat(200_000), &TEXT), 1);
        const ADDRESS: Param<std::net::IpAddr> = Param::of();
        let Err(Outcome::Undecodable(problem)) = PayloadReader::of(&bytes).unwrap().required("number", &ADDRESS) else {
            panic!("it was accepted")
        };
        assert!(problem.len() <= 1024, "{} bytes", problem.len());
    }

    #[test]
    fn many_parameters_have_a_longer_header() {
        let bytes = written(|payload| (0..20).for_each(|i| payload.field(&format!("p{i}"), &i, &NUMBER)), 20);
        assert_eq!(PayloadReader::of(&bytes).unwrap().required("p19", &NUMBER), Ok(19));
    }

    #[test]
    fn json_that_does_not_fit_names_the_parameter() {
        let problem = |json: &str| {
            let object = match json_object("task", PARAMS, json) {
                Ok(object) => object,
                Err(error) => return error.to_string(),
            };
            let mut writer = PayloadWriter::new(object.len());
            writer.json("number", &NUMBER, &object).and_then(|()| writer.json("text", &TEXT, &object)).unwrap_err().to_string()
        };
        assert!(problem("{").contains("is not JSON"));
        assert!(problem("[1]").contains("`number`, `text`"));
        assert!(problem(r#"{"text":"a"}"#).contains("`number` is missing"));
        assert!(problem(r#"{"number":1,"txt":"a"}"#).contains("`txt` is unknown"));
        assert!(problem(r#"{"number":-1}"#).contains("`number` does not fit `u32`"));
    }
}

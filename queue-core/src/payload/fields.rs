//! The payload of a struct whose fields are the parameters. The serde derives of the struct encode
//! and decode it as a whole.

use serde::{
    Deserializer, Serialize, Serializer,
    de::{Error as _, Visitor},
    forward_to_deserialize_any,
};
use serde_path_to_error::Track;

use super::{PayloadReader, PayloadWriter, check_known, misfit, missing, object, refused};
use crate::{
    codec::{self, Form, ParamDef, Problem, Reader, Writer, any_json::FromJson},
    error::{Error, Result},
    outcome::Outcome,
};

/// The marker of `#[derive(Task)]` for [`Fields`].
#[derive(Debug)]
pub enum OfTask {}

/// The marker of `#[derive(Event)]` for [`Fields`]: a struct may have both derives.
#[derive(Debug)]
pub enum OfEvent {}

/// A struct whose fields are the parameters of a payload. Written by the macros, for
/// `#[derive(Task)]` and `#[derive(Event)]`.
pub trait Fields<Of>: Sized {
    /// Its parameters. With `#[serde(flatten)]` there may be others.
    const PARAMS: &'static [ParamDef];

    /// Parameters that are read as nil where they are missing, if the flag is set: they are an
    /// `Option`, which serde cannot see.
    const NILS: &'static [(&'static str, bool)] = &[];

    /// That of the derive of serde.
    ///
    /// # Errors
    /// Those of the serializer and of the fields.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;

    /// That of the derive of serde.
    ///
    /// # Errors
    /// Those of the deserializer and of the fields.
    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// Reads a payload.
///
/// # Errors
/// If it is not a map, or out of bounds; if a parameter is missing or does not fit.
pub fn read_fields<F: Fields<Of>, Of>(payload: &[u8]) -> Result<F, Outcome> {
    PayloadReader::new(payload)?;
    F::read(&mut Reader::of_payload(payload, F::NILS)).map_err(|problem| {
        let missing = missing_param(F::PARAMS, &problem);
        let (name, path, text) = place::<F, Of>(payload, problem);
        Outcome::Undecodable(codec::shortened(match missing {
            _ if !name.is_empty() => format!("parameter `{name}`{path}: {text}"),
            Some(param) => format!("parameter `{}` is missing", param.name),
            None => text,
        }))
    })
}

/// The missing parameter, from the error of serde, because a parameter may be present under an
/// alias.
fn missing_param(params: &'static [ParamDef], problem: &Problem) -> Option<&'static ParamDef> {
    params.iter().find(|param| problem.message == format!("missing field `{}`", param.name))
}

/// Finds the place where a payload does not fit, in a second, slower way: the parameter, the path
/// in it, and the problem.
fn place<F: Fields<Of>, Of>(payload: &[u8], problem: Problem) -> (String, String, String) {
    let mut track = Track::new();
    let mut reader = Reader::of_payload(payload, F::NILS);
    let problem = F::read(serde_path_to_error::Deserializer::new(&mut reader, &mut track)).err().unwrap_or(problem);
    let path = track.path().to_string();
    let path = path.trim_start_matches('.');
    let (name, path) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
    let text = problem.to_string();
    let name = if name.is_empty() { flattened::<F, Of>(payload, &text).unwrap_or_default() } else { name };
    (name.to_owned(), path.to_owned(), codec::shortened(text))
}

/// Serde does not report where in a flattened field an error is. Finds the entry without which the
/// error disappears or changes.
fn flattened<'p, F: Fields<Of>, Of>(payload: &'p [u8], text: &str) -> Option<&'p str> {
    // Each is left out once, and all others are decoded again.
    const MOST: usize = 100;
    let entries = PayloadReader::of(payload).and_then(|reader| reader.named()).ok()?;
    if entries.len() > MOST || text.starts_with("missing field") {
        return None;
    }
    let without = |at: usize| {
        let mut rest = Vec::with_capacity(payload.len());
        codec::open_map(&mut rest, entries.len() - 1).ok()?;
        entries.iter().enumerate().filter(|(other, _)| *other != at).for_each(|(_, (_, entry))| rest.extend_from_slice(entry));
        Some(F::read(&mut Reader::of_payload(&rest, F::NILS)).err().map(|problem| problem.to_string()))
    };
    let problems: Vec<Option<String>> = (0..entries.len()).map(without).collect::<Option<_>>()?;
    let is_other = |problem: &Option<String>| problem.as_ref().is_none_or(|problem| problem != text);
    let at = problems.iter().position(Option::is_none).or_else(|| problems.iter().position(is_other))?;
    entries.get(at).map(|(name, _)| *name)
}

/// Checks that values which serde cannot decode everywhere can be decoded.
pub(super) fn check_read<F: Fields<Of>, Of>(payload: &[u8]) -> Result<(), Problem> {
    F::read(&mut Reader::of_payload(payload, F::NILS)).map(drop).map_err(|problem| {
        let (name, path, text) = place::<F, Of>(payload, problem);
        let mut problem = codec::unread(&text);
        problem.path = format!(".{name}{path}");
        problem
    })
}

/// Turns a JSON object with the parameters into a payload.
///
/// # Errors
/// [`Error::Invalid`] naming the parameter that is unknown, missing, or does not fit.
pub fn fields_from_json<F: Fields<Of>, Of>(task: &str, json: &str) -> Result<Vec<u8>> {
    let (values, mut stored) = (serde_json::Value::Object(object(task, F::PARAMS, json)?), Vec::new());
    codec::encode_into(&mut stored, &FromJson(&values), Form::Array).map_err(|problem| refused(task, &problem))?;
    PayloadWriter::of(&checked::<F, Of>(task, &stored)?).finish(task)
}

/// The payload that some of the fields are, as the derived `Serialize` of `given` writes them: the
/// others are read by their defaults.
///
/// # Errors
/// [`Error::Encode`] for a value that cannot be stored; [`Error::Invalid`] naming the missing
/// parameter.
pub fn given_fields<F: Fields<Of>, Of>(task: &str, given: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(codec::USUAL);
    let written = given.serialize(&mut Writer::of_payload(&mut bytes, F::PARAMS));
    let payload = PayloadWriter::written(bytes, written).finish(task)?;
    check_fields::<F, Of>(task, &payload).map(|()| payload)
}

/// Checks that an encoded payload has the parameters, and no others.
///
/// # Errors
/// [`Error::Encode`] if it is not a map, or out of bounds; [`Error::Invalid`] naming the parameter
/// that is unknown, missing, or does not fit.
pub fn check_fields<F: Fields<Of>, Of>(task: &str, payload: &[u8]) -> Result<()> {
    checked::<F, Of>(task, payload).map(drop)
}

fn checked<F: Fields<Of>, Of>(task: &str, payload: &[u8]) -> Result<F> {
    let encode = |problem| Error::Encode { task: task.to_owned(), problem };
    let names = PayloadReader::of(payload).and_then(|reader| reader.names()).map_err(encode)?;
    let known = Names::of::<F, Of>();
    check_known(task, F::PARAMS, |name| known.is_none_or(|known| known.contains(&name)), &names)?;
    F::read(&mut Reader::of_payload(payload, F::NILS)).map_err(|problem| {
        let absent = missing_param(F::PARAMS, &problem);
        let (name, path, text) = place::<F, Of>(payload, problem);
        let ty = F::PARAMS.iter().find(|param| param.name == name).map_or("", |param| param.ty);
        match absent {
            _ if !name.is_empty() => misfit(task, format!("{name}{path}"), ty, &text),
            Some(param) => Error::invalid("parameter", param.name, missing(task, param)),
            None => Error::invalid("task", task, format!("cannot read its parameters: {text}")),
        }
    })
}

/// Collects the names that the derive of serde accepts; `None` if it accepts any name.
struct Names<'n>(&'n mut Option<&'static [&'static str]>);

impl Names<'_> {
    fn of<F: Fields<Of>, Of>() -> Option<&'static [&'static str]> {
        let mut names = None;
        // It always fails: there is nothing to read.
        drop(F::read(Names(&mut names)));
        names
    }
}

impl<'de> Deserializer<'de> for Names<'_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Problem> {
        Err(Problem::custom("the names are asked for"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        *self.0 = Some(fields);
        self.deserialize_any(visitor)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
    }
}

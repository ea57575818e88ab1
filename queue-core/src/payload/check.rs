//! The check of a payload that is encoded already: it has the parameters of a task, and no others.

use super::{Param, PayloadReader};
use crate::{
    codec,
    error::{Error, Result},
    outcome::Outcome,
    task::ParamDef,
};

/// Checks an encoded event: its names, and what came of it when it was `read`.
///
/// # Errors
/// Those of [`PayloadReader::checked`]; [`Error::Invalid`] when the event cannot be read.
pub fn check_event(event: &str, params: &[ParamDef], payload: &[u8], read: Result<(), Outcome>) -> Result<()> {
    PayloadReader::checked(event, params, payload)?;
    read.map_err(|end| Error::invalid("event", event, format!("does not fit: {end}")))
}

impl<'a> PayloadReader<'a> {
    /// Reads an encoded payload, checking its names against the task's parameters.
    ///
    /// # Errors
    /// [`Error::Encode`] when it is no map, or out of bounds; [`Error::Invalid`] naming the parameter that is unknown or missing.
    pub fn checked(task: &str, params: &[ParamDef], payload: &'a [u8]) -> Result<Self> {
        let encode = |problem| Error::Encode { task: task.to_owned(), problem };
        let reader = PayloadReader::of(payload).map_err(encode)?;
        let (mut at, mut found) = (reader.first, Vec::new());
        for _ in 0..reader.entries {
            let key_end = codec::value_end(payload, at).map_err(encode)?;
            found.push(codec::decode::<&str>(&payload[at..key_end]).map_err(encode)?);
            at = codec::value_end(payload, key_end).map_err(encode)?;
        }
        if let Some(name) = found.iter().find(|name| !params.iter().any(|param| param.name == **name)) {
            return Err(Error::invalid("parameter", name, super::unknown(task, params)));
        }
        match params.iter().find(|param| param.required && !found.contains(&param.name)) {
            Some(param) => Err(Error::invalid("parameter", param.name, super::missing(task, param))),
            None => Ok(reader),
        }
    }

    /// Checks a parameter, if it is there.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is of another type than the task's.
    pub fn check<T>(&mut self, def: &ParamDef, param: &Param<T>) -> Result<()> {
        let found = self.find(def.name).map_err(|end| Error::invalid("parameter", def.name, format!("cannot be read: {end}")))?;
        let misfit = |problem: String| {
            let (path, problem) = problem.split_once(": ").unwrap_or(("", &problem));
            let problem = format!("does not fit `{}`: {}", def.ty, codec::in_few_words(problem.to_owned()));
            Error::invalid("parameter", format!("{}{path}", def.name), problem)
        };
        found.map_or(Ok(()), |value| (param.decode)(value).map(drop).map_err(misfit))
    }
}

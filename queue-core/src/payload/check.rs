//! The check of a payload that is encoded already: it has the parameters of a task, and no others.

use super::{Param, PayloadReader};
use crate::{
    codec::{self, ParamDef},
    error::{Error, Result},
};

impl<'a> PayloadReader<'a> {
    /// Reads an encoded payload, checking its names against the task's parameters.
    ///
    /// # Errors
    /// [`Error::Encode`] if it is not a map, or out of bounds; [`Error::Invalid`] naming the
    /// unknown or missing parameter.
    pub fn checked(task: &'a str, params: &[ParamDef], payload: &'a [u8]) -> Result<Self> {
        let encode = |problem| Error::Encode { task: task.to_owned(), problem };
        let reader = PayloadReader::of(payload).map_err(encode)?;
        super::check_names(task, params, |name| params.iter().any(|param| param.name == name), &reader.names().map_err(encode)?)?;
        Ok(PayloadReader { task, ..reader })
    }

    /// The names of the parameters.
    pub(super) fn names(&self) -> Result<Vec<&'a str>, String> {
        Ok(self.named()?.into_iter().map(|(name, _)| name).collect())
    }

    /// The names of the parameters, and the bytes of each with its name.
    pub(super) fn named(&self) -> Result<Vec<(&'a str, &'a [u8])>, String> {
        let (mut at, mut found) = (self.first, Vec::new());
        for _ in 0..self.entries {
            let key_end = codec::value_end(self.bytes, at)?;
            let end = codec::value_end(self.bytes, key_end)?;
            found.push((codec::decode::<&str>(&self.bytes[at..key_end])?, &self.bytes[at..end]));
            at = end;
        }
        Ok(found)
    }

    /// Checks a parameter, if it is present.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is of another type than the task's.
    pub fn check<T>(&mut self, def: &ParamDef, param: &Param<T>) -> Result<()> {
        let found = self
            .find(def.name)
            .map_err(|end| Error::invalid("parameter", def.name, format!("of task `{}` cannot be read: {end}", self.task)))?;
        let misfit = |problem: String| {
            let (path, problem) = problem.split_once(": ").unwrap_or(("", &problem));
            super::misfit(self.task, format!("{}{path}", def.name), def.ty, &codec::shortened(problem.to_owned()))
        };
        found.map_or(Ok(()), |value| (param.decode)(value).map(drop).map_err(misfit))
    }
}

//! The actual usage of a run, which corrects the rates of its limits.

use super::{LIMITS_OF_A_JOB, LimitKey};
use crate::{
    address::check_name,
    error::{Error, Result},
};

/// How many starts a run has really counted for: by limits, and by all others of its job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    all: Option<u32>,
    named: Vec<(String, u32)>,
}

impl Used {
    /// Sets this number for each limit of the job that has no separate number.
    pub fn set(&mut self, starts: u32) {
        self.all = Some(starts);
    }

    /// The number for the limit of this name. If the job does not have the limit, nothing changes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an invalid name, and for more names than a job can have limits.
    pub fn set_of(&mut self, limit: &str, starts: u32) -> Result<()> {
        check_name("limit", limit)?;
        match self.named.iter().position(|(name, _)| name == limit) {
            Some(at) => self.named[at].1 = starts,
            None if self.named.len() == LIMITS_OF_A_JOB => {
                let problem = format!("is one more than the {LIMITS_OF_A_JOB} limits that a job can have; name those of the job");
                return Err(Error::invalid("limit", limit, problem));
            }
            None => self.named.push((limit.to_owned(), starts)),
        }
        Ok(())
    }

    /// The number for the limits without a separate number, if it was set.
    pub fn all(&self) -> Option<u32> {
        self.all
    }

    /// By limits that are named.
    pub fn named(&self) -> impl ExactSizeIterator<Item = (&str, u32)> {
        self.named.iter().map(|(name, starts)| (name.as_str(), *starts))
    }

    /// For brokers: the number for the limit of a key, if there is one.
    pub fn of(&self, key: &LimitKey) -> Option<u32> {
        self.named.iter().find(|(name, _)| key.is_of(name)).map(|(_, starts)| *starts).or(self.all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_of_one_limit_overrides_that_of_all() {
        let mut used = Used::default();
        used.set_of("tokens", 5).unwrap();
        let of = |used: &Used, name: &str| used.of(&LimitKey::of(name, b"a"));
        assert_eq!((of(&used, "tokens"), of(&used, "calls"), used.all()), (Some(5), None, None));
        used.set(2);
        used.set_of("tokens", 0).unwrap();
        assert_eq!((of(&used, "tokens"), of(&used, "calls")), (Some(0), Some(2)));
        assert_eq!(used.named().collect::<Vec<_>>(), [("tokens", 0)]);
    }

    #[test]
    fn a_limit_that_no_job_can_have_is_refused() {
        let mut used = Used::default();
        for n in 0..LIMITS_OF_A_JOB {
            used.set_of(&format!("limit-{n}"), 1).unwrap();
        }
        used.set_of("limit-3", 9).unwrap();
        let refused = used.set_of("another", 1).unwrap_err().to_string();
        assert!(refused.starts_with("limit `another` is one more than the 8 limits"), "{refused}");
        assert!(used.set_of("", 1).is_err());
    }
}

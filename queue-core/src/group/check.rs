//! Validation of group rules.

use super::{GroupOrder, GroupRule, RuleOf, WEIGHT_MAX};
use crate::error::{Error, Result};

impl GroupRule {
    /// Checks this rule against the rule of all groups: a cap of more than one contradicts a strict
    /// order.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the cap and the fix.
    pub fn check_below(&self, of: &RuleOf, of_all: &GroupRule) -> Result<()> {
        match (self.order, self.cap, of_all.order) {
            (None, Some(cap), Some(order @ (GroupOrder::Ordered | GroupOrder::SkipFailed))) if cap > 1 => {
                let advice = format!("leave it out, or give `{of}` the order `any`");
                let problem = format!("contradicts the order `{order}` of all groups, one job at a time; {advice}");
                Err(Error::invalid("cap", cap.to_string(), problem))
            }
            _ => Ok(()),
        }
    }

    /// Whether the rule is valid for jobs without a group.
    fn check_plain(&self) -> Result<()> {
        let fields = [
            ("cap", self.cap.map(|cap| cap.to_string())),
            ("max_size", self.max_size.map(|size| size.to_string())),
            ("order", self.order.map(|order| order.to_string())),
            ("paused", self.paused.then(|| "true".to_owned())),
        ];
        let wrong = fields.into_iter().find_map(|(field, value)| Some((field, value?)));
        let problem = "cannot be set for jobs without a group, which have only a weight; pause the queue, or give the jobs a group";
        wrong.map_or(Ok(()), |(field, value)| Err(Error::invalid(field, value, problem)))
    }

    /// Whether the rule is valid for these groups.
    ///
    /// # Errors
    /// [`Error::Invalid`] naming field, value, and the way out.
    pub fn check(&self, of: &RuleOf) -> Result<()> {
        match self.weight {
            Some(0) => {
                let problem = "is not between 1 and 1000; to stop the group, pause it";
                return Err(Error::invalid("weight", "0", problem));
            }
            Some(weight) if weight > WEIGHT_MAX => {
                return Err(Error::invalid("weight", weight.to_string(), "is more than 1000; weights are relative: divide all of them"));
            }
            _ => {}
        }
        match (self.order, self.cap) {
            (Some(order @ (GroupOrder::Ordered | GroupOrder::SkipFailed)), Some(cap)) if cap > 1 => {
                let problem = format!("contradicts the order `{order}`, which runs one job at a time; leave one of the two out");
                return Err(Error::invalid("cap", cap.to_string(), problem));
            }
            _ => {}
        }
        if self.max_size == Some(0) {
            return Err(Error::invalid("max_size", "0", "would refuse every job; use at least 1, or leave it out"));
        }
        if *of == RuleOf::Plain {
            self.check_plain()?;
        }
        let is_of_all = matches!(of, RuleOf::Others | RuleOf::Declared);
        if is_of_all && self.paused {
            return Err(Error::invalid("paused", "*", "cannot be set for all groups; pause the queue, or groups by name"));
        }
        if is_of_all && self.cap == Some(0) {
            return Err(Error::invalid("cap", "0", "would close all groups; pause the queue, or close groups by name"));
        }
        Ok(())
    }
}

//! Filters of transitions, which have fewer fields than records of jobs.

use super::{Field, Filter, How, Term};
use crate::{
    address::{JobAddress, JobId},
    broker::{JobState, StoredTransition},
    error::{Error, Result},
};

impl Filter {
    /// Refuses a filter with a term that no transition can answer.
    ///
    /// # Errors
    /// [`Error::Invalid`], which names the term.
    pub(crate) fn check_of_transitions(&self) -> Result<()> {
        let unanswered = |term: &&Term| match term {
            Term::Text { field, .. } => {
                !matches!(field, Field::Task | Field::State | Field::Queue | Field::Id | Field::Reason | Field::Note)
            }
            Term::Attempts(..) => false,
            Term::Older(_) | Term::Newer(_) => true,
        };
        match self.terms.iter().find(unanswered) {
            Some(term) => Err(Error::invalid(
                "filter",
                Filter { terms: vec![term.clone()] }.to_string(),
                "has a field that transitions do not have; use queue, task, id, state, attempts, reason or note, and a search for the others",
            )),
            None => Ok(()),
        }
    }

    /// The one queue in which a matching job can be, if the filter names one: as the queue, or in
    /// the address of a job.
    pub(crate) fn queue(&self) -> Option<String> {
        let named = self.of(&Field::Queue).find_map(|(how, value)| (how == How::Is).then(|| value.to_owned()));
        let address = |value: &str| value.parse::<JobAddress>().ok().map(|address| address.queue.to_string());
        named.or_else(|| self.is_id().find_map(address))
    }

    /// Whether a transition matches. `state` is the new state of the job, or `removed`.
    pub(crate) fn matches_transition(&self, queue: &str, transition: &StoredTransition) -> bool {
        let state = transition.to.map_or("removed", JobState::name);
        let reason_of = |state: JobState| transition.reason.as_deref().filter(|_| transition.to == Some(state)).unwrap_or_default();
        self.terms.iter().all(|term| match term {
            Term::Attempts(compares, number) => compares.holds(transition.attempts, *number),
            Term::Text { field, how, value } => match field {
                Field::Task => how.holds(&transition.task, value),
                Field::State => how.holds(state, value),
                Field::Queue => how.holds(queue, value),
                Field::Id if matches!(how, How::Is | How::IsNot) => is_of(queue, &transition.id, value) == (*how == How::Is),
                Field::Id => how.holds(&transition.id.to_string(), value),
                Field::Reason => how.holds(reason_of(JobState::Dead), value),
                Field::Note => how.holds(reason_of(JobState::Cancelled), value),
                _ => false,
            },
            Term::Older(_) | Term::Newer(_) => false,
        })
    }
}

/// The value is an id, or an address with the queue.
pub(super) fn is_of(queue: &str, id: &JobId, value: &str) -> bool {
    id.to_string() == value || value.parse::<JobAddress>().is_ok_and(|address| *address.queue == *queue && address.id == *id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transition(to: Option<JobState>) -> StoredTransition {
        let mut transition = StoredTransition::new(1, 0, "close-17".parse().expect("it is an id"));
        (transition.task, transition.from, transition.to, transition.attempts) = ("send_mail".to_owned(), Some(JobState::Active), to, 3);
        transition.reason = Some("max_attempts".to_owned()).filter(|_| to == Some(JobState::Dead));
        transition
    }

    #[test]
    fn a_transition_answers_for_its_task_its_state_and_its_reason() {
        let dead = transition(Some(JobState::Dead));
        for wanted in
            ["", "task=send_mail", "state=dead", "queue=mail id=close-17", "reason~attempts", "attempts>=3", "state!=ready", "note="]
        {
            assert!(wanted.parse::<Filter>().unwrap().matches_transition("mail", &dead), "{wanted}");
        }
        for unwanted in ["task=other", "state=done", "queue=orders", "id=close-18", "reason=", "attempts<3"] {
            assert!(!unwanted.parse::<Filter>().unwrap().matches_transition("mail", &dead), "{unwanted}");
        }
        assert!("state~removed".parse::<Filter>().unwrap().matches_transition("mail", &transition(None)));
    }

    #[test]
    fn what_a_transition_does_not_report_is_refused_by_name() {
        for (filter, term) in
            [("task=a payload~x", "payload~x"), ("older=2d", "older"), ("tag.order=17", "tag.order=17"), ("group=acme", "group")]
        {
            let problem = filter.parse::<Filter>().unwrap().check_of_transitions().unwrap_err().to_string();
            assert!(problem.contains(term) && problem.contains("search"), "{problem}");
        }
        assert!("task=a queue=b".parse::<Filter>().unwrap().check_of_transitions().is_ok());
    }

    #[test]
    fn the_address_of_a_job_names_its_queue() {
        let dead = transition(Some(JobState::Dead));
        let one = "id=orders/close-17".parse::<Filter>().unwrap();
        assert!(one.matches_transition("orders", &dead) && !one.matches_transition("mail", &dead));
        let others = "id!=orders/close-17".parse::<Filter>().unwrap();
        assert!(!others.matches_transition("orders", &dead) && others.matches_transition("mail", &dead));
        for (filter, queue) in [
            ("task=a queue=b", Some("b")),
            ("id=orders/close-17", Some("orders")),
            ("id=orders/close-17 queue=mail", Some("mail")),
            ("id=close-17", None),
            ("id!=orders/close-17", None),
            ("id~orders/close-17", None),
        ] {
            assert_eq!(filter.parse::<Filter>().unwrap().queue().as_deref(), queue, "{filter}");
        }
    }
}

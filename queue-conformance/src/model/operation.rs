//! Operations: what people do to all jobs that match, step by step.

use queue_core::{
    JobId, Result,
    broker::{Change, Changed, Operate, Operated, Operation, OperationPart},
};

use super::Model;

impl Model {
    /// The operations that are kept.
    pub fn operations(&self) -> Vec<Operation> {
        self.operations.clone()
    }

    /// One transition of an operation.
    ///
    /// # Errors
    /// None.
    pub fn operate(&mut self, request: &Operate) -> Result<Operated> {
        self.operate_popping(request, &[])
    }

    /// The same for a broker whose lines keep places of jobs that are gone: those that it has taken from the heads of its lines.
    ///
    /// # Errors
    /// None.
    pub fn operate_popping(&mut self, request: &Operate, popped: &[JobId]) -> Result<Operated> {
        let (mut operations, now) = (std::mem::take(&mut self.operations), self.now);
        let answer = request.carry_out(&mut operations, now, |step, started| {
            Ok(match &step.part {
                OperationPart::Change { change, reason, ids, .. } => {
                    let is_concerned = |id: &&JobId| self.jobs.get(*id).is_some_and(|job| step.part.concerns(&job.record(id), started));
                    let concerned: Vec<JobId> = ids.iter().filter(is_concerned).cloned().collect();
                    let mut answers = self.change(*change, reason.as_deref(), &concerned);
                    answers.extend(std::iter::repeat_n(Changed::No, ids.len() - concerned.len()));
                    answers
                }
                OperationPart::Pop => self.change(Change::Delete, None, popped),
            })
        });
        self.operations = operations;
        answer
    }
    /// The times of an operation, as a broker has stored them.
    pub fn adopt_operation(&mut self, stored: &Operation) {
        for known in self.operations.iter_mut().filter(|known| known.id == stored.id) {
            (known.started_ms, known.stepped_ms, known.ended_ms) = (stored.started_ms, stored.stepped_ms, stored.ended_ms);
        }
    }
}

//! The history of a queue: what workers report, and what people read of it.

use queue_core::broker::{
    Counter, OUTBOXES,
    history::{
        FailureKind, HOURS, History, HistorySpan, HistoryUnit, KINDS, OTHERS, Report, SAMPLE, Sample, StoredHistory, TASKS, Tally, told,
    },
};

use super::Model;

impl Model {
    /// Adds what a worker has counted to this minute and to this hour. A replay changes nothing.
    pub fn report(&mut self, report: &Report) {
        let last = self.reporters.entry(report.process).or_default();
        if report.seq <= *last {
            return;
        }
        *last = report.seq;
        for (task, tally) in &report.tasks {
            let task = self.place_of(task, tally.counts.repeated > 0);
            for unit in HistoryUnit::ALL {
                self.row(&task, unit).merge(tally);
            }
        }
        for told in &report.failures {
            self.fail(told);
        }
        if let Some(outbox) = &report.outbox {
            if !self.outboxes.contains_key(&outbox.name()) && self.outboxes.len() >= OUTBOXES {
                let oldest = self.outboxes.iter().min_by_key(|(_, (at, _))| *at).map(|(name, _)| name.clone());
                self.outboxes.remove(&oldest.expect("there are some"));
            }
            self.outboxes.insert(outbox.name(), (self.now, outbox.stored(self.now)));
        }
        let enqueued = self.counters.get(Counter::Enqueued.name()).copied().unwrap_or(0);
        let sample = Sample { ready: self.ready.depth() as u64, enqueued };
        for unit in HistoryUnit::ALL {
            let row = self.row(SAMPLE, unit);
            *row = Sample::of(row).and(sample).tally();
        }
    }

    /// Adds to a kind of failures. A new one takes the place of the one that was not seen for the longest time.
    fn fail(&mut self, told: &FailureKind) {
        let print = told.fingerprint;
        if !self.failures.contains_key(&print) && self.failures.len() >= KINDS {
            let oldest = self.failures.values().map(|kind| (kind.last_at, kind.fingerprint)).min();
            self.failures.remove(&oldest.expect("there are some").1);
        }
        self.failures.entry(print).or_insert_with(|| FailureKind::new(print, "")).merge(told, self.now);
    }

    /// How runs have failed, what was seen last first.
    pub fn failures(&self) -> Vec<FailureKind> {
        told(self.failures.values().cloned().collect(), self.now)
    }

    /// What is kept of this minute or hour. It takes the place of one that is over.
    fn row(&mut self, task: &str, unit: HistoryUnit) -> &mut Tally {
        let period = unit.period(self.now);
        let (of, tally) = self.history.entry((task.to_owned(), unit, unit.place(period))).or_default();
        if *of != period {
            (*of, *tally) = (period, Tally::default());
        }
        tally
    }

    /// The task under which a task is counted.
    fn place_of(&mut self, task: &str, repeats: bool) -> String {
        let hour = HistoryUnit::Hour.period(self.now);
        if task != OTHERS && !self.tasks.contains_key(task) && self.tasks.len() >= TASKS {
            let old = self.tasks.iter().find(|(_, (seen, _))| *seen + HOURS < hour).map(|(task, _)| task.clone());
            let Some(old) = old else { return OTHERS.to_owned() };
            self.tasks.remove(&old);
            self.history.retain(|(task, ..), _| *task != old);
        }
        if task != OTHERS {
            let (seen, repeated) = self.tasks.entry(task.to_owned()).or_default();
            (*seen, *repeated) = (hour, *repeated || repeats);
        }
        task.to_owned()
    }

    /// What happened up to now in this queue, which is named like this.
    pub fn history(&self, queue: &str, span: HistorySpan) -> History {
        let rows = self.history.iter().filter(|((_, unit, _), _)| *unit == span.unit());
        let rows = rows.map(|((task, ..), (period, tally))| (task.clone(), *period, tally.clone())).collect();
        History::read(queue, span, StoredHistory { now_ms: self.now, rows, releases: self.deployed.clone().into_iter().collect() })
    }
}

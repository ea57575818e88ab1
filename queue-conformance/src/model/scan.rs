//! Steps through the jobs of some states.

use std::collections::BTreeSet;

use queue_core::{
    Error, JobId, Result,
    broker::{MAX_BYTES, Scan, Scanned, StoredJob},
    envelope::Envelope,
};

use super::Model;

impl Model {
    /// One step.
    ///
    /// # Errors
    /// For a place that no scan of this kind has made.
    pub fn scan(&self, request: &Scan) -> Result<Scanned> {
        let after = String::from_utf8(request.after.clone().unwrap_or_default()).map_err(|_| no_place())?;
        match request.tag {
            _ if request.states.is_empty() => Ok(Scanned::default()),
            None if !request.meets_movers => self.scan_states(request, &after),
            _ => self.scan_ids(request, &after),
        }
    }

    /// State by state. The place names all jobs that were seen, so that the order does not matter.
    fn scan_states(&self, request: &Scan, after: &str) -> Result<Scanned> {
        let seen = after.split_terminator(' ').map(str::parse).collect::<Result<BTreeSet<JobId>>>();
        let mut seen = seen.map_err(|_| no_place())?;
        let place = |seen: &BTreeSet<JobId>| seen.iter().map(|id| format!("{id} ")).collect::<String>().into_bytes();
        let mut left = request.states.iter().flat_map(|state| self.ids(*state)).filter(|id| !seen.contains(id)).collect::<Vec<_>>();
        let most = self.most_of(left.iter(), request.limit);
        let goes_on = left.len() > most;
        left.truncate(most);
        let mut jobs = Vec::new();
        for id in left {
            seen.insert(id.clone());
            jobs.push((self.jobs[&id].record(&id).listed(), place(&seen)));
        }
        Ok(Scanned::new(jobs, goes_on.then(|| place(&seen))))
    }

    /// All jobs, or those that have a tag, in the order of the bytes of their ids. The place is the last one.
    fn scan_ids(&self, request: &Scan, after: &str) -> Result<Scanned> {
        let after = request.after.as_ref().map(|_| after.parse::<JobId>().map_err(|_| no_place())).transpose()?;
        let is_tagged = |id: &&JobId| {
            let envelope = Envelope::decode(&self.jobs[*id].envelope).ok();
            request.tag.as_ref().is_none_or(|(name, value)| envelope.is_some_and(|envelope| envelope.tags.get(name) == Some(value)))
        };
        let mut all: Vec<&JobId> = self.jobs.keys().filter(is_tagged).collect();
        all.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
        let of = (request.tag.is_some() && after.is_none() && request.counts).then_some(all.len() as u64);
        all.retain(|id| after.as_ref().is_none_or(|after| id.as_bytes() > after.as_bytes()));
        let place = |id: &JobId| id.to_string().into_bytes();
        let most = self.most_of(all.iter().copied(), request.limit);
        let goes_on = all.len() > most;
        all.truncate(most);
        let next = all.last().filter(|_| goes_on).map(|id| place(id));
        let jobs: Vec<StoredJob> = all.iter().map(|id| self.jobs[*id].record(id).listed()).collect();
        let wanted = jobs.into_iter().filter(|job| request.states.contains(&job.state)).map(|job| (place(&job.id), job));
        let scanned = Scanned::new(wanted.map(|(place, job)| (job, place)).collect(), next);
        let looked = if request.tag.is_some() || request.goes_through_all() { all.len() } else { scanned.jobs.len() };
        let mut scanned = scanned.looked_at(looked as u64);
        (scanned.read, scanned.of) = (all.len() as u64, of);
        Ok(scanned)
    }

    /// How many of these jobs one step looks at: it ends with the job with which it has a mebibyte.
    fn most_of<'a>(&self, ids: impl Iterator<Item = &'a JobId>, limit: usize) -> usize {
        let mut size = 0;
        let fits = |id: &&JobId| {
            let fits = size < MAX_BYTES;
            size += self.jobs[*id].envelope.len();
            fits
        };
        ids.take(limit.max(1)).take_while(fits).count()
    }
}

fn no_place() -> Error {
    Error::Invalid { field: "cursor", value: String::new(), problem: "is not a cursor of this broker; start without one".to_owned() }
}

//! Whole workers while a broker, a disk or a process fails.

mod backup;
mod deadlines;
mod end_to_end;
mod full_disk;
mod held_jobs;
mod places;
mod shutdown;
mod sqlite_faults;
mod two_releases;
mod worker_faults;
mod worker_outages;

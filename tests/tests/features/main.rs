//! Each feature by whole clients and workers.

mod any_runtime;
mod blocked;
mod dead_lanes;
mod documents;
mod dropped_futures;
mod enqueue_middleware;
mod groups;
mod history;
mod limits;
mod observed;
mod progress;
mod schedules;
mod settings;
mod startup;
mod tags;
mod topics;
mod watched;

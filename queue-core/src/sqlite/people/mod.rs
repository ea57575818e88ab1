//! What people do: look (`stats`, `workers`, `list`, `show`), and change (`cancel`, `requeue`, `promote`, `delete`, `pause`).

mod cancel;
mod delete;
mod list;
mod pause;
mod promote;
mod record;
mod requeue;
mod show;
mod stats;
mod workers;

pub(crate) use self::{
    cancel::cancel,
    delete::delete,
    list::list,
    pause::set_paused,
    promote::promote,
    requeue::requeue,
    show::show,
    stats::{queues, stats},
    workers::{worker_records, workers},
};

//! What people do: look (`stats`, `list`, `show`), and change (`cancel`, `requeue`, `delete`, `pause`).

mod cancel;
mod delete;
mod list;
mod pause;
mod record;
mod requeue;
mod show;
mod stats;

pub(crate) use self::{
    cancel::cancel,
    delete::delete,
    list::list,
    pause::set_paused,
    requeue::requeue,
    show::show,
    stats::{queues, stats},
};

//! The state that the pump and the runs of jobs share. A duty gets only the parts that it uses.

use std::sync::Arc;

use crate::{
    application::Application, config::Settings, connection::Connection, history::History, identity::Identity, progress::PendingProgress,
    queues::Queues, status::Status,
};

pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) settings: Settings,
    pub(crate) application: Application,
    pub(crate) queues: Queues,
    pub(crate) connection: Arc<Connection>,
    pub(crate) history: Arc<History>,
    pub(crate) status: Arc<Status>,
    pub(crate) progress: Arc<PendingProgress>,
}

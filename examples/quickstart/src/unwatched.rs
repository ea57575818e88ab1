//! Replaces `watched` in a build without the feature `dashboard`.

use std::{path::Path, sync::Arc, time::Duration};

use queue_core::Client;

use crate::{
    error::{Failure, Result},
    places::Places,
    store::Store,
};

/// No value of this type exists.
pub(crate) enum Watched {}

fn none() -> Failure {
    Failure("this build has no dashboard: build it with `--features dashboard`".to_owned())
}

#[expect(clippy::unused_async, reason = "as in `watched`")]
impl Watched {
    pub(crate) async fn begin(_: &Client, _: &Path, _: usize) -> Result<Self> {
        Err(none())
    }

    pub(crate) async fn until(&mut self, _: impl Future<Output = ()>) -> Result<()> {
        match *self {}
    }

    pub(crate) async fn stay(&mut self) -> Result<()> {
        match *self {}
    }

    pub(crate) async fn end(self) -> Result<()> {
        match self {}
    }
}

pub(crate) async fn in_a_process_of_its_own(_: Client, _: &Places, _: Arc<Store>, _: Duration) -> Result<bool> {
    Err(none())
}

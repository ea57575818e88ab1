use queue_core::{DataNeed, Inject, prelude::*};

pub struct Tenant;

impl Inject for Tenant {
    fn inject(_: &JobContext) -> Result<Self, Outcome> {
        Ok(Tenant)
    }

    fn needs() -> Vec<DataNeed> {
        Vec::new()
    }
}

#[task]
async fn send(to: String, tenant: Tenant) {
    drop((to, tenant));
}

fn main() {}

use queue_core::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Customer {
    id: u64,
}

type Tenant = Option<Customer>;

#[task(group = tenant)]
async fn send(tenant: Tenant) {
    drop(tenant);
}

fn main() {
    drop(send::job(None));
}

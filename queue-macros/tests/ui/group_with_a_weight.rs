use queue_core::prelude::*;

#[task(group(by = tenant, weight = 3))]
async fn send(tenant: String) {
    drop(tenant);
}

fn main() {
    drop(send::job(String::new()));
}

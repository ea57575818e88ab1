use queue_core::prelude::*;

#[task(group(by = tenant, cap = 2, order = "ordered"))]
async fn send(tenant: String) {
    drop(tenant);
}

fn main() {
    drop(send::job(String::new()));
}

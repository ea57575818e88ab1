use queue_core::prelude::*;

#[task(group = "acme")]
async fn send(tenant: String) {
    drop(tenant);
}

fn main() {
    drop(send::job(String::new()));
}

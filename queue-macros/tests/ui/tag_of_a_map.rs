use queue_core::prelude::*;

#[task(tag(parts = all))]
async fn send(all: std::collections::HashMap<String, u64>) {
    drop(all);
}

fn main() {
    drop(send::job(Default::default()));
}

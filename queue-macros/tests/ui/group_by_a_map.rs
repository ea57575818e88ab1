use queue_core::prelude::*;

#[task(group = tags)]
async fn send(tags: std::collections::BTreeMap<String, String>) {
    drop(tags);
}

fn main() {
    drop(send::job(Default::default()));
}

use queue_core::prelude::*;

#[task(tag(weight, parts = all))]
async fn send(weight: Option<f32>, all: std::collections::HashMap<String, u64>) {
    drop((weight, all));
}

fn main() {
    drop(send::job(None, Default::default()));
}

use queue_core::prelude::*;

#[task(tag(weight))]
async fn send(weight: Option<f32>) {
    drop(weight);
}

fn main() {
    drop(send::job(None));
}

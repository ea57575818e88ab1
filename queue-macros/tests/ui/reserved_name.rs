use queue_core::prelude::task;

#[task]
async fn send(__queue_call: String) {
    drop(__queue_call);
}

fn main() {}

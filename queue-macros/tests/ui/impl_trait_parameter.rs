use queue_core::prelude::*;

#[task]
async fn send(to: impl Into<String>) {
    let _ = to.into();
}

fn main() {}

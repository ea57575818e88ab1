use queue_core::prelude::*;

#[task]
async fn send(#[serde(rename = "recipient")] to: String) {
    drop(to);
}

fn main() {}

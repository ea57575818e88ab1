use queue_core::prelude::*;

#[task]
async fn send(to: Option<Vec<&'static str>>) {
    let _ = to;
}

fn main() {}

use queue_core::prelude::*;

#[task]
async fn send(to: String) -> Result<&str, String> {
    Err(to)
}

fn main() {}

use queue_core::prelude::*;

#[task]
async fn größe() {}

fn main() {
    drop(größe::job());
}

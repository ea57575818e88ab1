use queue_core::prelude::*;

#[task]
async fn send<T: ToString>(to: T) {
    let _ = to.to_string();
}

fn main() {
    drop(send::job(1));
}

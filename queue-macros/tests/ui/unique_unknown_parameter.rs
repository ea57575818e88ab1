use queue_core::prelude::*;

#[task(unique(by = [usr_id]))]
async fn send(user_id: u64, text: String) {
    drop((user_id, text));
}

fn main() {
    drop(send::job(1, String::new()));
}

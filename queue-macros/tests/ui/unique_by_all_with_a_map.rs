use std::collections::HashMap;

use queue_core::prelude::*;

#[task(unique)]
async fn send(user_id: u64, values: HashMap<String, String>) {
    drop((user_id, values));
}

fn main() {
    drop(send::job(1, HashMap::new()));
}

use queue_core::prelude::*;

struct Shop;

#[task(unique(by = [shop]))]
async fn send(user_id: u64, shop: Data<Shop>) {
    drop((user_id, shop));
}

fn main() {
    drop((send::job(1), Shop));
}

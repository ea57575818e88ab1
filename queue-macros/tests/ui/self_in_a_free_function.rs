use queue_core::prelude::*;

#[task]
async fn close(self, order_id: u64) {}

fn main() {}

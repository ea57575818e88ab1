use std::collections::HashSet;

use queue_core::prelude::*;

#[task(unique)]
async fn index(tags: Vec<HashSet<String>>, shop: u64) {
    let _ = (tags, shop);
}

fn main() {}

use queue_core::prelude::*;

mod other {
    #[derive(serde::Serialize, serde::Deserialize)]
    pub struct HashSet<T>(pub Vec<T>);
}

#[task(unique(by = [tags]))]
async fn index(tags: other::HashSet<String>) {
    let _ = tags;
}

fn main() {}

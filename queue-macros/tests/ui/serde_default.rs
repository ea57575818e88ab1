use queue_core::prelude::*;

#[task]
async fn send(to: String, #[serde(default)] copies: u8) {
    drop((to, copies));
}

fn main() {
    drop(send::job("Ada".to_owned(), 1));
}

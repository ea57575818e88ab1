use queue_core::prelude::*;

fn one() -> u8 {
    1
}

#[task]
async fn send(to: String, #[serde(default = "one")] copies: u8) {
    drop((to, copies));
}

fn main() {
    drop(send::job("Ada".to_owned(), one()));
}

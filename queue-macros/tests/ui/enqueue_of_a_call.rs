use queue_core::prelude::*;

#[task]
async fn send(to: String) {
    drop(to);
}

async fn sends(client: &Client) {
    send("Ada".to_owned()).enqueue(client).await.unwrap();
}

fn main() {
    let _ = sends;
}

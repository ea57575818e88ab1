use queue_core::prelude::*;

#[task]
async fn send(to: String) {
    drop(to);
}

async fn sends(client: &Client) {
    send::enqueue(client, "Ada".to_owned()).await.unwrap();
}

fn main() {
    let _ = sends;
}

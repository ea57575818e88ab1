use queue_core::prelude::*;

type Maybe = Option<u8>;

#[task]
async fn send(level: Option<Maybe>) {
    let _ = level;
}

fn main() {
    drop(send::job(None));
}

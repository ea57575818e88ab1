use queue_core::prelude::*;

type Names = Vec<String>;

#[task(group = names)]
async fn send(names: Names) {
    drop(names);
}

fn main() {
    drop(send::job(Vec::new()));
}

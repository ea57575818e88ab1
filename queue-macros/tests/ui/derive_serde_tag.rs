use queue_core::prelude::*;

#[derive(Task)]
#[serde(tag = "kind")]
struct Send {
    to: String,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { to: String::new() }.job());
}

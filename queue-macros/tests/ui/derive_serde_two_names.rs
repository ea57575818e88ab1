use queue_core::prelude::*;

#[derive(Task)]
struct Send {
    #[serde(rename(serialize = "to", deserialize = "recipient"))]
    to: String,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { to: String::new() }.job());
}

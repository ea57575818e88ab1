use queue_core::prelude::*;

#[derive(Task)]
struct Send {
    to: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    more: Vec<u8>,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { to: String::new(), more: Default::default() }.job());
}

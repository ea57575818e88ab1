use queue_core::prelude::*;

#[derive(Task)]
struct Send {
    to: String,
    #[serde(skip_deserializing)]
    more: u8,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { to: String::new(), more: Default::default() }.job());
}

use queue_core::prelude::*;

#[derive(Task)]
struct Send {
    level: Option<Option<u8>>,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { level: None }.job());
}

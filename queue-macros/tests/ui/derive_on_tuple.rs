use queue_core::prelude::*;

#[derive(Task)]
struct Send(u64);

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send(1).job());
}

use queue_core::prelude::*;

#[derive(Task)]
#[task(blocking)]
struct Send {
    order_id: u64,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { order_id: 1 }.job());
}

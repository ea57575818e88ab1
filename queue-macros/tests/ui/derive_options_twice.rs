use queue_core::prelude::*;

#[derive(Task)]
#[task(max_attempts = 3)]
#[task(queue = "mail")]
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

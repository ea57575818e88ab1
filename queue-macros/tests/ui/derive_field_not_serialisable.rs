use queue_core::prelude::*;

pub struct Order;

#[derive(Task)]
struct Send {
    order: Order,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {}

use queue_core::prelude::*;

#[derive(serde::Serialize)]
pub struct Order;

#[derive(Task)]
struct Send {
    orders: Vec<Order>,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {}

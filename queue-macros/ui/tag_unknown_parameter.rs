use queue_core::prelude::*;

#[task(tag(ordre))]
async fn send(order: u64) {
    drop(order);
}

#[derive(Task)]
#[task(tag(customer = buyer))]
struct Invoice {
    buyers: String,
}

impl Handler for Invoice {
    type Output = ();

    async fn run(self, _: JobContext) {
        drop(self.buyers);
    }
}

#[derive(Event)]
#[event(topic = "orders", tag(number))]
struct OrderPaid {
    order: u64,
}

fn main() {}

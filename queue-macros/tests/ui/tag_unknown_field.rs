use queue_core::prelude::*;

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

fn main() {}

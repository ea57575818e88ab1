use queue_core::prelude::*;

struct Shop;

#[derive(Task)]
struct Send {
    #[inject]
    shop: Data<Shop>,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {}

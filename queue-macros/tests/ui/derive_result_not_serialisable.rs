use queue_core::prelude::*;

pub struct Receipt;

#[derive(Task)]
struct Send {
    order_id: u64,
}

impl Handler for Send {
    type Output = Result<Receipt, std::io::Error>;

    async fn run(self, _: JobContext) -> Self::Output {
        Ok(Receipt)
    }
}

fn main() {
    drop(Send { order_id: 1 }.job());
}

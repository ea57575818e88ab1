use queue_core::prelude::*;

#[derive(Task)]
#[task(unique(by = [user]))]
struct Send {
    user_id: u64,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { user_id: 1 }.job());
}

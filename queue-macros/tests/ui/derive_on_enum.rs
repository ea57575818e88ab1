use queue_core::prelude::*;

#[derive(Task)]
enum Send {
    Mail,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send::Mail.job());
}

use queue_core::prelude::*;

#[derive(Task)]
struct Send {
    to: &'static str,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Send { to: "Ada" }.job());
}

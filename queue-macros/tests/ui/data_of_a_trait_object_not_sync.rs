use queue_core::prelude::*;

trait Mailer {
    fn send(&self, to: &str);
}

#[task]
async fn send(mailer: Data<dyn Mailer>) {
    mailer.send("Ada");
}

fn main() {}

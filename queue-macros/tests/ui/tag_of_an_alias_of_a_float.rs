use queue_core::prelude::*;

type Rate = f64;

#[derive(Event)]
#[event(topic = "rates", tag(rate))]
struct Changed {
    rate: Option<Rate>,
}

fn main() {
    drop(Changed { rate: None }.event());
}

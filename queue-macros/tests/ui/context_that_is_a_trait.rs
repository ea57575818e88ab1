use queue_core::prelude::*;

mod errors {
    pub trait Context {}
}
use errors::Context;

#[task]
async fn send(ctx: Context) {
    let _ = ctx;
}

fn main() {}

use queue_core::prelude::*;

mod errors {
    pub trait Context {}
    pub struct JobContext;
}

#[task]
async fn send(ctx: errors::JobContext) {
    let _ = ctx;
}

fn main() {}

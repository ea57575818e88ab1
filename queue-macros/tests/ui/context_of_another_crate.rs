use queue_core::prelude::*;

use std::task::Context;

#[task]
async fn send(ctx: Context<'static>) {
    let _ = ctx;
}

fn main() {}

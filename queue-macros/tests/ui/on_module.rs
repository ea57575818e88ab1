use queue_core::prelude::*;

#[task]
mod tasks {}

fn main() {}

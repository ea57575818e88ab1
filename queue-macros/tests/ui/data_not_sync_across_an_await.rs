use queue_core::prelude::*;

use std::cell::RefCell;

pub struct State {
    seen: RefCell<Vec<String>>,
}

async fn deliver(to: &str) -> std::io::Result<()> {
    drop(to);
    Ok(())
}

#[task]
async fn send(to: String, state: Data<State>) -> std::io::Result<()> {
    deliver(&to).await?;
    state.seen.borrow_mut().push(to);
    Ok(())
}

fn main() {}

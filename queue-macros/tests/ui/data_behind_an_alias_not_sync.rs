use queue_core::prelude::*;

use std::rc::Rc;

type State = Data<Rc<String>>;

#[task]
async fn send(#[inject] state: State) {
    drop(state);
}

fn main() {}

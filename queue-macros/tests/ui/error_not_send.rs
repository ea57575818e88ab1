use queue_core::prelude::*;

use std::rc::Rc;

#[derive(Debug)]
pub struct Refused(Rc<u64>);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "order {} is refused", self.0)
    }
}

impl std::error::Error for Refused {}

#[task]
async fn send(order_id: u64) -> Result<(), Refused> {
    Err(Refused(Rc::new(order_id)))
}

fn main() {
    drop(send::job(1));
}

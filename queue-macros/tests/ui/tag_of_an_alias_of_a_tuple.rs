use queue_core::prelude::*;

type Place = (u8, u8);

#[derive(Task)]
#[task(tag(place))]
struct Move {
    place: Place,
}

impl Handler for Move {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

fn main() {
    drop(Move { place: (1, 2) }.job());
}

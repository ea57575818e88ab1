//! A task, a parameter and a default may have any name, also those that the expansion could have used.

use queue_core::prelude::{Task, task};

#[allow(dead_code, reason = "its names only have to be in the way")]
mod hostile {
    pub struct Vec;
    pub struct Option;
    pub struct Result;
    pub struct Box;
    pub struct String;
    pub fn drop() {}
}
#[allow(unused_imports, reason = "as above")]
use hostile::*;

#[task]
async fn run(call: u8, payload: u16, context: u32, json: u64, object: i8, end: i16) {
    let _ = (call, payload, context, json, object, end);
}

#[task]
async fn states(#[default(payload())] value_0: u8, #[default(context())] value_1: u8) {
    let _ = (value_0, value_1);
}

fn payload() -> u8 {
    1
}

fn context() -> u8 {
    2
}

#[task]
async fn arguments(value_1: u8, value_0: u8) {
    let _ = (value_1, value_0);
}

#[task]
async fn payload_from_json(__payload: u8) {
    let _ = __payload;
}

#[task(blocking)]
fn end(needs: u8) {
    let _ = needs;
}

#[task]
async fn job(job: u8) {
    let _ = job;
}

macro_rules! tasks {
    ($($name:ident($param:ident: $ty:ty = $default:expr)),*) => {
        $(
            #[task(queue = "made")]
            async fn $name($param: $ty, #[default($default)] copies: u8, #[default] more: u8, fixed: u8) {
                let _ = ($param, copies, more, fixed);
            }
        )*
    };
}

tasks!(first(to: u32 = 1), second(order: Vec2 = 2));

type Vec2 = (u8, u8);

#[test]
fn tasks_may_have_any_name() {
    let _ = (run::job(1, 2, 3, 4, 5, 6), states::job(1, 2), arguments::job(1, 2), payload_from_json::job(1), end::job(1), job::job(1));
    let _ = (first::job(1, 2, 3, 4), second::job((1, 2), 3, 4, 5));
    assert_eq!(second::definition().params[0].name, "order");

    #[task]
    async fn inside(of: Local) {
        let _ = of;
    }
    type Local = u8;
    let _ = inside::job(3);
}

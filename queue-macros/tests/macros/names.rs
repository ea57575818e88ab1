//! A task, a parameter and a default may have any name. Names that an expansion could use are also
//! valid.

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

/// The names that expansions have bound, as names of tasks. Each task takes one parameter with its
/// own name and one with another name.
macro_rules! named {
    ($($name:ident),* $(,)?) => {
        mod plain {
            use ::queue_core::prelude::task;
            $(#[task] async fn $name($name: u8, #[default] other: u8) { let _ = ($name, other); })*
        }
        mod blocking {
            use ::queue_core::prelude::task;
            $(#[task(blocking)] fn $name(other: u8, $name: Option<u8>) { let _ = ($name, other); })*
        }
        mod injected {
            use ::queue_core::prelude::{Data, JobContext, task};
            $(#[task(name = "i")] async fn $name($name: Data<u8>, ctx: JobContext) { let _ = ($name, ctx); })*
        }
        mod defaults {
            use ::queue_core::prelude::task;
            $(
                mod $name {
                    #[super::task(schedule(every = "1m", args(of = $name())))]
                    async fn with(#[default($name())] of: u8) { let _ = of; }
                    fn $name() -> u8 { 1 }
                }
            )*
        }
        mod constants {
            $(
                mod $name {
                    use ::queue_core::prelude::{Data, Event, Handler, JobContext, Task, subscribe, task};

                    #[allow(non_upper_case_globals, dead_code, reason = "it would be in the way of a pattern of this name")]
                    const $name: u8 = 1;

                    #[task(
                        unique(by = [of], payload = "first", on_conflict = "replace"), limit(by = [of], concurrency = 1),
                        group(by = of, cap = 2), schedule(every = "1m", args(of = $name))
                    )]
                    async fn with(#[default($name)] of: u8, ctx: JobContext) { let _ = (of, ctx); }

                    #[task(blocking)]
                    fn with_blocking(of: u8, shop: Data<u8>) { let _ = (of, shop); }

                    #[derive(Task)]
                    struct Derived { #[default($name)] of: u8 }

                    impl Handler for Derived {
                        type Output = ();
                        async fn run(self, _: JobContext) { let _ = self.of; }
                    }

                    #[derive(Event)]
                    #[event(topic = "named")]
                    struct Happened { #[default($name)] of: u8 }

                    #[subscribe(name = "heard", from = "now")]
                    async fn hear(of: Happened, shop: Data<u8>) { let _ = (of.of, shop); }
                }
            )*
        }
    };
}

named!(
    call, payload, context, json, object, end, needs, def, unique, value, value_0, value_1, bytes, found, run, arguments, check, handler,
    definition, from_json, access, core, std, queue_core, drop, str, text, by, job, topic, address
);

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

//! All valid forms of the option `unique`.
#![allow(dead_code, unused_variables, reason = "what the tasks do is not the point")]

use std::collections::HashSet;

use queue_core::prelude::*;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Order {
    id: u64,
    r#type: String,
}

#[task(unique)]
async fn all(_user_id: u64) {}

#[task(unique())]
async fn nothing_said(user_id: u64) {}

#[task(unique(by = []))]
async fn one_at_a_time(user_id: u64, rate: f64) {}

#[task(unique(by = [user_id, order.id, order.r#type], until = "started", on_conflict = "replace", payload = "first"))]
async fn some(user_id: u64, order: Order, rate: f64, payload: String) {}

#[task(queue = "mail", unique(by = [r#type,], within = "1h 30m"))]
async fn keyword(r#type: Option<String>) {}

#[task(unique(until = "ended", on_conflict = "buffer_one"), blocking)]
fn once_more(numbers: Vec<u8>, place: (i8, [u16; 2])) {}

/// A set of the standard library is stored sorted, and may be a part of a key.
#[task(unique, limit(name = "tags", by = [tags], concurrency = 1))]
async fn of_sets(tags: HashSet<String>, more: Option<std::collections::HashSet<u8, std::hash::RandomState>>) {}

#[derive(Task)]
#[task(unique(by = [tags]))]
struct OfASet {
    tags: HashSet<String>,
}

impl Handler for OfASet {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[derive(Task)]
#[task(unique(by = [order.id], on_conflict = "skip"))]
struct Send {
    order: Order,
}

impl Handler for Send {
    type Output = ();

    async fn run(self, _: JobContext) {}
}

#[test]
fn jobs_may_be_unique_in_every_way() {
    let unique = <some as queue_core::Task>::definition().unique.unwrap();
    assert_eq!(unique.by, Some(&["user_id", "order.id", "order.type"][..]));
    assert!(unique.keep_payload);
    assert!(<all as queue_core::Task>::definition().unique.unwrap().by.is_none());
    assert_eq!(<keyword as queue_core::Task>::definition().unique.unwrap().by, Some(&["type"][..]));
}

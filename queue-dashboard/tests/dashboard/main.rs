//! The pages as answers, and in a Chromium.

mod chromium;
mod common;
mod findings;
mod forms;
mod live;
mod million;
mod pages;
mod safety;
mod sign_in;
mod slow;

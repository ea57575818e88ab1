//! The pages as a browser gets them, and in a Chromium.

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

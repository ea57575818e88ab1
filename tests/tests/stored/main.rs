//! The data in a broker: every encoding, other programs that read and write it, and its repair.

mod auditor;
mod decoders;
mod encodings;
mod foreign;
mod keys;
mod lost_jobs;
mod other_types;
mod payload_compat;
mod searches;
mod soak;
mod values;
mod walks;

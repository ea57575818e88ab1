//! The tests of `queue-macros`: see `macros/main.rs`.

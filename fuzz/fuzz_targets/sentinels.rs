#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| queue_core::__private::fuzz::sentinels(bytes));

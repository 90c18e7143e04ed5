#![no_main]
//! See [`helmops_fuzz::constraint`].

libfuzzer_sys::fuzz_target!(|input: &[u8]| helmops_fuzz::constraint::check(input));

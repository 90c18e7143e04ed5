#![no_main]
//! See [`helmops_fuzz::challenge`].

libfuzzer_sys::fuzz_target!(|input: &[u8]| helmops_fuzz::challenge::check(input));

#![no_main]
//! See [`helmops_fuzz::index`].

libfuzzer_sys::fuzz_target!(|input: &[u8]| helmops_fuzz::index::check(input));

#![no_main]
//! See [`helmops_fuzz::link`].

libfuzzer_sys::fuzz_target!(|input: &[u8]| helmops_fuzz::link::check(input));

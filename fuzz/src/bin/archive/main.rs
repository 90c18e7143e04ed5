#![no_main]
//! See [`helmops_fuzz::archive`].

libfuzzer_sys::fuzz_target!(|input: &[u8]| helmops_fuzz::archive::check(input));

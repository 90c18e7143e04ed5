#![no_main]
//! See [`helmops_fuzz::yaml`].

libfuzzer_sys::fuzz_target!(|input: &[u8]| helmops_fuzz::yaml::check(input));

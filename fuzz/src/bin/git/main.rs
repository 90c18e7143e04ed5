#![no_main]
//! See [`helmops_fuzz::git`].

libfuzzer_sys::fuzz_target!(|input: &[u8]| helmops_fuzz::git::check(input));

//! Helmops installed as its users do, on a control plane with nothing in it.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as told"
)]

mod manifests;
mod readme;
mod rights;

use std::path::Path;

use helmops_tests::control_plane::Options;
use helmops_tests::test_bed::TestBed;

async fn empty() -> TestBed {
    let testbed = Path::new(env!("CARGO_BIN_EXE_testbed"));
    TestBed::start(testbed, &Options::default()).await.unwrap()
}

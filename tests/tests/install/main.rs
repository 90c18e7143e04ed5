//! Installs helmops as its users do, on an empty control plane.

#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails where something is not as expected"
)]

mod manifests;
mod permissions;
mod readme;

use std::path::Path;

use helmops_tests::control_plane::Options;
use helmops_tests::test_bed::TestBed;

async fn empty() -> TestBed {
    let testbed = Path::new(env!("CARGO_BIN_EXE_testbed"));
    TestBed::start(testbed, &Options::default()).await.unwrap()
}

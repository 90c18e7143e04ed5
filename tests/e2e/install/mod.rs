//! Installs helmops as its users do, on an empty control plane.

mod local;
mod manifests;
mod permissions;
mod quickstart;
pub mod readme;
mod secrets;

use helmops_bed::control_plane::Options;
use helmops_bed::test_bed::TestBed;

async fn empty() -> TestBed {
    TestBed::start(&Options::default()).await.unwrap()
}

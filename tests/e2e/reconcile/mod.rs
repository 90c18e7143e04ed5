//! From HelmOps to Bundles, and their status.

mod beside_fleet;
mod bundles;
mod crds;
mod crds_of_fleet;
mod newer_crds;
mod status;
mod writes;

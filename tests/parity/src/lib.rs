//! Deploys the charts of a folder twice, with Helm on one control plane and as HelmOps on another, and compares the results.
//!
//! ```text
//! archives ─► `suite` (`claims`: which may run at the same time) ─► `run`: install, upgrade, remove
//!                                                                  ├─ `by_helm`    on one `side`  ─┐
//!                                                                  └─ `by_helmops` on the other   ─┴─► `compare` ─► `results` ─► `report`
//! ```
//!
//! folders with HelmReleases ─► `conversion`: `kubectl helmop create --from-helmrelease`, and its HelmOps beside them
//!
//! What differs between two renderings of the same chart (`random`) and what the API server chooses (`clean`) is not compared.

pub mod archive;
pub mod by_helm;
pub mod by_helmops;
pub mod claims;
pub mod clean;
pub mod compare;
pub mod conversion;
pub mod kinds;
pub mod object;
pub mod random;
pub mod record;
pub mod report;
pub mod results;
pub mod run;
pub mod side;
pub mod suite;

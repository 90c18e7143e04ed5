//! Benchmark of the agent: the releases of many BundleDeployments, from their creation to their removal.
//!
//! ```text
//! scenario ─► environment ─► run: deploy ─► idle ─► restart ─► drift ─► remove ─► by_hand ─► report
//!                              └─► meter (agent, children)
//! ```
//!
//! For comparison, Helm is run by hand for the same charts on the same API server, as many processes at a time as the agent runs.

pub mod scenario;

pub mod environment;

pub mod children;
pub mod meter;

pub mod by_hand;
pub mod drift;

pub mod run;

pub mod report;

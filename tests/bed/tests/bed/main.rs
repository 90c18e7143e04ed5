//! The test bed itself, which all other cluster tests use.

mod chart_sources;
mod kubelet;
mod lifetime;
mod objects;

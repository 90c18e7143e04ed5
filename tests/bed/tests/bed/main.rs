//! The test bed itself, which all other cluster tests use.

mod chart_sources;
mod lifetime;
mod objects;

//! `kubectl helmop`, run by the real kubectl as a plugin.

mod changes;
mod ui;
mod state;
mod validate;
mod charts;
mod check;
mod clusters;
mod tokens;
pub mod two_clusters;
mod create;
mod versions;
mod diff;
mod proxies;
mod environment;

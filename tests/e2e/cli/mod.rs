//! `kubectl helmop`, run by the real kubectl as a plugin.

mod check;
mod clusters;
mod two_clusters;

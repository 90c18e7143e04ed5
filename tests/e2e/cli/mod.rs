//! `kubectl helmop`, run by the real kubectl as a plugin.

mod changes;
mod ui;

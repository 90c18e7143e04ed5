//! Charts of a repository on this machine, and the files that are left of them.

mod cache;
mod content;
mod downloads;
mod server;

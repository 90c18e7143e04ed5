//! `ui`: HelmOps, clusters and roll-outs in the browser, live and read-only.
//!
//! A server on loopback reads with the kubeconfig of the user. Its pages are static; all that they show is a view: a value in JSON
//! that is computed from the objects of the cluster, sent again when it changes.
//!
//! ```text
//! watch ─► tables ─► feed (objects ─► view) ─► hub (one feed for all pages that show the same) ─► stream ─► page
//!                                                                                              ▲
//!                                   request ─► access (Host, Origin, session) ─► server ───────┘
//! ```

mod access;
mod assets;
mod browser;
mod feed;
mod hub;
mod run;
mod server;
mod session;
mod stream;
mod tables;
mod topic;
mod view;

pub use self::{
    run::{UiArgs, run},
    view::rollout::{Phase, partitions},
};

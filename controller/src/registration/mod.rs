//! The registration loops: agents register their clusters themselves, in the format of Fleet.
//!
//! | loop | key | what it does |
//! |---|---|---|
//! | tokens | ClusterRegistrationToken | its account, and the Secret with the values for an agent; deletes it when it has expired |
//! | requests | workspace | what `helmops_core::registration` decides about all ClusterRegistrations of the workspace |
//!
//! The workqueue runs one reconciliation of a key at a time. So the requests of a workspace are decided one after the other, on what was just
//! read, and two requests of one client cannot both be the newest one. The account of an agent is maintained by the loop of Clusters, as long
//! as the ClusterRegistration exists.

mod cluster;
mod credential;
mod error;
mod options;
mod requests;
mod tokens;

pub use self::{error::RegistrationError, options::RegistrationOptions, requests::reconcile, tokens::Tokens};

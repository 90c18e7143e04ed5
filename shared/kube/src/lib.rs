//! What helmops processes that talk to the API server have in common: the client, watches, and the cache of Policies.

mod connect;
mod policies;
mod policy_store;
mod watch;

pub use connect::{ConnectError, configuration, connect};
pub use policies::{PolicyCache, PolicyChange};
pub use watch::{backoff_without_init, is_absent};

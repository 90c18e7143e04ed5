//! The client for the API server and the Policy cache, behind the feature `cluster`.

mod cache;
mod changes;
mod connect;
mod own_namespace;
mod policies;
mod watch;

pub use cache::{Cache, Fold, ObjectCache, Presence};
pub use changes::{Change, Item, WatchedObjects};
pub use connect::{ConnectError, configuration, connect};
pub use own_namespace::own_namespace;
pub use policies::{PolicyCache, PolicyChange};
pub use watch::{backoff_without_init, is_absent};

//! What helmops processes that talk to the API server have in common: the client, watches, caches, and leader election.

#![warn(missing_docs)]

mod cache;
mod changes;
mod connect;
mod index;
mod keys;
mod kubeconfig;
pub mod lease;
mod path;
mod proxy;
mod responses;
mod stream_set;
mod uncached;
mod watch;

pub use cache::{Cache, Fold, ObjectCache, Presence};
pub use changes::{Change, Item, ObservedVersion, WatchedObjects, identity};
pub use connect::{ConnectError, client, configuration, connect, set_user_agent};
pub use index::Index;
pub use keys::{key, key_of, name_of};
pub use kubeconfig::{UnusableKubeconfig, config_of, inferred};
pub use path::path_segment;
pub use proxy::InvalidProxy;
pub use responses::{client_of, with_managers};
pub use stream_set::StreamSet;
pub use uncached::{NOT_RELEASES, uncached_changes};
pub use watch::{
    WatchResult, empty_if_absent, is_unreachable, unpaused, watch, watch_one, watch_results, with_backoff,
    without_absent, without_errors,
};

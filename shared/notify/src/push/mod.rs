//! Pushes that registries announce: from a request to the HelmOps that are polled.
//!
//! ```text
//! request ─► path ─► Entry ─► proof ─► body ─► Announcement ─► replay, rate ─► record ─► status.pushes of the Receiver
//!                                                                                          │
//! ```
//!
//! The exposed process uses the upper half, and the notifier the lower one.

mod body;
mod credentials;
mod entry;
mod headers;
mod identity_token;
mod matching;
mod path;
mod polls;
mod proof;
mod receiver_type;
mod record;
mod replay;
mod repository;
mod secret;

pub use body::{BodyError, announcements};
pub use credentials::{Credentials, ProofError};
pub use entry::{Entry, EntryError, GOOGLE_KEYS, MAX_ENTRIES_BYTES, MAX_NAMESPACE_BYTES, SECRET};
pub use headers::Headers;
pub use identity_token::{GoogleKeys, KeysError};
pub use matching::Followed;
pub use path::{PATH_PREFIX, digest_in, path_digest, webhook_path};
pub use polls::{followed_by, is_polled};
pub use proof::verify;
pub use receiver_type::ReceiverType;
pub use record::{MAX_PUSHES, is_of_all, pending, recorded, set_handled};
pub use replay::{ReplayWindow, RequestDigest};
pub use repository::Announcement;
pub use secret::{MIN_TOKEN, Token};

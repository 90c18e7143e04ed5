//! The serving certificates of the helmops webhook: issue, manage, load, reload.
//!
//! ```text
//! managed: the webhook itself ─────────────► Secret, caBundle ──────────────────► CertResolver ─► TLS handshakes
//! helmops-certs issue ─► tls.crt, tls.key ─► Secret ─► mounted files ─► watch ─► CertResolver ─► TLS handshakes
//! cert-manager ────────────────────────────────┘       (every few seconds, by content)
//! ```
//!
//! A pair that does not load, or whose key does not match the certificate, never replaces a valid one: the last valid pair is
//! served until the next valid one. Open connections are not affected.

pub mod causes;
pub mod clients;
pub mod resolver;
pub mod issue;
#[cfg(feature = "managed")]
pub mod managed;
pub mod pair;
pub mod reload;
pub mod trust;

pub use clients::{ClientCaError, Clients, server_config_for};
pub use issue::{Ca, IssueError, Leaf, issue_ca, issue_leaf};
pub use pair::{PairError, PairPaths, PemFile, ServingPair, Validity};
pub use reload::{ReloadEvent, watch};
pub use resolver::{CertResolver, server_config};

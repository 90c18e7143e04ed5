//! The serving certificates of the helmops webhook: issue, keep, load, reload.
//!
//! ```text
//! managed: the webhook itself ─────────────► Secret, caBundle ────────────────────► HotPair ─► TLS handshakes
//! helmops-certs issue ─► tls.crt, tls.key ─► Secret ─► mounted files ─► watch ─► HotPair ─► TLS handshakes
//! cert-manager ────────────────────────────────┘         (every few seconds, by content)
//! ```
//!
//! A pair that does not load, or whose key is not the certificate's, never replaces one that does: the last
//! good pair is served until a better one appears. Connections that are open stay as they are.

pub mod causes;
pub mod clients;
pub mod hot;
pub mod issue;
#[cfg(feature = "managed")]
pub mod managed;
pub mod pair;
pub mod reload;

pub use clients::{ClientCaError, Clients, server_config_for};
pub use hot::{CertResolver, server_config};
pub use issue::{Ca, IssueError, Leaf, issue_ca, issue_leaf};
pub use pair::{PairError, PairPaths, PemFile, ServingPair, Validity};
pub use reload::{ReloadEvent, watch};

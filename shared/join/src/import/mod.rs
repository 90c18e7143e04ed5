//! The import of a cluster by its kubeconfig: what may be used of the kubeconfig, what is on the cluster already, and what follows.
//!
//! ```text
//! Secret ─► kubeconfig: access to the target, or why it is refused ─┐
//! responses of the target ─► target: the few fields that matter ────┼─► plan: refusal, or what is written
//! annotation of the Cluster ─► record: what was imported before ────┘
//! ```
//!
//! The kubeconfig and everything that its server sends are from users, who may be hostile.

pub mod kubeconfig;
pub mod plan;
pub mod record;
pub mod target;

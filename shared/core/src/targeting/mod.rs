//! Which clusters a Bundle targets, what each of them gets, and when.
//!
//! ```text
//! scope ─────► criteria ─► matching ─► merge ─► values ───► identity ─► target ─► rollout ─► deployment ─────► delivery
//! searched     clusters    its         its      labels,     deployment  desired   next       BundleDeployment  writes, in
//! namespaces               targets     options  templates   ID          state     step       to write          order
//! ```
//!
//! The same Bundles and Clusters give the same deployments as in Fleet, with the same IDs, so that no agent deploys again
//! when this controller takes over. `docs/from-fleet.md` lists the differences, and the surprising behavior of Fleet that is
//! kept because clusters would change otherwise.

mod batch;
pub mod blocked;
pub mod chart_record;
pub mod cluster_namespace;
pub mod copies;
pub mod criteria;
pub mod delivery;
pub mod deployment;
pub mod desired;
pub mod identity;
pub(crate) mod index;
mod interner;
pub mod matching;
pub mod merge;
pub mod rollout;
pub mod scope;
pub mod target;
pub mod values;

pub use self::{
    blocked::{BlockClass, Blocked},
    cluster_namespace::{NamespaceRefused, namespace_of},
    criteria::{Group, Member},
    deployment::deployment,
    rollout::{GateRequest, GateState, GateStates, Rollout, RolloutStep, plan},
    target::{Target, TargetError, cluster_of, orphans, strays, targets},
};

//! Delivery of a Bundle to a cluster: the writes that bring its BundleDeployment and the copies to their desired state.
//!
//! ```text
//! caches ─► ClusterState ─► blocked ─► (rollout) ─► reads ──────────► plan ─────► apply
//!           observed        why it     which step   objects that the  actions,    in the controller: executes them,
//!           state           cannot be  is next      caches do not     in order    and stops at the first error
//!                           delivered               decide
//! ```
//!
//! All decisions are made here, from values. Each [`Action`] is one write. A process can end between any two of them: the next
//! round observes what was written, and plans the rest.
//!
//! The steps are methods of [`BundleDelivery`], which has what is the same for all clusters:
//!
//! | method | file | |
//! |---|---|---|
//! | `new`, `cache_filter` | `bundle` | the Bundle and its sources; what is needed from the caches |
//! | `blocked` | `conflicts` | why nothing can be delivered |
//! | `reads` | `reads` | what must be read before `plan` is called: both use the same conditions |
//! | `plan` | `plan`, `owners`, `prune` | the actions |
//!
//! # Guarantees
//!
//! Each one is a test in `tests/`.
//!
//! - **Copies first.** All copies that a deployment needs exist before it is created, or before it is changed to need them.
//! - **Values follow an existing deployment.** A new deployment is created after its values. An existing one is written before
//!   its values, because it has their hash: its agent deploys nothing until both match.
//! - **Values are never lost.** The values of the current deployment are replaced only if they are stored elsewhere or desired
//!   no longer. If they are known from nowhere, the deployment waits for values and its Secret is left as it is. Before a
//!   Secret is overwritten or deleted because it has no deployment, the API server confirms that there is none.
//! - **Interruptions converge.** If any part of a plan is executed, further rounds lead to the same state as the whole plan.
//! - **Two writes for a new deployment**: its values, then the deployment itself. Each other copy needs two more, because only
//!   an existing deployment can own it.
//! - **Ownership.** Copies are owned by the deployments that need them, so that they are deleted together. The Secret with
//!   values may have no owner: it has the name of its deployment, gets the owner with its next write, and is deleted by
//!   [`leftovers`] when the deployment does not exist any more.
//! - **Objects of others stay.** An object that neither this controller nor Fleet's created for the same purpose blocks the
//!   cluster. A copy that Fleet's controller created is adopted, and is left unchanged if it has the desired content.
//! - **Nothing changes, nothing is written.** The plan for a deployment that is up to date is empty.
//! - **A blocked cluster gets nothing**, and does not use up the limits of the rollout: its target has no desired state.

mod action;
mod bundle;
mod conflicts;
mod observed;
mod owners;
mod plan;
mod prune;
mod reads;

pub use self::{
    action::{Action, CopyWrite, ObjectVersion, Plan},
    bundle::{BundleDelivery, CacheFilter, Sources},
    observed::{CachedDeployment, ClusterState, Read},
    prune::{Decisive, Unseen, is_orphan_for_certain, leftovers, may_be_of, release},
};

#[cfg(test)]
mod tests;

//! Commands that change HelmOps, and wait for the result: `reconcile`, `poll`, `suspend`, `resume`, `rollback`, `rollout`, `approve`, `wait`.
//!
//! ```text
//! selection (names, -l, --all) ─► a patch ─► the API server ─► observed (HelmOp, Bundle, BundleDeployments) ─► verdict ─► line
//! ```

pub mod approve;
pub mod observed;
pub mod patch;
pub mod poll;
pub mod reconcile;
pub mod rollback;
pub mod rollout;
pub mod selection;
pub mod suspend;
pub mod verdict;
pub mod wait;
pub mod waiting;
